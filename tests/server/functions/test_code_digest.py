"""The digest of a handler's code: another one for other code, the same wherever it is defined."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from antiphon.server.functions.code_digest import digest_code

SOURCES = {
    "original": "def f(x):\n    return x in {'a', 'b', 'c'} and (lambda y: y + 1)(2)",
    "a constant": "def f(x):\n    return x in {'a', 'b', 'd'} and (lambda y: y + 1)(2)",
    "an inner function": "def f(x):\n    return x in {'a', 'b', 'c'} and (lambda y: y + 2)(2)",
    "an instruction": "def f(x):\n    return x in {'a', 'b', 'c'} or (lambda y: y + 1)(2)",
    "a name": "def f(x):\n    return z in {'a', 'b', 'c'} and (lambda y: y + 1)(2)",
}


def made(source: str, filename: str = "one.py") -> Callable[..., Any]:
    """Define the function ``f`` of a source."""
    names: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), names)
    return names["f"]


@pytest.mark.parametrize("change", [name for name in SOURCES if name != "original"])
def test_every_change_counts(change: str) -> None:
    """Instructions, names, constants, and those of inner functions."""
    assert digest_code(made(SOURCES[change])) != digest_code(made(SOURCES["original"]))


def test_place_does_not_count() -> None:
    """Neither the file nor the line nor comments."""
    moved = "# a comment\n\n\n" + SOURCES["original"]
    assert digest_code(made(moved, "/elsewhere/two.py")) == digest_code(made(SOURCES["original"]))


def test_another_process_digests_the_same() -> None:
    """Sets have another order there."""
    program = (
        "from antiphon.server.functions.code_digest import digest_code\n"
        f"exec({SOURCES['original']!r})\n"
        "print(digest_code(f).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_what_wraps_a_function_is_looked_through() -> None:
    """Partials, decorators, methods and objects that can be called."""
    plain = made(SOURCES["original"])

    @wraps(plain)
    def wrapped(*args: Any) -> Any:
        return plain(*args)

    class Doubler:
        def __call__(self, x: int) -> int:
            return x

        def method(self, x: int) -> int:
            return x

    assert digest_code(partial(plain, 1)) == digest_code(wrapped) == digest_code(plain)
    assert digest_code(Doubler()) == digest_code(Doubler.__call__)
    assert digest_code(Doubler().method) == digest_code(Doubler.method)
    assert digest_code(len) == digest_code(len)
