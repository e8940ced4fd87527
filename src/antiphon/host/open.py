"""``open_host``: the host that ``antiphon.toml`` describes, in one line, for whoever writes a client.

Owns only the putting together: what the file may say is ``config``, what it makes of a host ``configured_host``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from antiphon.errors import ConfigError
from antiphon.host.config import Config, load_config
from antiphon.host.config.shape import Notify
from antiphon.host.configured_host import Configured
from antiphon.host.review.notify import Webhook
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import Reviewer
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import MemoryStore, Store, open_store

__all__ = ["open_host", "queue_in"]


def open_host(
    file: str | Path | None = None,
    *,
    reviewer: Reviewer | Literal["terminal", "queue", "page"] | None = "terminal",
    environ: Mapping[str, str] | None = None,
) -> Configured:
    """Make the host that is configured: its models, policy, limits, budgets and store.

    ``file`` is the only configuration to read; by default the user's ``antiphon.toml`` and the one in the current
    folder hold, and without any the model is that of the key in the environment, or the echo. ``reviewer`` is asked
    about what the policy does not settle: at the ``"terminal"``, on a review ``"page"`` in the browser, whoever looks
    into the ``"queue"`` of the store (``antiphon review``), one of your own, or ``None`` for nobody, which refuses.
    ``environ`` is where keys are looked up, by default that of the process.

    Use it in ``async with``, or close it: that hangs up on vendors, and closes the page and the store.

    Raises:
        ConfigError: the configuration cannot be read or contradicts itself (file and line are named), packages of
            ``antiphon[host]`` are missing, or there is to be a queue and no store that outlives the process.
    """
    variables = os.environ if environ is None else environ
    config = load_config(variables, file=None if file is None else Path(file))
    if reviewer == "queue" and config.store in (None, "memory"):
        raise ConfigError(
            'reviewer="queue" needs a store that others can open: write store = "default" in antiphon.toml'
        )
    store = MemoryStore() if config.store is None else open_store(config.store)
    asked = _reviewer(reviewer, store, config) if isinstance(reviewer, str) else reviewer
    return Configured(config, variables, reviewer=asked, store=store, closes_store=True)


def _reviewer(name: str, store: Store, config: Config) -> Reviewer | Literal["terminal"]:
    match name:
        case "terminal":
            return "terminal"
        case "queue":
            return queue_in(store, config.notify)
        case "page":
            return PageReviewer(store, config=config, notify=_webhook(config.notify))
        case _:
            raise ConfigError(f'reviewer is "terminal", "page", "queue", a Reviewer or None, not {name!r}')


def queue_in(store: Store, notify: Notify) -> Queue:
    """Make the queue of a store, which tells of arrivals where that is configured."""
    return Queue(store, notify=_webhook(notify))


def _webhook(notify: Notify) -> Webhook | None:
    return None if notify.webhook is None else Webhook(notify.webhook)
