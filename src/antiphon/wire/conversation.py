"""The rules of a conversation in sampling: who may say what, and how uses of tools and their results pair up.

Pure, and for both sides: a server before it sends, a client before it answers. What sizes and media types are taken is
the host's business. Source: 2025-11-25 client/sampling, "Tool Result Messages" and "Tool Use and Result Balance".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from antiphon.errors import InvalidParams
from antiphon.wire.content import SamplingContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage

__all__ = ["check_conversation"]

Placed = list[tuple[str, SamplingContent]]


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Check that a conversation keeps the rules on uses of tools and their results.

    Uses come from the assistant only, results from the user only; a message with results holds nothing else; every use
    is answered in the next message, and every result answers, once, a use of the message before it.

    Raises:
        InvalidParams: the place, such as ``messages[3].content[0]``, begins the message and is ``data.place``.
    """
    open_uses: dict[str, str] = {}
    for at, message in enumerate(messages):
        placed = _placed(message, f"messages[{at}]")
        _check_message(message, placed, f"messages[{at}]")
        _answer(open_uses, placed)
        _refuse_unanswered(open_uses)
        open_uses = _uses(placed)
    _refuse_unanswered(open_uses)


def _refuse(place: str, problem: str) -> NoReturn:
    raise InvalidParams(f"{place}: {problem}", data={"place": place})


def _placed(message: SamplingMessage, place: str) -> Placed:
    if not isinstance(message.content, Sequence):
        return [(f"{place}.content", message.content)]
    return [(f"{place}.content[{at}]", block) for at, block in enumerate(message.content)]


def _check_message(message: SamplingMessage, placed: Placed, place: str) -> None:
    if message.role not in ("user", "assistant"):
        _refuse(f"{place}.role", 'must be "user" or "assistant"')
    # "messages with tool results MUST contain only tool results": mixed content is refused.
    holds_results = any(isinstance(block, ToolResultContent) for _, block in placed)
    for where, block in placed:
        if isinstance(block, ToolUseContent) and message.role != "assistant":
            _refuse(where, 'a tool_use may only come from the "assistant"')
        if isinstance(block, ToolResultContent) and message.role != "user":
            _refuse(where, 'a tool_result may only come from the "user"')
        if holds_results and not isinstance(block, ToolResultContent):
            _refuse(where, "a message with tool results may hold nothing else")


def _answer(open_uses: dict[str, str], placed: Placed) -> None:
    """Take from the open uses what this message answers."""
    for place, block in placed:
        if isinstance(block, ToolResultContent) and open_uses.pop(block.tool_use_id, None) is None:
            _refuse(f"{place}.toolUseId", "answers no tool_use of the message before it, or one answered already")


def _uses(placed: Placed) -> dict[str, str]:
    uses: dict[str, str] = {}
    for place, block in placed:
        if isinstance(block, ToolUseContent):
            if block.id in uses:
                _refuse(f"{place}.id", "a second tool_use of this id")
            uses[block.id] = f"{place}.id"
    return uses


def _refuse_unanswered(open_uses: dict[str, str]) -> None:
    # "every assistant message containing ToolUseContent blocks MUST be followed by a user message that consists
    # entirely of ToolResultContent blocks", each use matched by its id.
    for place in open_uses.values():
        _refuse(place, "a tool_use without a tool_result in the next message")
