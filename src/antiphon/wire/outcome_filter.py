"""What is passed on of how a call ended: its result, or text and data of its error, as a host's rules leave them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from antiphon import errors
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.lossless import Received, passed_on
from antiphon.wire.prompts import GetPromptResult
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.tools import CallToolResult

T = TypeVar("T")
Examine = Callable[[Any], Awaitable[Any]]
"""Returns what is passed on of a result: the same object if no rule is about it."""

_FOREIGN = errors.ConnectionClosed | errors.RemoteProtocolError | errors.ResultInvalid | errors.TaskCancelled
"""Errors found here whose text may quote what a server has said."""
_READ = CallToolResult | ReadResourceResult | GetPromptResult
_OWN = errors.ConfigError | errors.LocalProtocolError
"""Mistakes of the program, which no server has worded."""


async def pass_outcome(call: Awaitable[T], examine: Examine, *, is_local: bool = False) -> T:
    """Wait for a call; return what ``examine`` passes on of its result, or raise its error with what is passed on.

    Every way in which a call of a tool ends leads through here, because text and data of an error reach a model as a
    result does; a gateway's resources and prompts do so, too. ``is_local``: any error of the call counts, because it
    comes from no client of this library.
    """
    try:
        made = await call
    except errors.AntiphonError as error:
        is_foreign = error.remote if isinstance(error, errors.PeerError) else isinstance(error, _FOREIGN)
        if is_foreign or (is_local and not isinstance(error, _OWN)):
            await _examine_error(error, examine)
        raise
    read: object = made.read if type(made) is Received else made
    if not isinstance(read, _READ) or (passed := await examine(read)) is read:
        return made
    # Members that this library does not know were not examined, so they are left out.
    return cast("T", Received(passed_on(encode_value(passed)), passed) if type(made) is Received else passed)


async def _examine_error(error: errors.AntiphonError, examine: Examine) -> None:
    text, data = (error.message, error.data) if isinstance(error, errors.PeerError) else (str(error), None)
    more = None if data is None else {"data": data}
    said = CallToolResult(content=[TextContent(text=text)], structured_content=more, is_error=True)
    if (passed := await examine(said)) is said:
        return
    text = " ".join(block.text for block in passed.content if isinstance(block, TextContent))
    error.args = (text,)
    if isinstance(error, errors.PeerError):
        members = cast("Mapping[str, Any]", passed.structured_content or {})
        error.message, error.data = text, members.get("data")
    elif isinstance(error, errors.ConnectionClosed):
        error.message, error.exit_code, error.stderr = text, None, ""
