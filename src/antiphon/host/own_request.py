"""Requests of one's own, of a program or a person: no server made them, and no server gets the answer.

Owns the values that cross the seam between the caller and the host, and who is said to ask.
``pipeline.sampling_stages`` has the stages that such a request passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Protocol, TypedDict

import msgspec

from antiphon.errors import ConfigError
from antiphon.wire import sampling
from antiphon.wire.content import SamplingContent, TextContent
from antiphon.wire.origin import Origin
from antiphon.wire.tools import Tool

Messages = str | Sequence[str | sampling.SamplingMessage] | sampling.CreateMessageRequestParams
"""A text of the user, several texts and messages, or a whole request."""

PERSON = "person:own"
"""The identity under which own requests are charged and recorded."""
_TARGET = "your own request"
MAX_TOKENS = 1_000
"""Most tokens of an answer, unless the caller says otherwise."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may answer."""

    model: str
    cost: int | None = None
    """What it costs at most, in nano-dollars; ``None`` if its price is not known."""


class OwnAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an own request."""

    ask: str
    """The id under which the audit has it."""
    result: sampling.CreateMessageResult
    model: str
    """The name of the model that answered, as the user calls it."""
    money: int | None = None
    """Nano-dollars; ``None`` if the price is not known."""

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        return self.result.text

    @property
    def blocks(self) -> Sequence[SamplingContent]:
        """The content as a list."""
        return self.result.blocks


class Asker(Protocol):
    """A host that a person can ask."""

    async def offers(self, params: sampling.CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        """Return the models that may answer a request, the first choice first; see ``Host.offers``."""
        ...

    async def complete(
        self,
        messages: sampling.CreateMessageRequestParams,
        *,
        identity: str = "",
        by: str | None = None,
        model: str | None = None,
    ) -> OwnAnswer:
        """Answer a request of one's own; see ``Host.complete``."""
        ...


class RunMembers(TypedDict, total=False):
    """Members of the requests that ``Host.run`` makes; see ``CreateMessageRequestParams``."""

    max_tokens: int
    system_prompt: str
    temperature: float
    stop_sequences: Sequence[str]
    model_preferences: sampling.ModelPreferences


class OwnMembers(RunMembers, total=False):
    """Members of the request that ``Host.complete`` makes."""

    tools: Sequence[Tool]
    tool_choice: sampling.ToolChoice


def make_request(messages: Messages, members: OwnMembers | RunMembers) -> sampling.CreateMessageRequestParams:
    """Make the params of an own request; raise ``ConfigError`` if members are given beside whole params."""
    if isinstance(messages, sampling.CreateMessageRequestParams):
        if members:
            raise ConfigError(f"the request that was given has its own {', '.join(members)}")
        return messages
    several = [messages] if isinstance(messages, str) else messages
    said = [
        sampling.SamplingMessage(role="user", content=TextContent(text=each)) if isinstance(each, str) else each
        for each in several
    ]
    return msgspec.structs.replace(sampling.CreateMessageRequestParams(messages=said, max_tokens=MAX_TOKENS), **members)


def make_person_origin() -> Origin:
    """Make the origin of a request of one's own."""
    return Origin(id=token_hex(8), identity=PERSON, target=_TARGET)
