"""The seam between the host and whatever completes."""

from __future__ import annotations

from typing import Protocol

from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Provider", "text_answer"]


class Provider(Protocol):
    """Something that completes: a model service, a person, a script."""

    @property
    def name(self) -> str:
        """Short name, shown to the reviewer."""
        ...

    @property
    def tools(self) -> bool:
        """Whether it can be offered tools. A tool use goes back to the server; nobody here executes it."""
        ...

    @property
    def personal(self) -> bool:
        """Whether only a person can answer: every request is then reviewed, and answered there."""
        ...

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Complete. ``max_tokens`` is always obeyed; ``model`` is the one chosen, ``None`` for the provider's default.

        Any exception is a failure of the provider; its text never reaches the server.
        """
        ...


def text_answer(text: str, model: str) -> CreateMessageResult:
    """Make a plain answer out of a text."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model, stop_reason="endTurn")
