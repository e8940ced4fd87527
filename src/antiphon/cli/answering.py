"""What answers a server that asks during a command: a ``Host``, at the terminal unless told to be quiet about it.

Owns the choice of the host's parts by the options of a command. What a person sees is the host's business.
"""

from __future__ import annotations

from typing import cast

from antiphon.cli.telling import Teller
from antiphon.errors import ConfigError, Rejected
from antiphon.host.elicit import fields_of
from antiphon.host.host import Host
from antiphon.host.policy import Policy
from antiphon.host.review import Decision, Deny, ElicitItem, ReviewItem
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Answering", "Defaults", "choose_host"]


class Defaults:
    """Stands in for a person where ``--yes`` was given: a form is sent with its defaults, if those are enough."""

    available = True

    async def review(self, item: ReviewItem) -> Decision:
        """Refuse: what is reviewed in spite of ``--yes`` needs a person."""
        return Deny(reason="--yes answers no such question")

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Accept a form of which every required field has a default; never an address to visit."""
        fields = fields_of(item.params)
        if item.params.mode == "url" or any(field.required and field.default is None for field in fields):
            return ElicitResult(action="decline")
        content = {field.name: field.default for field in fields if field.default is not None}
        return ElicitResult(action="accept", content=content)


def choose_host(*, yes: bool, deny: bool, provider: str = "echo") -> Host:
    """Make the host: ``yes`` answers without asking, ``deny`` refuses, else a person at the terminal is asked.

    Raises:
        ConfigError: both were wanted, or there is no such provider.
    """
    if yes and deny:
        raise ConfigError("--yes and --deny contradict each other")
    if yes:
        return Host(provider, reviewer=Defaults(), review="never")
    if deny:
        return Host(provider, policy=Policy(default="deny"))
    return Host(provider)


class Answering:
    """A host, and a word to the person at the terminal about each of its answers."""

    def __init__(self, host: Host, teller: Teller) -> None:
        self.host = host
        self._teller = teller

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the host can answer."""
        return self.host.capabilities

    async def sample(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request; nothing else is written to the terminal meanwhile."""
        try:
            with self._teller.held():
                result = await self.host(params, origin)
        except Rejected as error:
            self._teller.say(f"sampling request refused ({_reason(error)})", "yellow")
            raise
        self._teller.say(f"sampling request answered by {result.model!r}", "green")
        return result

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Answer an elicitation; nothing else is written to the terminal meanwhile."""
        with self._teller.held():
            result = await self.host.elicit(params, origin)
        self._teller.say(f"elicitation: {result.action}", "green" if result.action == "accept" else "yellow")
        return result


def _reason(error: Rejected) -> str:
    data = cast("dict[str, object]", error.data) if isinstance(error.data, dict) else {}
    reason = data.get("reason", "user")
    if reason == "no-reviewer":
        return "there is no terminal to ask you at; --yes answers without asking"
    return str(reason)
