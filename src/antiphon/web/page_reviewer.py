"""A reviewer that opens the review page for its host, with the first question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

from antiphon.errors import ConfigError
from antiphon.host.config.settings import Config
from antiphon.host.configured_host import config_of, make_notices
from antiphon.host.host import Host
from antiphon.host.own_request import Asker
from antiphon.host.review import review
from antiphon.host.review.definitions import Servers
from antiphon.host.review.notify import Notices
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import Decision, Deny, ElicitItem, Filled, NoReviewer, Reviewer, ReviewItem, ToolItem
from antiphon.host.store.base import Store
from antiphon.host.store.memory_store import MemoryStore
from antiphon.machine.asyncio_tasks import end_tasks, settle_future
from antiphon.machine.public_names import describe_install

Opener = Callable[..., AbstractAsyncContextManager[Any]]
"""Serves the page over a store within a block, and shows the person where: ``serve_and_open_page``."""


def load_opener() -> Opener:
    """Return the function that opens the review page; raise ``ConfigError`` without ``antiphon[host]``."""
    try:
        # Imported here, so that the error names the remedy.
        from antiphon.web.page_server import serve_and_open_page
    except ModuleNotFoundError as error:
        raise ConfigError(f"the review page needs more packages ({error.name}): {describe_install('host')}") from None
    return serve_and_open_page


def ask_on_page(host: Host, *, undo: float | None = None) -> Reviewer:
    """Have a host ask on a review page on this machine: ``Host(reviewer=ask_on_page)``.

    The page is served from the first question on; its address is printed to standard error and opened in the browser.
    It shows the host's store, and ends with ``host.aclose``. Needs ``antiphon[host]``.

    Args:
        host: whose questions are asked there.
        undo: seconds, 0 to 60, in which a permission given on the page can be taken back before it takes effect; by
            default what is configured, or 5, and at most a quarter of the time left.

    Raises:
        ConfigError: packages are missing, what is configured for notices cannot be used, or ``undo`` is out of bounds.
    """
    config = config_of(host)
    notify = None if config is None else make_notices(host.store, config)
    return PageReviewer(host.store, config=config, notify=notify, undo=review.check_undo(undo), asker=host)


class PageReviewer:
    """A queue with a page of its own, which opens with the first question and stays open."""

    def __init__(
        self,
        store: Store,
        opener: Opener | None = None,
        *,
        config: Config | None = None,
        notify: Notices | None = None,
        undo: float | None = None,
        asker: Asker | None = None,
    ) -> None:
        """Choose the page; ``opener`` is by default that of ``load_opener``. ``config`` is shown on it.

        ``notify`` is told of each question, and closed with this. ``undo``: seconds in which a permission given on the
        page can be taken back; by default what is configured. ``asker``: answers when a person asks from the page.
        """
        self._store, self._config, self._notify = store, config, notify
        self._undo, self._asker = undo, asker
        self._queue = Queue(store, notify=notify)
        self._opener = opener or load_opener()
        self.servers: Servers | None = None
        """The servers that are shown on the page; set by the gateway in front of them."""
        self._page: Any = None
        self._serving: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None

    available = True
    """Somebody may come before the question expires."""

    @property
    def where(self) -> str:
        """Where questions wait: the page, without what opens it, and the commands that show the same store."""
        port = None if self._page is None else urlsplit(str(self._page.origin)).port
        page = "" if port is None else f"it waited on the review page at http://127.0.0.1:{port}; "
        return page + ("open it, then ask again" if isinstance(self._store, MemoryStore) else self._queue.where)

    async def review(self, item: ReviewItem) -> Decision:
        """Ask about a request or an answer; see ``Queue.review``."""
        await self._open()
        return await self._queue.review(item)

    async def confirm(self, item: ToolItem) -> Decision:
        """Ask about a tool call; see ``Queue.confirm``."""
        await self._open()
        return await self._queue.confirm(item)

    async def elicit(self, item: ElicitItem) -> Filled | Deny:
        """Ask an elicitation; see ``Queue.elicit``."""
        await self._open()
        return await self._queue.elicit(item)

    async def aclose(self) -> None:
        """Close the page, if it is open. Questions that wait stay in the store."""
        serving, opened, self._serving, self._opened = self._serving, self._opened, None, None
        if serving is not None and opened is not None and serving.get_loop() is asyncio.get_running_loop():
            await end_tasks(serving)
            settle_future(opened, NoReviewer("the page was closed"))
        if self._notify is not None:
            await self._notify.aclose()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        # A program may run several event loops in turn: the page ended with the loop it was opened in.
        if self._opened is None or self._opened.get_loop() is not loop or (self._serving and self._serving.done()):
            self._opened = loop.create_future()
            self._serving = loop.create_task(self._serve(self._opened))
        # Concurrent questions wait for the same page; cancelling one of them must not cancel the opening.
        await asyncio.shield(self._opened)

    async def _serve(self, opened: asyncio.Future[None]) -> None:
        try:
            opening = self._opener(
                self._store, config=self._config, undo=self._undo, asker=self._asker, servers=self.servers
            )
            async with opening as self._page:
                opened.set_result(None)
                await asyncio.get_running_loop().create_future()
        except Exception as error:
            settle_future(opened, NoReviewer(f"the page cannot be opened: {error}"))
