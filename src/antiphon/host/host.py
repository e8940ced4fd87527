"""``Host``: the answerer with policy, review and a provider behind it. Hand it to ``Client(sampling=host)``.

Owns the choice of parts and their defaults; what happens to a request is in ``sampling``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.audit.log import Audit
from antiphon.host.budget import Budget
from antiphon.host.checks.limits import Gate, Limits
from antiphon.host.checks.policy import Policy
from antiphon.host.checks.redact import Redaction
from antiphon.host.models.choice import Choose, chooser
from antiphon.host.pipeline import sampling as pipeline
from antiphon.host.pipeline import tool_consent as consent
from antiphon.host.pipeline.case import Desk
from antiphon.host.pipeline.handover import Released
from antiphon.host.pipeline.waiting import Waiting
from antiphon.host.providers import Provider, named
from antiphon.host.review.grants import Grants
from antiphon.host.review.review import Informed, Reviewer
from antiphon.host.store.base import Store
from antiphon.host.store.memory import MemoryStore
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams

if TYPE_CHECKING:
    from antiphon.host.review_page import PageReviewer

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
    store: Store
    """What is remembered: reservations, grants, reviews, audit."""
    grants: Grants
    """What a person allowed for more than one request."""
    audit: Audit
    """What happened; metadata and hashes only, unless content was asked for."""

    def __init__(
        self,
        provider: str | Provider = "echo",
        *,
        policy: Policy | None = None,
        reviewer: Reviewer | Literal["terminal"] | None = "terminal",
        review: Literal["ask", "never"] = "ask",
        review_response: Literal["never", "flagged", "always"] = "never",
        review_timeout: float | None = REVIEW_TIMEOUT,
        generate_timeout: float | None = GENERATE_TIMEOUT,
        store: Store | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        redaction: Redaction | None = None,
        choose: Choose | None = None,
        keep_content: bool = False,
        web: bool = False,
        notify: str | None = None,
    ) -> None:
        """Choose the parts.

        ``provider`` is ``"echo"``, ``"manual"`` or a ``Provider``. ``policy`` defaults to asking for everything.
        ``review="never"`` allows what the policy would ask about: use it for servers that are your own.
        ``review_response="always"`` shows each answer as well before it goes to the server, ``"flagged"`` those with a
        warning. Timeouts are in seconds, ``None`` for none; a review that expires is a refusal.
        ``store`` is what outlives the process (``antiphon.host.store.open_store``); without one nothing does.
        ``limits``, ``budget`` and ``redaction`` have their own defaults. ``choose`` picks a model and its price;
        where the provider is a catalogue of models, ``select`` does.
        ``keep_content`` keeps what was asked and answered in the audit as well, for whoever can read the store.
        ``web=True`` asks in the browser instead: a review page is served on this machine as soon as there is a
        question, its address printed to standard error and opened; ``aclose`` ends it. Needs ``antiphon[host]``.
        ``notify`` is a web address that is told when a question waits on that page: never what is asked, nor by whom.

        Raises:
            ConfigError: no such provider, reviewer or review mode; two reviewers; or ``notify`` without a page.
        """
        self.provider = named(provider) if isinstance(provider, str) else provider
        self.policy = _with_review(policy or Policy(), review)
        self.store = store or MemoryStore()
        if notify is not None and not web:
            raise ConfigError("notify tells of questions on the page: it needs web=True")
        self._page = _page(reviewer, self.store, notify) if web else None
        self.reviewer = self._page or _reviewer(reviewer)
        self.grants = Grants(self.store)
        self.audit = Audit(self.store, content=keep_content)
        self._desk = Desk(
            provider=self.provider,
            policy=self.policy,
            reviewer=self.reviewer,
            review_response=review_response,
            review_timeout=review_timeout,
            generate_timeout=generate_timeout,
            store=self.store,
            grants=self.grants,
            audit=self.audit,
            gate=Gate(limits or Limits()),
            budget=budget or Budget(),
            redaction=redaction or Redaction(),
            waiting=Waiting(),
            released=Released(),
            choose=choose or chooser(self.provider),
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
            Rejected: refused; ``data.reason`` is user, policy, no-reviewer, expired, changed, limit, budget, secret or
                no-model.
            InternalError: the provider or the store failed; its text stays here.
        """
        return await pipeline.answer(self._desk, params, origin)

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Answer an elicitation: what the person did, or ``decline`` where nobody can be asked.

        Raises:
            InvalidParams: the form cannot be read; the place is named.
        """
        return await pipeline.answer_elicitation(self._desk, params, origin)

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool:
        """Decide whether a tool may be called: what ``Client(target, confirm=host)`` asks before it sends anything.

        Returns true, or raises.

        Raises:
            Rejected: refused; ``data.reason`` is user, policy, no-reviewer, expired, changed or limit.
            InternalError: the reviewer or the store failed; its text stays here.
        """
        await consent.confirm(self._desk, params, origin)
        return True

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """Learn what became of an answer: a client says so of each, by the origin of its ask.

        ``why`` it came too late: ``"cancelled"`` (nobody waited any more), ``"call-gone"`` (the server no longer knew
        the call), ``"deadline"`` (the time of the call was up) or ``"closed"`` (the connection was gone). ``None``: it
        was handed over to the server. Returns what to await, if anything is to be recorded.
        """
        if isinstance(self.reviewer, Informed):
            self.reviewer.handed_over(origin, why)
        return self._desk.released.record(self.audit, self.store, origin, why)

    async def aclose(self) -> None:
        """End the page that ``web=True`` has opened; without one there is nothing to end. The store stays open."""
        if self._page is not None:
            await self._page.aclose()


def _with_review(policy: Policy, review: str) -> Policy:
    if review not in ("ask", "never"):
        raise ConfigError(f'review is "ask" or "never", not {review!r}')
    if review == "ask":
        return policy
    rules = tuple(
        msgspec.structs.replace(rule, effect="allow") if rule.effect == "ask" else rule for rule in policy.rules
    )
    return msgspec.structs.replace(policy, rules=rules, default="allow" if policy.default == "ask" else policy.default)


def _page(reviewer: object, store: Store, notify: str | None) -> PageReviewer:
    if reviewer != "terminal":
        raise ConfigError("web=True asks in the browser: leave reviewer out")
    # Imported here: it needs more than a host without a page does.
    from antiphon.host.review.notify import Webhook
    from antiphon.host.review_page import PageReviewer

    return PageReviewer(store, notify=None if notify is None else Webhook(notify))


def _reviewer(name: str | Reviewer | None) -> Reviewer | None:
    if not isinstance(name, str):
        return name
    if name != "terminal":
        raise ConfigError(f'reviewer is "terminal", a Reviewer or None, not {name!r}')
    # Imported here: a program that never asks at a terminal does not pay for it.
    from antiphon.host.terminal import TerminalReviewer

    return TerminalReviewer()
