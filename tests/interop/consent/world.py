"""All that runs for the checks: gateways, the page, an issuer of tokens, callers; and one check among them.

Each is a process of its own, except the issuer and the person's browser. All gateways share one store. Callers sign in,
so each has a principal of its own, and each check has an article (SKU) of its own by which its calls are told apart.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.host import ElicitItem, Queue, ToolItem, open_store
from antiphon.host.review.question import Question
from antiphon.host.store.chain import Record, RecordSearch
from tests.interop.consent.callers import OTHER_ERAS, PENDING, Caller, Column, Outcome, Target
from tests.interop.consent.host_callers import HostCaller
from tests.interop.consent.person import Fields, Person, settle, typed
from tests.interop.peers import Peers
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.ports import free_port

ANTIPHON = [sys.executable, "-m", "antiphon"]
SHOP = str(Path(__file__).parent / "shop.py")
PATIENCE = 120
"""Seconds that one step of a check may take on a busy machine."""
SOON = 0.3
"""Seconds until a caller is told to ask again, where a check is not about that."""
HELD = 180
"""The same, where a check decides in time. The callers wait somewhat longer."""
ANN = "ann"
"""Who calls, where a check is not about that."""


class Gateway:
    """A gateway that runs, and its address."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self.process.returncode is None:
            self.process.send_signal(how)
        await self.process.wait()


class World:
    """What all checks share."""

    def __init__(self, root: Path, peers: Peers, issuer: Issuer, stack: AsyncExitStack) -> None:
        self.root, self.peers, self.issuer = root, peers, issuer
        self.store_file = str(root / "host.db")
        self.store = open_store(self.store_file)
        self.queue = Queue(self.store)
        self._starting: dict[Column, asyncio.Task[Caller | HostCaller]] = {}
        self._stack = stack
        self._gateways: dict[str, asyncio.Task[Gateway]] = {}
        self._people: dict[str, asyncio.Task[Person]] = {}
        self._files = 0
        self._tokens: dict[str, str] = {}

    def token(self, who: str) -> str:
        """Return the token of a principal: always the same, since callers connect once for each token."""
        if who not in self._tokens:
            self._tokens[who] = self.issuer.token(sub=who, exp=4_000_000_000)
        return self._tokens[who]

    @property
    def environ(self) -> dict[str, str]:
        """Variables of a user who has nothing else."""
        return {**os.environ, "HOME": str(self.root), "XDG_STATE_HOME": str(self.root / "state"), "BROWSER": ""}

    def write(self, text: str, suffix: str) -> str:
        """Write a file, and return its path."""
        self._files += 1
        path = self.root / f"{self._files}{suffix}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def command(
        self,
        *,
        policy: str = "",
        defaults: str = "",
        per_minute: int = 10_000,
        within: float = SOON,
        keep: float = 3600,
        shops: tuple[str, ...] = ("shop",),
        more: tuple[str, ...] = (),
        signs_in: bool = True,
        names: str = "none",
    ) -> list[str]:
        """Return the command line of a gateway.

        Args:
            policy: further tables of its configuration, in TOML.
            defaults: further defaults.
            per_minute: most asks of a server in a minute. Those of all checks are of one, and fast where they are many.
            within: seconds until a caller is told to ask again.
            keep: seconds until a question expires.
            shops: the servers behind it.
            more: further options.
            signs_in: whether its clients need a token.
            names: how tools are called.
        """
        # At the beginning dozens of programs start at the same time.
        entry = {"command": sys.executable, "start_timeout": PATIENCE}
        entries = {name: {**entry, "args": [SHOP, str(self.root), name]} for name in shops}
        auth = f'[auth]\nissuers = ["{self.issuer.url}"]\naudience = "{AUDIENCE}"\n' if signs_in else ""
        settings = f"""
            [defaults]
            review_timeout = {keep}
            keep_content = true
            {defaults}
            [defaults.caps]
            per_minute = {per_minute}
            [gateway]
            answer_within = {within}
            # A host that shows nobody a form takes longer to say so on a busy machine.
            quick_cancel = 30
            list_timeout = 60
            {auth}
            {policy}"""
        files = [self.write(json.dumps({"mcpServers": entries}), ".json"), self.write(settings, ".toml")]
        configured = [word for file in files for word in ("--config", file)]
        return [*ANTIPHON, "gateway", *configured, "--names", names, "--store", self.store_file, *more]

    async def start_gateway(self, **options: Any) -> Gateway:
        """Start a gateway."""
        port = free_port()
        review = () if "more" in options else ("--review", "queue")
        command = [*self.command(**options), *review, "--http", f"127.0.0.1:{port}"]
        process = await asyncio.create_subprocess_exec(
            *command, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        gateway = Gateway(process, port)
        self._stack.push_async_callback(gateway.end)
        async with asyncio.timeout(PATIENCE):
            while True:
                assert process.returncode is None, "the gateway has ended"
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    writer.close()
                    return gateway

    async def gateway(self, options: dict[str, Any]) -> Gateway:
        """Return the gateway with these options, which all checks that want it share; with ``second`` another one."""
        key, kept = json.dumps(options), {name: value for name, value in options.items() if name != "second"}
        if key not in self._gateways:
            self._gateways[key] = asyncio.create_task(self.start_gateway(**kept))
        # A check that gives up must not end the start for the others.
        return await asyncio.shield(self._gateways[key])

    async def person(self, undo: float = 0) -> Person:
        """Return the person at the page, which is a process, too; what they permit is held for ``undo`` seconds."""
        key = str(undo)
        if key not in self._people:
            self._people[key] = asyncio.create_task(self._open_page(undo))
        # A check that gives up must not end the start for the others.
        return await asyncio.shield(self._people[key])

    async def _open_page(self, undo: float) -> Person:
        settings = self.write(f"[review]\nundo = {undo}\n", ".toml")
        command = [*ANTIPHON, "review", "web", "--no-open", "--config", settings, "--store", self.store_file]
        process = await asyncio.create_subprocess_exec(
            *command, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        self._stack.push_async_callback(Gateway(process, 0).end)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while not (line := (await process.stdout.readline()).decode()).startswith("Review page: "):
                assert line, "the page has ended"
        person = Person(line.split()[-1])
        self._stack.push_async_callback(person.close)
        await person.enter()
        return person

    async def antiphon(self, *words: str) -> tuple[int, str]:
        """Run one of our commands; returns its exit code and what it prints."""
        process = await asyncio.create_subprocess_exec(
            *ANTIPHON, *words, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def caller(self, column: Column) -> Caller | HostCaller:
        """Return the program of a column."""
        if column not in self._starting:
            starting = self._start_host(column) if column.is_host else self._start_program(column)
            self._starting[column] = asyncio.create_task(starting)
        return await asyncio.shield(self._starting[column])

    async def _start_program(self, column: Column) -> Caller:
        caller = await Caller.start(self.peers, column, self.root)
        self._stack.push_async_callback(caller.close)
        return caller

    async def _start_host(self, column: Column) -> HostCaller:
        """Start a host that has all gateways of its checks from the beginning: it starts in the time of many calls."""
        known: list[tuple[str, str | None]] = []
        for number in CHECKS:
            if is_called_by(number, column):
                for options, who in Case(self, column, number).list_known():
                    known.append((json.dumps((await self.gateway(options)).url), self.token(f"{who}-{column.name}")))
        caller = HostCaller(self.peers, column.program, self.root, known)
        self._stack.push_async_callback(caller.close)
        await caller.prepare()
        return caller


@asynccontextmanager
async def open_world(root: Path, peers: Peers) -> AsyncIterator[World]:
    """Yield a world, and end all that it has started."""
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(Issuer().open())
        world = World(root, peers, issuer, stack)
        stack.push_async_callback(world.store.aclose)
        yield world


class Case:
    """One check in one column: its calls, its questions, its person."""

    def __init__(self, world: World, column: Column, number: str) -> None:
        self.world, self.column, self.check = world, column, CHECKS[number]
        self.sku = f"{number}-{column.name}".lower()
        self.options = self.check.options
        if self.check.own:
            self.options = {**self.options, "shops": [f"{each}-{column.name}" for each in self.options["shops"]]}
        self._called: list[tuple[Target, str | None]] = []

    def list_known(self) -> list[tuple[dict[str, Any], str]]:
        """Return the gateways that the check calls and others call as well, by their options, each with the caller."""
        if self.check.alone:
            return []
        known = [(self.options, who) for who in (ANN, *self.check.others)]
        return known if self.check.another is None else [*known, (self._other_options, ANN)]

    @property
    def _other_options(self) -> dict[str, Any]:
        assert self.check.another is not None
        return {**self.options, **self.check.another, "second": True}

    async def send(self, do: str, *, at: Target | None = None, who: str = ANN, **members: Any) -> Outcome:
        """Send a command to the check's gateway or another target, and wait for its answer."""
        return Outcome(await (await self.begin(do, at=at, who=who, **members)))

    async def begin(
        self, do: str, *, at: Target | None = None, who: str = ANN, token: str | None = None,
        is_given_up: bool = False, **members: Any,
    ) -> asyncio.Future[dict[str, Any]]:  # fmt: skip
        """Send a command."""
        caller = await self.world.caller(self.column)
        target = at if at is not None else (await self.world.gateway(self.options)).url
        if isinstance(target, str) and token is None:
            token = self.world.token(f"{who}-{self.column.name}")
        self._called.append((target, token))
        return await caller.begin(target, do, token=token, is_given_up=is_given_up, **members)

    async def hold(
        self, tool: str, *, at: Target | None = None, who: str = ANN, is_given_up: bool = False,
        progress: bool = False, ref: str | None = None, **arguments: Any,
    ) -> asyncio.Future[dict[str, Any]]:  # fmt: skip
        """Begin a call, about this check's article unless another is named; ``is_given_up``: by ``give_up``, later."""
        meta = {PENDING: ref} if ref is not None else None
        return await self.begin(
            "call", at=at, who=who, tool=tool, arguments={"sku": self.sku, **arguments}, meta=meta, progress=progress,
            is_given_up=is_given_up,
        )  # fmt: skip

    async def give_up(self, calling: asyncio.Future[dict[str, Any]]) -> None:
        """Let the caller give a call up that it has begun, and wait until it has."""
        caller = await self.world.caller(self.column)
        caller.give_up(calling)
        await calling

    async def call(self, tool: str, **options: Any) -> Outcome:
        """Make a call, and wait for its outcome."""
        async with asyncio.timeout(PATIENCE):
            return Outcome(await (await self.hold(tool, **options)))

    async def waiting(self, sku: str = "") -> list[Question]:
        """Return the questions about this check's article."""
        wanted = f'"{sku or self.sku}"'.encode()
        pending = await self.world.queue.pending()
        return [
            each for each in pending if isinstance(each.item, ToolItem) and wanted in bytes(each.item.params.arguments)
        ]

    async def question(self) -> Question:
        """Wait for the question about this check's article."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.world.queue.changes(0.05):
                if found := await self.waiting():
                    return found[0]
        raise AssertionError

    async def form(self) -> str:
        """Wait for a question of the server itself about this check's article, and return its id."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.world.queue.changes(0.05):
                for each in await self.world.queue.pending():
                    if isinstance(each.item, ElicitItem) and f"{self.sku}?" in each.item.params.message:
                        return each.id
        raise AssertionError

    async def gone(self) -> None:
        """Wait until no question about this check's article waits."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.world.queue.changes(0.1):
                if not await self.waiting():
                    return

    async def decide(self, action: str, given: Fields | None = None, *, at: str = "") -> Question:
        """Wait for the question, and decide it on the page."""
        question = await self.question()
        settle(await (await self.world.person()).decide(question.id, action, given, at=at))
        return question

    async def approve(self) -> Question:
        """Approve what waits."""
        return await self.decide("approve")

    async def edit(self, **arguments: Any) -> Question:
        """Run what waits with other arguments."""
        return await self.decide("edit", typed(**arguments), at="/edit")

    async def reject(self, **given: Any) -> Question:
        """Refuse what waits."""
        return await self.decide("deny", typed(**given))

    async def respond(self, text: str) -> Question:
        """Answer in place of the tool."""
        return await self.decide("answer", typed(text=text))

    def ran(self, sku: str = "") -> list[tuple[str, dict[str, Any]]]:
        """Return the calls about this check's article that a server has run."""
        file = self.world.root / "ran"
        noted = file.read_text(encoding="utf-8") if file.exists() else ""
        # Another server may be writing the last line.
        lines, wanted = noted[: noted.rfind("\n") + 1].splitlines(), sku or self.sku
        return [(tool, arguments) for tool, arguments in map(json.loads, lines) if arguments.get("sku") == wanted]

    async def records(self) -> list[Record]:
        """Return the records of all asks that are about this check's article."""
        entries = await self.world.store.find_records(RecordSearch(after=0), 100_000)
        records = [each.record for each in entries]
        asks = {(each.host, each.ask) for each in records if each.content is not None and self.sku in each.content}
        return [each for each in records if (each.host, each.ask) in asks]

    async def steps(self) -> set[tuple[str, str]]:
        """Return step and outcome of these records."""
        return {(each.step, each.outcome) for each in await self.records()}

    async def another(self) -> Gateway:
        """Return the check's other gateway over the same store, which other checks use, too."""
        return await self.world.gateway(self._other_options)

    async def own(self, **options: Any) -> Gateway:
        """Start another gateway over the same store, which this check may end."""
        return await self.world.start_gateway(**{**self.options, **options})

    async def close(self) -> None:
        """Refuse what the check has left, and end what a host has opened for it."""
        for question in await self.waiting():
            await (await self.world.person()).decide(question.id, "deny")
        caller = await self.world.caller(self.column)
        if isinstance(caller, HostCaller):
            await caller.leave(self._called)


class Check(NamedTuple):
    """A check of the table."""

    carry_out: Callable[[Case], Any]
    options: dict[str, Any]
    """Of its gateway."""
    callers: str = "PTCG"
    """The letters of the columns that can call it."""
    others: Sequence[str] = ()
    """Who calls the gateway besides the usual caller."""
    another: dict[str, Any] | None = None
    """What is different at its other gateway, if it has one."""
    alone: bool = False
    """Whether it runs after all others, by itself."""
    own: bool = False
    """Whether its servers, and so its gateway, are for one column only."""
    several: bool = False
    """Whether it makes calls at the same time."""


CHECKS: dict[str, Check] = {}
"""The checks by number."""


def check(number: str, **members: Any) -> Callable[[Callable[[Case], Any]], Callable[[Case], Any]]:
    """Add a check; what is no member of ``Check`` is an option of its gateway."""

    def add(function: Callable[[Case], Any]) -> Callable[[Case], Any]:
        assert number not in CHECKS, number
        options = {name: value for name, value in members.items() if name not in Check._fields}
        about = {name: value for name, value in members.items() if name in Check._fields}
        CHECKS[number] = Check(function, options, **about)
        return function

    return add


ACROSS = ("E1", "E2", "L1", "L2")
"""The checks that run in both eras of both SDKs; the others run in one era of each."""


def is_called_by(number: str, column: Column) -> bool:
    """Return whether a check runs in a column."""
    return column.letter in CHECKS[number].callers and (column not in OTHER_ERAS or number in ACROSS)
