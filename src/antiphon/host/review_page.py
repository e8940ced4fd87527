"""The review page from the host's side: a page that can be opened over a store, and a reviewer that opens it.

Here and in ``host`` a lower layer reaches a higher one: ``page_opener`` finds
``antiphon.web`` by name when a page is first needed. Nothing here imports it, so hosts without a page need none of its
packages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import urlsplit

from antiphon.errors import ConfigError
from antiphon.host.config.settings import Config
from antiphon.host.own_request import Asker
from antiphon.host.review.definitions import Servers
from antiphon.host.review.notify import Notices
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import Decision, Deny, ElicitItem, Filled, NoReviewer, ReviewItem, ToolItem
from antiphon.host.store.base import Store
from antiphon.host.store.memory_store import MemoryStore
from antiphon.machine.public_names import describe_install


class OpenedPage(Protocol):
    """A page that is being served."""

    @property
    def origin(self) -> str:
        """Its origin, without a token: ``"http://127.0.0.1:8765"``."""
        ...

    def address(self) -> str:
        """Return an address that opens the page, once."""
        ...


Opener = Callable[..., AbstractAsyncContextManager[OpenedPage]]
"""Serves the page over a store within a block, and shows the person where: ``web.page_server.serve_and_open_page``."""


def page_opener() -> Opener:
    """Return the function that opens the review page; raise ``ConfigError`` without ``antiphon[host]``."""
    try:
        found = import_module("antiphon.web.page_server")
    except ModuleNotFoundError as error:
        raise ConfigError(f"the review page needs more packages ({error.name}): {describe_install('host')}") from None
    return cast("Opener", found.serve_and_open_page)


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
    ) -> None:
        """Choose the page; ``opener`` is by default that of ``page_opener``. ``config`` is shown on it.

        ``notify`` is told of each question, and closed with this. ``undo``: seconds in which a permission given on the
        page can be taken back; by default what is configured.
        """
        self._store = store
        self._config = config
        self._notify = notify
        self._undo = undo
        self._queue = Queue(store, notify=notify)
        self._opener = opener or page_opener()
        self.asker: Asker | None = None
        """The host that answers when a person asks from the page; set by the host whose page it is."""
        self.servers: Servers | None = None
        """The servers that are shown on the page; set by the gateway in front of them."""
        self._page: OpenedPage | None = None
        self._serving: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None

    available = True
    """Somebody may come before the question expires."""

    @property
    def where(self) -> str:
        """Where questions wait: the page, without what opens it, and the commands that show the same store."""
        port = None if self._page is None else urlsplit(self._page.origin).port
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
        serving, self._serving, self._opened = self._serving, None, None
        if serving is not None and serving.get_loop() is asyncio.get_running_loop():
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
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
                self._store, config=self._config, undo=self._undo, asker=self.asker, servers=self.servers
            )
            async with opening as self._page:
                opened.set_result(None)
                await asyncio.get_running_loop().create_future()
        except Exception as error:
            if not opened.done():
                opened.set_exception(NoReviewer(f"the page cannot be opened: {error}"))
