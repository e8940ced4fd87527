"""Gateways with one database, as processes, and people who sit at their pages.

    python -m tests.support.gateways [ASKS]

measures how long what happens at one takes to be seen at the others.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import signal
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import httpx

from antiphon import Client
from antiphon.host.store import Store, open_store
from antiphon.types import CallToolResult
from antiphon.web.site import ARMING
from tests.support.ports import free_port
from tests.support.postgres import own_postgres
from tests.web.pages import visitor

__all__ = ["PATIENCE", "Gateways", "Person", "gateways"]

PATIENCE = 90.0
"""Seconds for whatever is waited for: a machine may be busy."""
# Times of this clock can be compared between the processes of one machine.
SHOP = '''
import time

from antiphon import Context, Server

server = Server("shop")


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Describe a product."""
    answer = await ctx.sample(f"{time.monotonic():.6f} {product}", max_tokens=100)
    return f"{time.monotonic():.6f} {answer.text}"


server.run()
'''
SETTINGS = """
[defaults]
store = "{store}"
review_timeout = 600

[defaults.caps]
per_minute = 10000

[models.echo]
provider = "echo"
model = "echo"
price = {{ input = 100, output = 1000 }}

[review]
undo = 0

[[policy.rules]]
effect = "allow"
kind = "tool"
"""


class Person:
    """Somebody with a review page open, who follows what is on it as its script does."""

    def __init__(self, browser: httpx.AsyncClient, csrf: str) -> None:
        self._browser = browser
        self._csrf = csrf
        self.rows: dict[str, str] = {}
        """What is in the queue: the text of each row, by the id of its question."""
        self.saw: dict[str, float] = {}
        """When each of them was seen first."""
        self.missed: dict[str, float] = {}
        """When each of them was gone."""
        self._news = asyncio.Condition()
        self._following = asyncio.create_task(self._follow())

    @classmethod
    async def at(cls, address: str) -> Self:
        """Open a page by the address that it has printed."""
        browser = visitor(base_url=address.partition("/open")[0], timeout=PATIENCE)
        page = await browser.get(address, follow_redirects=True)
        found = re.search(r'<meta name="csrf" content="([^"]+)"', page.text)
        assert found, page.text
        return cls(browser, found[1])

    async def leave(self) -> None:
        """Close the browser."""
        self._following.cancel()
        await asyncio.wait([self._following])
        await self._browser.aclose()

    async def sees(self, text: str) -> str:
        """Wait until a row has this text; return the id of its question."""

        def found() -> str | None:
            return next((id for id, row in self.rows.items() if text in row), None)

        await self._until(lambda: found() is not None)
        return found() or ""

    async def misses(self, id: str) -> None:
        """Wait until a question is not in the queue any more."""
        await self._until(lambda: id not in self.rows)

    async def decides(self, id: str, action: str = "approve", **fields: str) -> httpx.Response:
        """Decide a question as it is shown; wait until it is one that somebody can have read."""
        form = await self.form(id, action)
        await asyncio.sleep(ARMING)
        return await self.sends(id, action, form | fields)

    async def form(self, id: str, action: str = "approve") -> dict[str, str]:
        """Look at a question, again while its database is not there; return what its form would send."""
        async with asyncio.timeout(PATIENCE):
            while True:
                page = await self._browser.get(f"/review/{id}")
                if page.status_code < 500:
                    break
                await asyncio.sleep(0.1)
        form = re.search(rf'action="/review/{id}/{action}[^>]*>(.*?)</form>', page.text, re.DOTALL)
        assert form, page.text
        return dict(re.findall(r'name="(hash|digest|shown)" value="([^"]*)"', html.unescape(form[1])))

    async def sends(self, id: str, action: str, form: dict[str, str]) -> httpx.Response:
        """Send a form, as the page's script does."""
        headers = {"X-CSRF-Token": self._csrf, "Origin": str(self._browser.base_url).rstrip("/")}
        headers["Accept"] = "application/json"
        return await self._browser.post(f"/review/{id}/{action}", data=form, headers=headers)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(holds)

    async def _follow(self) -> None:
        """Read the stream, and the queue after each change; again when it is cut."""
        while True:
            with suppress(httpx.HTTPError):
                async with self._browser.stream("GET", "/live", timeout=30.0) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("data: ") and "list" in json.loads(line[6:]):
                            await self._read()
            await asyncio.sleep(0.1)

    async def _read(self) -> None:
        page = await self._browser.get("/", headers={"X-Part": "queue"})
        if page.status_code != 200:
            return
        rows = re.findall(r'data-row="(\w+)"[^>]*>(.*?)</a>', page.text, re.DOTALL)
        now = time.monotonic()
        for id in self.rows.keys() - dict(rows):
            self.missed[id] = now
        self.rows = {id: html.unescape(text) for id, text in rows}
        for id in self.rows:
            self.saw.setdefault(id, now)
        async with self._news:
            self._news.notify_all()


class Gateway:
    """One gateway as a process of its own group."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.said: list[str] = []
        self.has_ended = False
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def says(self, words: str) -> str:
        """Wait for a line on standard error with these words; return what follows them."""

        def found() -> str | None:
            return next((line.partition(words)[2] for line in self.said if words in line), None)

        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: self.has_ended or found() is not None)
        said = found()
        assert said is not None, f"no {words!r} in {self.said}"
        return said.strip()

    async def call(self, product: str) -> str:
        """Call the tool that asks, as a client of this gateway's own."""
        async with Client(self.url, timeout=PATIENCE) as client:
            return text(await client.call_tool("shop__describe", {"product": product}))

    def kill(self) -> None:
        """End it and what it has started, without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """End it, and read what is left in its pipe."""
        self.kill()
        async with asyncio.timeout(PATIENCE):
            await self._reading
            await self.process.wait()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._news:
                self.said.append(line.decode(errors="replace").rstrip())
                self._news.notify_all()
        async with self._news:
            self.has_ended = True
            self._news.notify_all()


async def _listens(port: int) -> None:
    """Wait until somebody listens at a port: a gateway says its address just before that."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)


def text(result: CallToolResult) -> str:
    """Return the text of a result."""
    return "".join(getattr(block, "text", "") for block in result.content)


class Gateways:
    """Several gateways with one database, in front of the same server."""

    def __init__(self, folder: Path, store: str, stack: AsyncExitStack, settings: str) -> None:
        self._folder = folder
        self._stack = stack
        self.store_address = store
        (folder / "shop.py").write_text(SHOP)
        (folder / "antiphon.toml").write_text(SETTINGS.format(store=store) + settings)
        served = {"shop": {"command": sys.executable, "args": [str(folder / "shop.py")]}}
        (folder / "servers.json").write_text(json.dumps({"mcpServers": served}))
        self.running: list[Gateway] = []

    async def start(self, review: str = "page") -> Gateway:
        """Start one more."""
        port = free_port()
        own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        homes = {name: str(self._folder) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        command = [sys.executable, "-m", "antiphon", "gateway", "--http", f"127.0.0.1:{port}", "--review", review]
        process = await asyncio.create_subprocess_exec(
            *command, "--config", "servers.json", "--config", "antiphon.toml",
            cwd=self._folder, env={**own, **homes, "BROWSER": ""}, start_new_session=True,
            stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
        )  # fmt: skip
        started = Gateway(process, port)
        self._stack.push_async_callback(started.end)
        await started.says(f":{port}")
        await _listens(port)
        self.running.append(started)
        return started

    async def person(self, gateway: Gateway) -> Person:
        """Open the page of a gateway, which opens with its first question; that is refused here."""
        number = self.running.index(gateway)
        asking = asyncio.create_task(gateway.call(f"first of {number}"))
        person = await Person.at(await gateway.says("Review page: "))
        self._stack.push_async_callback(person.leave)
        await person.decides(await person.sees(f" first of {number}"), "deny")
        await asyncio.wait([asking])
        return person

    async def people(self) -> list[Person]:
        """Open the pages of all gateways but the first."""
        return await asyncio.gather(*(self.person(gateway) for gateway in self.running[1:]))

    def store(self) -> Store:
        """Open the database as one more process would."""
        opened = open_store(self.store_address)
        self._stack.push_async_callback(opened.aclose)
        return opened


@asynccontextmanager
async def gateways(store: str, count: int = 3, settings: str = "") -> AsyncGenerator[Gateways]:
    """Run gateways with a store; at the end nothing of them is left."""
    with TemporaryDirectory(prefix="antiphon-gateways-") as folder:
        async with AsyncExitStack() as stack:
            made = Gateways(Path(folder), store, stack, settings)
            await asyncio.gather(*(made.start() for _ in range(count)))
            yield made


def _figures(of: str, seconds: list[float]) -> str:
    ordered = sorted(1000 * each for each in seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{of}: p50 {statistics.median(ordered):.0f} ms, p99 {p99:.0f} ms, most {ordered[-1]:.0f} ms"


async def _measured(asks: int, place: str) -> None:
    seen: list[float] = []
    in_all: list[float] = []
    went_on: list[float] = []
    gone: list[float] = []
    async with gateways(place) as running:
        people = await running.people()
        for number in range(asks):
            decider, other = people[number % 2], people[1 - number % 2]
            asking = asyncio.create_task(running.running[0].call(f"item {number}."))
            id = await decider.sees(f"item {number}.")
            await other.sees(f"item {number}.")
            row = decider.rows[id]
            waits_since, asked = re.search(r'data-age="([0-9.]+)"', row), re.search(r"([0-9.]+) item", row)
            assert waits_since, row
            assert asked, row
            stored = float(waits_since[1]) - time.time() + time.monotonic()
            seen += [person.saw[id] - stored for person in people]
            in_all += [person.saw[id] - float(asked[1]) for person in people]
            form = await decider.form(id, "answer")
            # A little more, so that the request is not refused for coming too soon.
            await asyncio.sleep(ARMING + 0.05)
            before = time.monotonic()
            sent = await decider.sends(id, "answer", form | {"text": "ok"})
            assert sent.status_code == 200, sent.text
            went_on.append(float((await asking).split()[0]) - before)
            await other.misses(id)
            gone.append(other.missed[id] - before)
    print(_figures("on another gateway's page, after it began to wait at the first", seen))
    print(_figures("the same, after the server has asked", in_all))
    print(_figures("the server's function goes on, after the decision at another gateway", went_on))
    print(_figures("the row is gone from the third gateway's page", gone))


def main(arguments: list[str]) -> None:
    """Measure with as many asks as wanted, on PostgreSQL; or with the word ``sqlite``, in a file."""
    asks = int(arguments[0]) if arguments else 100
    if "sqlite" in arguments:
        with TemporaryDirectory(prefix="antiphon-file-") as folder:
            asyncio.run(_measured(asks, f"{folder}/host.db"))
        return
    with own_postgres() as postgres:
        asyncio.run(_measured(asks, postgres.address))


if __name__ == "__main__":
    main(sys.argv[1:])
