"""A digest of a handler's code, in 16 bytes, so that a call from before a deployment does not continue in other code.

Computed from the code that is loaded, not from its file, which may be newer. Functions that the handler calls are not
included: set ``Server(code_version=...)`` for these.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any, cast

__all__ = ["digest_code"]


def digest_code(function: Callable[..., Any]) -> bytes:
    """Compute the digest of a function's instructions, names and constants, or of its type's ``__call__``."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(_code_of(function)):
        digest.update(part)
        digest.update(b"\0")
    return digest.digest()


def _code_of(function: Any) -> CodeType:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    return getattr(getattr(function, "__func__", function), "__code__", _no_code.__code__)


def _parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield " ".join((*code.co_names, *code.co_varnames, *code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
        elif isinstance(constant, frozenset):
            # The order of a set differs between processes.
            yield repr(sorted(map(repr, cast("frozenset[object]", constant)))).encode()
        else:
            yield repr(constant).encode()


def _no_code() -> None:
    """Stands for code written in C."""
