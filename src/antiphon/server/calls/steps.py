"""Steps: side effects that a handler does once, even if it is run again. Their results are carried as JSON.

The call (``replayed_call``) records results and finds them again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from antiphon.errors import ConfigError
from antiphon.json_schema.mismatch import MismatchError
from antiphon.server.calls.call import Call
from antiphon.server.functions.pydantic_types import Adapter
from antiphon.server.functions.shape import adapted, decode_with, encode_value

__all__ = ["take_step"]

S = TypeVar("S")

_KEY = "idempotency_key"


async def take_step(call: Call, name: str, function: Callable[..., S | Awaitable[S]], *, secret: bool = False) -> S:
    """Run a step, or return its recorded result. See ``Context.step``."""
    if not callable(function):
        raise ConfigError(
            f"The step {name!r} was given a {type(function).__name__}: give the function itself, and not what its call "
            f"returns, as in ctx.step({name!r}, send_mail)"
        )

    async def work(key: str) -> bytes:
        value = function(**{_KEY: key}) if _wants_key(function) else function()
        if inspect.isawaitable(value):
            value = await value
        return _encoded(name, value)

    data = await call.step(name, work, secret=secret)
    return cast("S", _decoded(name, function, data))


def _wants_key(function: Callable[..., Any]) -> bool:
    try:
        return _KEY in inspect.signature(function).parameters
    except ValueError:
        # Functions written in C may have no signature.
        return False


def _encoded(name: str, value: object) -> bytes:
    try:
        return encode_value(value)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"The step {name!r} returned what JSON cannot carry: {error}") from None


def _decoded(name: str, function: Callable[..., Any], data: bytes) -> Any:
    kind = adapted(_return_type(function), f"The step {name!r}")
    try:
        return kind.decode(data) if isinstance(kind, Adapter) else decode_with(msgspec.json.Decoder(kind), data)
    except (MismatchError, TypeError) as error:
        raise ConfigError(f"The step {name!r} returned something else than its annotation says: {error}") from None


def _return_type(function: Callable[..., Any]) -> Any:
    called = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        return get_type_hints(called, include_extras=True).get("return", Any)
    except (NameError, TypeError):
        # An annotation that only a type checker can resolve is ignored here.
        return Any
