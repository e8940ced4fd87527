"""``ConfiguredHost``: the host that ``antiphon.toml`` describes, with settings per server. ``open_host`` makes it.

Owns how settings become the parts of a ``Host``. ``config`` reads the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.checks.ask_limits import AskGate
from antiphon.host.checks.policy_rules import Policy
from antiphon.host.config import load_config
from antiphon.host.config.settings import Config, ServerEntry, ServerSettings
from antiphon.host.host import GENERATE_TIMEOUT, REVIEW_TIMEOUT, Host, ModelApi, ReviewerMaker, with_review
from antiphon.host.models.models import Models, RetryPatience
from antiphon.host.models.selection import make_chooser
from antiphon.host.pipeline.case import Desk
from antiphon.host.pipeline.tool_consent import EDIT_NOTE
from antiphon.host.providers import Provider
from antiphon.host.review.notify import Notices, PageLinks, ServiceNotices
from antiphon.host.review.push import DeviceNotices
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import Reviewer
from antiphon.host.store import Store, open_store
from antiphon.machine.public_names import describe_install


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
        reviewer: Reviewer | ReviewerMaker | Literal["terminal"] | None = "terminal",
        review: Literal["never", "refuse"] | None = None,
        store: Store | None = None,
        closes_store: bool = False,
        model_api: Callable[[Host], ModelApi] | None = None,
    ) -> None:
        """Combine the parts: as for ``Host``, but for those here.

        Args:
            config: the configuration.
            environ: environment variables, where API keys are looked up.
            provider: used instead of the configured models.
            review: replaces the configured review mode of every server that is not configured to be refused.
            closes_store: let ``aclose`` close the store too; by default whoever made the store closes it.

        Raises:
            ConfigError: the configuration contradicts itself.
        """
        self._config, self._review, self._closes_store = config, review, closes_store
        settings = config.for_server("")
        patience = RetryPatience(deadline=config.generate_timeout or GENERATE_TIMEOUT)
        if config.attempts is not None:
            patience = msgspec.structs.replace(patience, attempts=config.attempts)
        provider = provider or Models(config.catalogue(), environ, patience=patience)
        super().__init__(
            provider,
            reviewer=reviewer,
            review_timeout=config.review_timeout or REVIEW_TIMEOUT,
            generate_timeout=config.generate_timeout or GENERATE_TIMEOUT,
            store=store,
            keep_content=config.keep_content,
            edit_note=EDIT_NOTE if config.review.edit_note is None else config.review.edit_note,
            undo=config.review.undo if reviewer == "terminal" else None,
            model_api=model_api,
        )
        self._desk = self._made(settings, AskGate(settings.limits()))
        self.policy = self._desk.policy
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
        # The last one first; each is closed even if another one cannot be.
        async with AsyncExitStack() as closing:
            if self._closes_store:
                closing.push_async_callback(self.store.aclose)
            for part in (self.reviewer, self.provider):
                if isinstance(part, Queue | Models):
                    closing.push_async_callback(part.aclose)
            closing.push_async_callback(super().aclose)

    def _desk_for(self, *identities: str) -> Desk:
        found = self._desks.get(identities[0])
        return found or next((self._alike[name] for name in identities if name in self._alike), self._desk)

    def _add(self, entry: ServerEntry) -> None:
        """Make the desk of an entry and that of its coarser identities; they share one count of asks."""
        own = self._config.for_server(entry.find_identity)
        gate = AskGate(own.limits())
        self._desks[entry.find_identity] = self._made(own, gate, together=False)
        # An entry may also name a server by its coarser identity.
        for name in (entry.find_identity, *entry.coarser):
            if name not in self._alike:
                bounds = self._config.for_server("", name)
                self._alike[name] = self._made(bounds, gate.within(bounds.limits()))

    def _made(self, settings: ServerSettings, gate: AskGate, *, together: bool = True) -> Desk:
        # ``--yes`` must not allow a server that is configured to be refused.
        mode = "refuse" if settings.review == "refuse" else self._review or settings.review or "ask"
        policy = Policy(default="deny") if mode == "refuse" else self._config.policy or Policy()
        return msgspec.structs.replace(
            self._desk,
            policy=with_review(policy, "never" if mode == "never" else "ask"),
            review_response=settings.review_response or "never",
            gate=gate,
            budget=msgspec.structs.replace(settings.spending(), together=together),
            choose=make_chooser(self.provider, lambda origin: settings.models),
            models=settings.models,
        )


def open_host(
    file: str | Path | None = None,
    *,
    reviewer: Reviewer | ReviewerMaker | Literal["terminal", "queue"] | None = "terminal",
    environ: Mapping[str, str] | None = None,
) -> ConfiguredHost:
    """Make the host that is configured: its models, policy, limits, budgets and store.

    Use it in ``async with``, or call ``aclose``: that closes the connections to vendors, the page and the store.

    Args:
        file: the only configuration file to read. By default the user's ``antiphon.toml`` and the one in the current
            folder are read; if there is none, the model is that of an API key in the environment, and without one
            requests are refused. If a budget is named and no store, the store is the usual file, so that a budget lasts
            over restarts.
        reviewer: who decides what the policy leaves open: ``"terminal"``; ``"queue"``, whoever runs ``antiphon review``
            on the same store; a ``Reviewer``; ``antiphon.web.ask_on_page``, which asks in the browser, or another
            function that makes a reviewer for the host; or ``None``, which refuses.
        environ: environment variables, where API keys are looked up; by default those of the process.

    Raises:
        ConfigError: the configuration cannot be read or contradicts itself (the message names file and line), packages
            of ``antiphon[host]`` are missing, or ``"queue"`` is wanted and the store is in memory.
    """
    variables = os.environ if environ is None else environ
    config = load_config(variables, file=None if file is None else Path(file))
    place = config.store or ("default" if config.names_budget else "memory")
    if reviewer == "queue" and place == "memory":
        raise ConfigError(
            'reviewer="queue" needs a store that others can open: write store = "default" in antiphon.toml'
        )
    store = open_store(place)
    asked = queue_in(store, config) if reviewer == "queue" else reviewer
    return ConfiguredHost(config, variables, reviewer=asked, store=store, closes_store=True)


def config_of(host: Host) -> Config | None:
    """Return what a host was made from; ``None`` if it was made without a configuration."""
    return vars(host).get("_config")


def queue_in(store: Store, config: Config) -> Queue:
    """Make the queue of a store, which sends notices if that is configured."""
    return Queue(store, notify=make_notices(store, config))


def make_notices(store: Store, config: Config, environ: Mapping[str, str] = os.environ) -> Notices | None:
    """Make what is configured; ``None`` if nothing is.

    Raises ``ConfigError``: a variable is not set, packages are missing, or there are two pages.
    """
    notify, sign_in = config.notify, config.review.sign_in
    links = PageLinks(store, notify.page if sign_in is None else sign_in.origin, signs_in=sign_in is not None)
    if notify.page is not None and sign_in is not None:
        raise ConfigError("[notify] page is for a page without [review.sign_in], which has its own url: remove it")
    if notify.targets and find_spec("apprise") is None:
        raise ConfigError(f"[[notify.targets]] needs more packages: {describe_install('notices')}")
    senders: list[ServiceNotices] = []
    for number, target in enumerate(notify.targets, 1):
        name = f"[[notify.targets]] {number}"
        if target.is_push:
            senders.append(DeviceNotices(target, store, name, notify.push_hosts, sign_in and sign_in.roles))
        else:
            senders.append(ServiceNotices(target, _fill_in(target.url, name, environ), store, name, links))
    return Notices(senders) if senders else None


def _fill_in(url: str, name: str, environ: Mapping[str, str]) -> str:
    def read(found: re.Match[str]) -> str:
        if found[1] not in environ:
            raise ConfigError(f"{name}: url: the environment variable {found[1]} is not set")
        return environ[found[1]]

    return re.sub(r"\$\{(\w+)\}", read, url)
