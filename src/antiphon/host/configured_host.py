"""``Configured``: the host that ``antiphon.toml`` describes, with for each server what is configured for it.

Owns how settings become the parts of a ``Host``. What happens to a request is in ``sampling``, as ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal, Self

import msgspec

from antiphon.host.audit.log import Audit
from antiphon.host.checks.limits import Gate
from antiphon.host.checks.policy import Policy
from antiphon.host.config.shape import Config, ServerEntry, Settings
from antiphon.host.host import GENERATE_TIMEOUT, REVIEW_TIMEOUT, Host
from antiphon.host.models.choice import chooser
from antiphon.host.models.models import Models
from antiphon.host.providers import Provider
from antiphon.host.providers.persistence import Patience
from antiphon.host.review.grants import Grants
from antiphon.host.review.review import Reviewer
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import MemoryStore, Store
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["Configured"]


class _CountedHost(Host):
    """A host that may count its asks together with another."""

    def __init__(self, provider: Provider, *, gate: Gate, audit: Audit, **parts: Any) -> None:
        super().__init__(provider, **parts)
        self.audit = audit
        self._desk = msgspec.structs.replace(self._desk, gate=gate, audit=audit)


class Configured:
    """An answerer made of a configuration: one ``Host`` for each configured server, one for all others.

    They share the provider, the reviewer and the store, so that a budget for the day is one for all of them.
    """

    provider: Provider
    """Who completes."""
    reviewer: Reviewer | None
    """Who is asked; ``None`` for nobody."""
    store: Store
    """What is remembered."""
    policy: Policy
    """The rules in force for servers that are not configured by themselves; ``host(identity).policy`` for one."""
    grants: Grants
    """What a person allowed for more than one request."""
    audit: Audit
    """What happened, with all servers; metadata and hashes only."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        *,
        provider: Provider | None = None,
        reviewer: Reviewer | Literal["terminal"] | None = "terminal",
        review: Literal["never", "refuse"] | None = None,
        store: Store | None = None,
        closes_store: bool = False,
    ) -> None:
        """Put the parts together; ``environ`` is where keys are looked up.

        ``provider``: instead of the configured models. ``review``: instead of what is configured, for every server that
        is not refused. ``closes_store``: close the store with this; by default it is whoever's who made it.

        Raises:
            ConfigError: what is configured contradicts itself.
        """
        self.config = config
        self.provider = provider or Models(config.catalogue(), environ, patience=_patience(config))
        self.store = store or MemoryStore()
        self.audit = Audit(self.store)
        self.grants = Grants(self.store)
        self._review = review
        self._closes_store = closes_store
        self._others = self._made(config.for_server(""), reviewer)
        self.reviewer = self._others.reviewer
        self.policy = self._others.policy
        self._hosts: dict[str, Host] = {}
        self._alike: dict[str, Host] = {}
        """For servers that are alike to a configured one: what is denied and bounded there is so for them, too."""
        for entry in (*config.servers, *config.tightened_servers):
            self._add(entry)

    @property
    def capabilities(self) -> ClientCapabilities:
        """What a client with this host can declare."""
        return self._others.capabilities

    def host(self, *identities: str) -> Host:
        """Return the host that answers a server: ``origin.identities``, or its identity alone."""
        found = self._hosts.get(identities[0])
        return found or next((self._alike[name] for name in identities if name in self._alike), self._others)

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request; see ``Host``."""
        return await self.host(*origin.identities)(params, origin)

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Answer an elicitation; see ``Host.elicit``."""
        return await self.host(*origin.identities).elicit(params, origin)

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool:
        """Decide whether a tool may be called; see ``Host.confirm``."""
        return await self.host(*origin.identities).confirm(params, origin)

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """Learn what became of an answer; see ``Host.handed_over``."""
        return self.host(origin.identity).handed_over(origin, why)

    async def __aenter__(self) -> Self:
        """Use it for a block; it is closed at the end."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up on vendors, close the review page if there is one, and the store if it was handed over."""
        if isinstance(self.provider, Models):
            await self.provider.aclose()
        if isinstance(self.reviewer, PageReviewer):
            await self.reviewer.aclose()
        if self._closes_store:
            await self.store.aclose()

    def _add(self, entry: ServerEntry) -> None:
        """Make the host of an entry, and that of the servers alike; they count as one."""
        own = self.config.for_server(entry.known_as)
        gate = Gate(own.limits())
        self._hosts[entry.known_as] = self._made(own, self.reviewer, gate, together=False)
        # An entry may also name a server by what it has in common with others, or as earlier releases did.
        for name in (entry.known_as, *entry.coarser):
            if name not in self._alike:
                bounds = self.config.for_server("", name)
                self._alike[name] = self._made(bounds, self.reviewer, gate.within(bounds.limits()))

    def _made(
        self,
        settings: Settings,
        reviewer: Reviewer | Literal["terminal"] | None,
        gate: Gate | None = None,
        *,
        together: bool = True,
    ) -> Host:
        # Whoever answers without asking (``--yes``) does not thereby answer whom they refuse.
        review = "refuse" if settings.review == "refuse" else self._review or settings.review or "ask"
        return _CountedHost(
            self.provider,
            gate=gate or Gate(settings.limits()),
            audit=self.audit,
            policy=Policy(default="deny") if review == "refuse" else self.config.policy,
            reviewer=reviewer,
            review="never" if review == "never" else "ask",
            review_response=settings.review_response or "never",
            review_timeout=self.config.review_timeout or REVIEW_TIMEOUT,
            generate_timeout=self.config.generate_timeout or GENERATE_TIMEOUT,
            store=self.store,
            budget=msgspec.structs.replace(settings.spending(), together=together),
            choose=chooser(self.provider, _allowed(settings.models)),
        )


def _allowed(models: Collection[str] | None) -> Callable[[Origin], Collection[str] | None]:
    return lambda origin: models


def _patience(config: Config) -> Patience:
    patience = Patience(deadline=config.generate_timeout or GENERATE_TIMEOUT)
    return patience if config.attempts is None else msgspec.structs.replace(patience, attempts=config.attempts)
