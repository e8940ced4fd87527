"""``Sample``: the model's answer, with the conversation so that it can be continued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

from antiphon.errors import LocalProtocolError, ToolError
from antiphon.server.functions.results import content_of
from antiphon.wire.content import SamplingContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult, SamplingMessage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Sample"]


class Sample(Generic[T]):
    """A completion: the model's last answer, the value made from it, and the conversation that led to it."""

    __slots__ = ("answer", "by", "messages", "turns", "value")

    def __init__(
        self,
        messages: Sequence[SamplingMessage],
        answer: CreateMessageResult,
        value: T,
        *,
        turns: int = 1,
        by: Literal["client", "server"] = "client",
    ) -> None:
        self.answer = answer
        """The last answer, as received."""
        self.messages: list[SamplingMessage] = [*messages]
        """The conversation, including uses of tools, their results and the answer; pass it on to continue."""
        self.value = value
        """The answer converted to ``result_type``; ``None`` without a ``result_type``."""
        self.turns = turns
        """Number of turns: more than one if tools were used or an answer had to be repaired."""
        self.by: Literal["client", "server"] = by
        """Whose model answered: the client's, or the server's own (``Server(sampling_fallback=...)``)."""

    @property
    def text(self) -> str:
        """All text of the answer, joined by newlines; empty if there is none."""
        return self.answer.text

    @property
    def content(self) -> Sequence[SamplingContent]:
        """The blocks of the answer, always as a list."""
        return self.answer.blocks

    @property
    def model(self) -> str:
        """The model that answered, as the client names it."""
        return self.answer.model

    @property
    def stop_reason(self) -> str | None:
        """``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or a provider's own value."""
        return self.answer.stop_reason

    @property
    def tool_uses(self) -> list[ToolUseContent]:
        """The tools the model wants to use, in order."""
        return [block for block in self.content if isinstance(block, ToolUseContent)]

    def with_results(self, results: Mapping[str, Any]) -> list[SamplingMessage]:
        """Answer every use of a tool, and return the conversation to continue with.

        Args:
            results: what each tool returned, by ``ToolUseContent.id``: text, blocks of content, anything JSON can
                carry, or a ``ToolError`` for a tool that failed.

        Raises:
            LocalProtocolError: a use has no result, or a result belongs to no use.
        """
        uses = self.tool_uses
        open_ids = {use.id for use in uses}
        if open_ids != set(results):
            missing, foreign = open_ids - set(results), set(results) - open_ids
            raise LocalProtocolError(
                f"with_results: no result for {sorted(missing)}"
                if missing
                else f"with_results: no use {sorted(foreign)}"
            )
        blocks = [
            ToolResultContent(
                tool_use_id=use.id,
                content=content_of(str(result) if isinstance(result, ToolError) else result),
                is_error=isinstance(result, ToolError),
            )
            for use in uses
            for result in (results[use.id],)
        ]
        return [*self.messages, SamplingMessage(role="user", content=blocks)]

    def __repr__(self) -> str:
        value = f", value={self.value!r}" if self.value is not None else ""
        return f"Sample(model={self.model!r}, stop_reason={self.stop_reason!r}, text={self.text[:60]!r}{value})"
