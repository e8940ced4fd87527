"""What JSON weighs together with the values read from it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from msgspec import Raw

from antiphon.server.calls.call_weight import weight_of

VALUES: dict[str, Any] = {
    "ascii": {"text": "x" * 100_000},
    "latin": {"text": "\u00e9" * 50_000},
    "chinese": {"text": "\u6570" * 50_000},
    "one wide character": {"text": "x" * 100_000 + "\U0001f600"},
    "short strings": {"texts": [f"text {n}" for n in range(10_000)]},
    "numbers": {"numbers": [n + 0.5 for n in range(20_000)]},
    "empty arrays": {"lists": [[] for _ in range(20_000)]},
    "objects": {"rows": [{"name": f"n{n}", "count": n + 1000} for n in range(5_000)]},
}


def size_of(value: Any) -> int:
    """Return what a value has in memory, with all that is in it."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(size_of(name) + size_of(member) for name, member in value.items())
    return size + sum(size_of(member) for member in value) if isinstance(value, list) else size


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("escapes", [True, False], ids=["escaped", "plain"])
def test_it_weighs_at_least_what_it_is(kind: str, escapes: bool) -> None:
    """The JSON and the values: never less, and not many times as much, or calls would be evicted for nothing."""
    data = json.dumps(VALUES[kind], ensure_ascii=escapes).encode()
    real = len(data) + size_of(json.loads(data))
    assert real * 0.95 <= weight_of(data) <= real * 5 + 4096
    assert weight_of(Raw(data)) == weight_of(data)


def test_a_small_message_is_not_looked_at() -> None:
    """The overhead of a call has room for what comes of it."""
    assert weight_of(b"[]" * 10) == 40
