"""Providers: an echo of the request, prepared answers, and a person; and the names of the built-in ones.

Those without a model are for first steps, demonstrations and tests; the person is the reviewer of a request, who also
writes its answer. ``vendor`` has the models of vendors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from antiphon.errors import ConfigError, SamplingFailed
from antiphon.host.providers.base import Provider
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, text_answer

__all__ = ["Echo", "Manual", "Provider", "Scripted", "make_named_provider"]

_CHARACTERS_PER_TOKEN = 4
"""An estimate for English text. For other languages it yields fewer tokens than counted, which ``max_tokens``
allows."""


class Echo:
    """Answers with the last text of the user, marked as an echo, as model ``"echo"``."""

    name = "echo"
    tools = True
    personal = False

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Repeat the last text of the user, cut to ``max_tokens``. Uses no tool, and says so if one is required.

        Args:
            params: the request.
            model: not used.
        """
        text = f"[echo] {self._last_text(params)}"
        if params.tool_choice is not None and params.tool_choice.mode == "required":
            text = f"[echo] A tool use was required, but echo uses none. {self._last_text(params)}"
        most = params.max_tokens * _CHARACTERS_PER_TOKEN
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=text[:most]),
            model=self.name,
            stop_reason="endTurn" if len(text) <= most else "maxTokens",
        )

    def _last_text(self, params: CreateMessageRequestParams) -> str:
        said = [message.text for message in params.messages if message.role == "user" and message.text]
        return said[-1] if said else "(no text)"


class Scripted:
    """Gives prepared answers, one per request, in order, as model ``"scripted"``. ``requests`` keeps the requests.

    Args:
        answers: one for each request: a string is a text answer, an exception is raised, a result is returned as it is.
    """

    name = "scripted"
    tools = True
    personal = False

    def __init__(self, answers: Iterable[str | CreateMessageResult | Exception]) -> None:
        self._answers = deque(answers)
        self.requests: list[CreateMessageRequestParams] = []

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Give the next answer.

        Args:
            params: the request, which is added to ``requests``.
            model: not used.

        Raises:
            LookupError: there is no answer left.
        """
        self.requests.append(params)
        if not self._answers:
            raise LookupError(f"the script has no answer for request {len(self.requests)}")
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return text_answer(answer, self.name) if isinstance(answer, str) else answer


class Manual:
    """A person. The host takes the answer from the review, so ``complete`` is never needed."""

    name = "manual"
    tools = False
    personal = True

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Fail, because a reviewer approved a request that only a person can answer. See ``Provider.complete``."""
        raise SamplingFailed("the request was approved, but nobody wrote an answer")


def make_named_provider(name: str) -> Provider:
    """Make the provider ``"echo"`` or ``"manual"``; for another name raise ``ConfigError``."""
    if name == "echo":
        return Echo()
    if name == "manual":
        return Manual()
    raise ConfigError(
        f'There is no provider "{name}". Use "echo", "manual" or a Provider of your own; open_host() and --model take '
        "the models of vendors."
    )
