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


@pytest.mark.parametrize("kind", VALUES)
def test_a_large_message_is_weighed_by_a_sample(kind: str) -> None:
    """Nearly as well: what is heavy in it lies in many places, and a wide character anywhere is found."""
    data = json.dumps([["x" * 1_500_000], *[VALUES[kind]] * 12, ["x" * 1_500_000]], ensure_ascii=False).encode()
    real = len(data) + size_of(json.loads(data))
    assert real * 0.8 <= weight_of(data) <= real * 5


def test_a_wide_character_is_found_in_a_large_text() -> None:
    """It makes every character of its string four bytes wide, wherever it stands."""
    text = "x" * 3_000_000 + "\U0001f600" + "x" * 1_000_000
    for is_ascii in (True, False):
        weight = weight_of(json.dumps(text, ensure_ascii=is_ascii).encode())
        assert weight >= 0.99 * (len(text) + size_of(text))


def test_a_small_message_is_not_looked_at() -> None:
    """The overhead of a call has room for what comes of it."""
    assert weight_of(b"[]" * 10) == 40
