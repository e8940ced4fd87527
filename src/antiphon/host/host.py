"""``Host``: the answerer with policy, review and a provider behind it. Hand it to ``Client(sampling=host)``.

Owns the choice of parts and their defaults; what happens to a request is in ``pipeline``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.errors import ConfigError
from antiphon.host import pipeline
from antiphon.host.audit import Audit
from antiphon.host.desk import Desk
from antiphon.host.grants import Grants
from antiphon.host.policy import Policy
from antiphon.host.providers import Provider, named
from antiphon.host.review import Reviewer
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Host"]

REVIEW_TIMEOUT = 600.0
"""Ten minutes: how long servers keep what they ask in input rounds (``requestState``) by default."""
GENERATE_TIMEOUT = 300.0
"""Five minutes: longer than the slowest answer of a model, shorter than the patience of the tools around us."""


class Host:
    """Answers the asks of servers: sampling through a provider, elicitation through a person.

    By default a person is asked for everything, at the terminal; where there is none, everything is refused.
    A ``Host`` is an answerer: ``Client(target, sampling=host, elicitation=host.elicit)``. It may serve many clients.
    """

    provider: Provider
    """Who completes."""
    policy: Policy
    """The rules in force."""
    reviewer: Reviewer | None
    """Who is asked; ``None`` for nobody."""
    grants: Grants
    """What a person allowed for more than one request."""
    audit: Audit
    """What happened; metadata and hashes only."""

    def __init__(
        self,
        provider: str | Provider = "echo",
        *,
        policy: Policy | None = None,
        reviewer: Reviewer | Literal["terminal"] | None = "terminal",
        review: Literal["ask", "never"] = "ask",
        review_response: Literal["never", "always"] = "never",
        review_timeout: float | None = REVIEW_TIMEOUT,
        generate_timeout: float | None = GENERATE_TIMEOUT,
    ) -> None:
        """Choose the parts.

        ``provider`` is ``"echo"``, ``"manual"`` or a ``Provider``. ``policy`` defaults to asking for everything.
        ``review="never"`` allows what the policy would ask about: use it for servers that are your own.
        ``review_response="always"`` shows each answer as well before it goes to the server.
        Timeouts are in seconds, ``None`` for none; a review that expires is a refusal.

        Raises:
            ConfigError: no such provider, reviewer or review mode.
        """
        self.provider = named(provider) if isinstance(provider, str) else provider
        self.policy = _with_review(policy or Policy(), review)
        self.reviewer = _terminal(reviewer) if isinstance(reviewer, str) else reviewer
        self.grants = Grants()
        self.audit = Audit()
        self._desk = Desk(
            provider=self.provider,
            policy=self.policy,
            reviewer=self.reviewer,
            review_response=review_response,
            review_timeout=review_timeout,
            generate_timeout=generate_timeout,
            grants=self.grants,
            audit=self.audit,
        )

    @property
    def capabilities(self) -> ClientCapabilities:
        """What a client with this host can declare. Context of other servers is never offered."""
        return ClientCapabilities(
            sampling=SamplingCapability(tools={} if self.provider.tools else None),
            elicitation=None if self.reviewer is None else ElicitationCapability(form={}, url={}),
        )

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request.

        Raises:
            InvalidParams: it is no valid request; the place is named.
            Rejected: refused; ``data.reason`` is user, policy, no-reviewer, expired or changed.
            InternalError: the provider failed; its text stays here.
        """
        return await pipeline.answer(self._desk, params, origin)

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Answer an elicitation: what the person did, or ``decline`` where nobody can be asked.

        Raises:
            InvalidParams: the form cannot be read; the place is named.
        """
        return await pipeline.answer_elicitation(self._desk, params, origin)


def _with_review(policy: Policy, review: str) -> Policy:
    if review not in ("ask", "never"):
        raise ConfigError(f'review is "ask" or "never", not {review!r}')
    if review == "ask":
        return policy
    rules = tuple(
        msgspec.structs.replace(rule, effect="allow") if rule.effect == "ask" else rule for rule in policy.rules
    )
    return msgspec.structs.replace(policy, rules=rules, default="allow" if policy.default == "ask" else policy.default)


def _terminal(name: str) -> Reviewer:
    if name != "terminal":
        raise ConfigError(f'reviewer is "terminal", a Reviewer or None, not {name!r}')
    # Imported here: a program that never asks at a terminal does not pay for it.
    from antiphon.host.terminal import TerminalReviewer

    return TerminalReviewer()
