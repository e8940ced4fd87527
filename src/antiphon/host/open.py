"""``open_host``: make the host that ``antiphon.toml`` describes, for programs that are clients.

``config`` reads the file, ``configured_host`` makes the host from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from antiphon.errors import ConfigError
from antiphon.host.config import Config, load_config
from antiphon.host.config.settings import Notify
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.review.notify import Webhook
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import Reviewer
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import Store, open_store

__all__ = ["open_host", "page_over", "queue_in"]


def open_host(
    file: str | Path | None = None,
    *,
    reviewer: Reviewer | Literal["terminal", "queue", "page"] | None = "terminal",
    environ: Mapping[str, str] | None = None,
) -> ConfiguredHost:
    """Make the host that is configured: its models, policy, limits, budgets and store.

    Use it in ``async with``, or call ``aclose``: that closes the connections to vendors, the page and the store.

    Args:
        file: the only configuration file to read. By default the user's ``antiphon.toml`` and the one in the current
            folder are read; if there is none, the model is that of an API key in the environment, and without one
            requests are refused. If a budget is named and no store, the store is the usual file, so that a budget lasts
            over restarts.
        reviewer: who decides what the policy leaves open: ``"terminal"``; ``"page"``, a review page in the browser;
            ``"queue"``, whoever runs ``antiphon review`` on the same store; a ``Reviewer``; or ``None``, which refuses.
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
    asked = _reviewer(reviewer, store, config) if isinstance(reviewer, str) else reviewer
    return ConfiguredHost(config, variables, reviewer=asked, store=store, closes_store=True)


def _reviewer(name: str, store: Store, config: Config) -> Reviewer | Literal["terminal"]:
    match name:
        case "terminal":
            return "terminal"
        case "queue":
            return queue_in(store, config.notify)
        case "page":
            return page_over(store, config)
        case _:
            raise ConfigError(f'reviewer is "terminal", "page", "queue", a Reviewer or None, not {name!r}')


def page_over(store: Store, config: Config) -> PageReviewer:
    """Make the review page over a store, which opens with the first question."""
    return PageReviewer(store, config=config, notify=_webhook(config.notify))


def queue_in(store: Store, notify: Notify) -> Queue:
    """Make the queue of a store, which sends notifications if that is configured."""
    return Queue(store, notify=_webhook(notify))


def _webhook(notify: Notify) -> Webhook | None:
    return None if notify.webhook is None else Webhook(notify.webhook)
