"""What the tests of the page are made of: a page that is really served, a client that behaves, servers that ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.routing import Route

from antiphon.host import Host, MemoryStore, Provider, Queue, Scripted
from antiphon.host.config.settings import Config
from antiphon.host.review.definitions import Servers
from antiphon.host.review.question import Question
from antiphon.host.review.shown import collect_shown
from antiphon.host.store.base import Store
from antiphon.web.page_server import ReviewPage, RunningPage, running_page
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from tests.host.asks import origin, request


class Here(httpx.AsyncHTTPTransport):
    """Finds every name under ``localhost`` on this machine, as browsers do and not every resolver does."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.host.endswith(".localhost"):
            return await super().handle_async_request(request)
        # Another request: cookies are kept by the name that this one asks for.
        here = httpx.Request(
            request.method,
            request.url.copy_with(host="127.0.0.1"),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await super().handle_async_request(here)


def visitor(**more: Any) -> httpx.AsyncClient:
    """Make a client that finds the page under its own name."""
    return httpx.AsyncClient(transport=Here(), **more)


def routes_of(page: ReviewPage) -> list[tuple[str, set[str]]]:
    """List the paths of a page, each with its methods."""
    app: Any = page._guarded._app
    return [(route.path, route.methods or set[str]()) for route in app.routes if isinstance(route, Route)]


class Desk:
    """A host with a queue, the page over the same store, and a client that was let in."""

    def __init__(self, store: Store, running: RunningPage, client: httpx.AsyncClient, host: Host) -> None:
        self.store = store
        self.running = running
        self.client = client
        self.host = host
        self.queue = running.page.site.queue
        self.csrf = ""
        self.tasks: list[asyncio.Task[Any]] = []

    async def asked(
        self, params: CreateMessageRequestParams | None = None, who: Origin | None = None, **more: Any
    ) -> tuple[Question, asyncio.Task[CreateMessageResult]]:
        """Let a server ask. Returns the question once it waits, and the server's waiting."""
        before = {question.id for question in await self.queue.pending()}
        number = str(len(self.tasks) + 1)
        task = asyncio.create_task(self.host(params or request(**more), who or origin(number)))
        self.tasks.append(task)
        return await self.arrived(before), task

    async def arrived(self, before: set[str]) -> Question:
        """Wait for a question that was not there before."""
        async for _ in self.queue.changes():
            for question in await self.queue.pending():
                if question.id not in before:
                    return question
        raise AssertionError

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Look at something."""
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, data: Any = None, **headers: str) -> httpx.Response:
        """Do something, as the page's own script does."""
        sent = {"X-CSRF-Token": self.csrf, "Origin": self.running.origin, "Accept": "application/json", **headers}
        return await self.client.post(path, data={**await self._seals(path), **(data or {})}, headers=sent)

    async def _seals(self, path: str) -> dict[str, Any]:
        """Name what the page shows, as its forms do."""
        for question in await self.queue.pending():
            if f"/review/{question.id}/" in path:
                return {name: value for name, value in self.about(question).items() if name != "digest"}
        return {}

    def about(self, question: Question, digest: str = "", *, ago: float = 1.0, **fields: Any) -> dict[str, Any]:
        """Make the form of a decision, as it was shown so many seconds ago."""
        shown = collect_shown(question)
        assert shown is not None
        session = self.running.page.access.session(self.client.cookies.get("antiphon-session"))
        assert session is not None
        stamp = session.stamp(f"{question.id}:{question.hash}", self.running.page.site.clock() - ago)
        return {"hash": question.hash, "digest": digest or shown.digest, "shown": stamp, **fields}

    def passes(self, seconds: float) -> None:
        """Let time pass on the clock by which the page judges whether anybody can have read what it sent."""
        site, before = self.running.page.site, self.running.page.site.clock
        site.clock = lambda: before() + seconds

    async def enter(self) -> None:
        """Open the page by a fresh address."""
        page = await self.client.get(self.running.address(), follow_redirects=True)
        found = re.search(r'<meta name="csrf" content="([^"]+)"', page.text)
        assert found, page.text
        self.csrf = found[1]


@asynccontextmanager
async def desk(
    *,
    provider: Provider | None = None,
    config: Config | None = None,
    store: Store | None = None,
    undo: float = 0.0,
    asks: bool = False,
    servers: Servers | None = None,
    **more: Any,
) -> AsyncIterator[Desk]:
    """Serve a page for a block; one that ``asks`` knows the host."""
    store = store or MemoryStore()
    host = Host(provider or Scripted(["ok"] * 50), reviewer=Queue(store), store=store, **more)
    asker = host if asks else None
    async with running_page(store, config=config, undo=undo, asker=asker, servers=servers) as running:
        async with visitor(base_url=running.origin) as browser:
            made = Desk(store, running, browser, host)
            await made.enter()
            yield made
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
