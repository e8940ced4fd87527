"""``Configured``: the host that ``antiphon.toml`` describes, with settings per server.

Owns how settings become the parts of a ``Host``; requests go through ``pipeline.sampling`` as usual.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Self, Unpack

import msgspec

from antiphon.host.audit.log import Audit
from antiphon.host.checks.limits import Gate
from antiphon.host.checks.policy import Policy
from antiphon.host.config.settings import Config, ServerEntry, Settings
from antiphon.host.host import GENERATE_TIMEOUT, REVIEW_TIMEOUT, Host
from antiphon.host.model_door import ModelApi, model_api_over
from antiphon.host.models.choice import chooser, names_of
from antiphon.host.models.models import Models
from antiphon.host.own_request import Messages, Offer, OwnAnswer, OwnMembers
from antiphon.host.providers import Provider
from antiphon.host.providers.base import Completion
from antiphon.host.providers.embeddings import Embedded
from antiphon.host.providers.persistence import Patience
from antiphon.host.review.grants import Grants
from antiphon.host.review.review import Reviewer
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import MemoryStore, Store
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Equipment, Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["Configured"]


class _CountedHost(Host):
    """A host that can share its counts of asks with another host."""

    def __init__(
        self, provider: Provider, *, gate: Gate, audit: Audit, allowed: Collection[str] | None, **parts: Any
    ) -> None:
        super().__init__(provider, choose=chooser(provider, lambda origin: allowed), **parts)
        self._allowed = allowed
        self.audit = audit
        self._desk = msgspec.structs.replace(self._desk, gate=gate, audit=audit)

    def model_names(self, origin: Origin) -> tuple[str, ...]:
        return names_of(self.provider, self._allowed)


class Configured:
    """An answerer made from a configuration: one ``Host`` for each configured server, one for all others.

    They share the provider, the reviewer and the store, so that a budget for the day covers all of them.
    """

    provider: Provider
    """Completes requests."""
    reviewer: Reviewer | None
    """Asks the person; ``None`` if nobody can be asked."""
    store: Store
    """Keeps reservations, grants, reviews and the audit."""
    policy: Policy
    """The rules for servers without a configuration of their own; for one server see ``host(identity).policy``."""
    grants: Grants
    """What a person allowed for more than one request."""
    audit: Audit
    """The record of what happened, for all servers: metadata and hashes, and content only if configured."""

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
        model_api: bool = False,
    ) -> None:
        """Combine the parts.

        Args:
            config: the configuration.
            environ: environment variables, where API keys are looked up.
            provider: used instead of the configured models.
            reviewer: asks the person; ``None`` if nobody can be asked. By default the terminal.
            review: replaces the configured review mode of every server that is not configured to be refused.
            store: keeps reservations, grants, reviews and the audit; in memory by default.
            closes_store: let ``aclose`` close the store too; by default whoever made the store closes it.
            model_api: also serve servers that call a vendor's API themselves; see ``Host``.

        Raises:
            ConfigError: the configuration contradicts itself.
        """
        self._config = config
        self.provider = provider or Models(config.catalogue(), environ, patience=_patience(config))
        self.store = store or MemoryStore()
        self.audit = Audit(self.store)
        self.grants = Grants(self.store)
        self._review = review
        self._closes_store = closes_store
        self._others = self._made(config.for_server(""), reviewer)
        self.reviewer = self._others.reviewer
        if isinstance(self.reviewer, PageReviewer):
            self.reviewer.asker = self
        self.policy = self._others.policy
        self._hosts: dict[str, Host] = {}
        self._alike: dict[str, Host] = {}
        """For servers that share a coarser identity with a configured one: its denials and limits apply to them as
        well."""
        for entry in (*config.servers, *config.tightened_servers):
            self._add(entry)
        self._model_api: ModelApi | None = model_api_over(self) if model_api else None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that a client with this host can declare."""
        return self._others.capabilities

    def host(self, *identities: str) -> Host:
        """Return the host that answers a server.

        Args:
            identities: ``origin.identities``, or the server's identity alone.
        """
        found = self._hosts.get(identities[0])
        return found or next((self._alike[name] for name in identities if name in self._alike), self._others)

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request. See ``Host``."""
        return await self.host(*origin.identities)(params, origin)

    async def answer(
        self,
        params: CreateMessageRequestParams,
        origin: Origin,
        flow: Callable[[str], object] | None = None,
    ) -> Completion:
        """See ``Host.answer``."""
        return await self.host(*origin.identities).answer(params, origin, flow)

    async def embed(
        self, texts: Sequence[str], origin: Origin, *, model: str = "", dimensions: int | None = None
    ) -> Embedded:
        """See ``Host.embed``."""
        return await self.host(*origin.identities).embed(texts, origin, model=model, dimensions=dimensions)

    def model_names(self, origin: Origin) -> tuple[str, ...]:
        """Return the names under which a server may wish for a model: those it is allowed.

        Args:
            origin: the server.
        """
        return self.host(*origin.identities).model_names(origin)

    async def equip(self, origin: Callable[[], Origin]) -> Equipment | None:
        """See ``Host.equip``."""
        return None if self._model_api is None else await self._model_api.equip(origin)

    async def elicit(
        self, params: ElicitRequestParams, origin: Origin, *, reviewer: Reviewer | None = None
    ) -> ElicitResult:
        """See ``Host.elicit``."""
        return await self.host(*origin.identities).elicit(params, origin, reviewer=reviewer)

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool:
        """See ``Host.confirm``."""
        return await self.host(*origin.identities).confirm(params, origin)

    async def offers(self, params: CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        """Return the models that may answer a request of the person's own, the one that would be chosen first.

        Args:
            params: the request.
            identity: identity of the server that the text is from; only models that may answer it are offered.

        Raises:
            Rejected: none may; the message says why.
        """
        return await self.host(identity).offers(params, identity)

    async def complete(
        self,
        messages: Messages,
        *,
        identity: str = "",
        by: str | None = None,
        model: str | None = None,
        **members: Unpack[OwnMembers],
    ) -> OwnAnswer:
        """See ``Host.complete``."""
        return await self.host(identity).complete(messages, by=by, model=model, **members)

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """See ``Host.handed_over``."""
        return self.host(*origin.identities).handed_over(origin, why)

    async def __aenter__(self) -> Self:
        """Return itself; it is closed at the end of the block."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to vendors, the model API and the page, and the store if it was handed over."""
        if self._model_api is not None:
            await self._model_api.aclose()
        if isinstance(self.provider, Models):
            await self.provider.aclose()
        if isinstance(self.reviewer, PageReviewer):
            await self.reviewer.aclose()
        if self._closes_store:
            await self.store.aclose()

    def _add(self, entry: ServerEntry) -> None:
        """Make the host of an entry and that of its coarser identities; they share one count of asks."""
        own = self._config.for_server(entry.known_as)
        gate = Gate(own.limits())
        self._hosts[entry.known_as] = self._made(own, self.reviewer, gate, together=False)
        # An entry may also name a server by its coarser identity.
        for name in (entry.known_as, *entry.coarser):
            if name not in self._alike:
                bounds = self._config.for_server("", name)
                self._alike[name] = self._made(bounds, self.reviewer, gate.within(bounds.limits()))

    def _made(
        self,
        settings: Settings,
        reviewer: Reviewer | Literal["terminal"] | None,
        gate: Gate | None = None,
        *,
        together: bool = True,
    ) -> Host:
        # ``--yes`` must not allow a server that is configured to be refused.
        review = "refuse" if settings.review == "refuse" else self._review or settings.review or "ask"
        return _CountedHost(
            self.provider,
            gate=gate or Gate(settings.limits()),
            audit=self.audit,
            policy=Policy(default="deny") if review == "refuse" else self._config.policy,
            reviewer=reviewer,
            review="never" if review == "never" else "ask",
            review_response=settings.review_response or "never",
            review_timeout=self._config.review_timeout or REVIEW_TIMEOUT,
            generate_timeout=self._config.generate_timeout or GENERATE_TIMEOUT,
            store=self.store,
            undo=self._config.review.undo if reviewer == "terminal" else None,
            budget=msgspec.structs.replace(settings.spending(), together=together),
            allowed=settings.models,
        )


def _patience(config: Config) -> Patience:
    patience = Patience(deadline=config.generate_timeout or GENERATE_TIMEOUT)
    return patience if config.attempts is None else msgspec.structs.replace(patience, attempts=config.attempts)
