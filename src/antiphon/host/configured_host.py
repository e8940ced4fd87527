"""``ConfiguredHost``: the host that ``antiphon.toml`` describes, with settings per server.

Owns how settings become the parts of a ``Host``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon.host.checks.limits import Gate
from antiphon.host.checks.policy import Policy
from antiphon.host.config.settings import Config, ServerEntry, Settings
from antiphon.host.host import GENERATE_TIMEOUT, REVIEW_TIMEOUT, Host, with_review
from antiphon.host.models.choice import chooser
from antiphon.host.models.models import Models
from antiphon.host.pipeline.case import Desk
from antiphon.host.providers import Provider
from antiphon.host.providers.persistence import Patience
from antiphon.host.review.review import Reviewer
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import Store

__all__ = ["ConfiguredHost"]


class ConfiguredHost(Host):
    """A host made from a configuration: each configured server has its own limits, models, budget and review mode.

    All share the provider, the reviewer and the store, so that a budget for the day covers all of them. ``policy`` has
    the rules for servers without a configuration of their own; for one server see ``policy_for``.
    """

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
        self._config, self._review, self._closes_store = config, review, closes_store
        settings = config.for_server("")
        provider = provider or Models(config.catalogue(), environ, patience=_patience(config))
        super().__init__(
            provider,
            reviewer=reviewer,
            review_timeout=config.review_timeout or REVIEW_TIMEOUT,
            generate_timeout=config.generate_timeout or GENERATE_TIMEOUT,
            store=store,
            keep_content=config.keep_content,
            undo=config.review.undo if reviewer == "terminal" else None,
            model_api=model_api,
        )
        self._desk = self._made(settings, Gate(settings.limits()))
        self.policy = self._desk.policy
        if isinstance(self.reviewer, PageReviewer):
            self.reviewer.asker = self
        self._desks: dict[str, Desk] = {}
        self._alike: dict[str, Desk] = {}
        """For servers that share a coarser identity with a configured one: its denials and limits apply to them as
        well."""
        for entry in (*config.servers, *config.tightened_servers):
            self._add(entry)

    def policy_for(self, *identities: str) -> Policy:
        """Return the rules for a server.

        Args:
            identities: ``origin.identities``, or the server's identity alone.
        """
        return self._desk_for(*identities).policy

    async def aclose(self) -> None:
        """Close the connections to vendors, the model API and the page, and the store if it was handed over."""
        await super().aclose()
        if isinstance(self.provider, Models):
            await self.provider.aclose()
        if isinstance(self.reviewer, PageReviewer):
            await self.reviewer.aclose()
        if self._closes_store:
            await self.store.aclose()

    def _desk_for(self, *identities: str) -> Desk:
        found = self._desks.get(identities[0])
        return found or next((self._alike[name] for name in identities if name in self._alike), self._desk)

    def _add(self, entry: ServerEntry) -> None:
        """Make the desk of an entry and that of its coarser identities; they share one count of asks."""
        own = self._config.for_server(entry.known_as)
        gate = Gate(own.limits())
        self._desks[entry.known_as] = self._made(own, gate, together=False)
        # An entry may also name a server by its coarser identity.
        for name in (entry.known_as, *entry.coarser):
            if name not in self._alike:
                bounds = self._config.for_server("", name)
                self._alike[name] = self._made(bounds, gate.within(bounds.limits()))

    def _made(self, settings: Settings, gate: Gate, *, together: bool = True) -> Desk:
        # ``--yes`` must not allow a server that is configured to be refused.
        mode = "refuse" if settings.review == "refuse" else self._review or settings.review or "ask"
        policy = Policy(default="deny") if mode == "refuse" else self._config.policy or Policy()
        return msgspec.structs.replace(
            self._desk,
            policy=with_review(policy, "never" if mode == "never" else "ask"),
            review_response=settings.review_response or "never",
            gate=gate,
            budget=msgspec.structs.replace(settings.spending(), together=together),
            choose=chooser(self.provider, lambda origin: settings.models),
            models=settings.models,
        )


def _patience(config: Config) -> Patience:
    patience = Patience(deadline=config.generate_timeout or GENERATE_TIMEOUT)
    return patience if config.attempts is None else msgspec.structs.replace(patience, attempts=config.attempts)
