"""Whatever a client sends to a server that asks, in whatever order: at most one reply each, one refusal, nothing left.

Random sequences of calls, retries with states that are good, old, forged or another call's, cancellations and lost
connections. Each kind of attack alone is in ``test_hostile_client``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import Context, Server
from antiphon.channel import Oversized
from antiphon.errors import OutcomeUnknown
from antiphon.machine.state_store import MemoryStateStore
from antiphon.server.state.request_state import make_refusal
from antiphon.transports.queued import memory_pair
from tests.support.cluster import KEY
from tests.support.raw_client import RawClient, said, text

Json = dict[str, Any]
FROZEN = {"code": -32602, "message": make_refusal().message}
ASKS = {"one": 1, "chain": 3, "both": 2, "named": 1, "late": 1, "stuck": 1, "claimed": 2}
SERVERS: dict[str, Callable[[], Json]] = {
    "alone": dict,
    "alone and small": lambda: {"max_parked": 2},
    "shared": lambda: {"keys": [KEY]},
    "shared and small": lambda: {"keys": [KEY], "max_parked": 2},
    "with a store": lambda: {"keys": [KEY], "max_parked": 2, "state_store": MemoryStateStore()},
}
KINDS = [
    "call", "pause", "retry", "pause", "call", "partial", "pause", "retry", "stale", "forged", "pause", "retry",
    "swapped", "cancel", "retry", "drop",
]  # fmt: skip


def operation(seed: int) -> tuple[str, int]:
    """Make an operation of a number: its kind, and a number for what it is about."""
    detail, kind = divmod(seed, len(KINDS))
    return KINDS[kind], detail


operations = st.lists(st.integers(0, len(KINDS) * 100_000 - 1).map(operation), min_size=20, max_size=60)


def asking(**options: Any) -> tuple[Server, Counter[str]]:
    """Make a server with a tool for each way to ask, and the count of the bodies that run."""
    server, live = Server("catalogue", **options), Counter[str]()

    async def chain(call: int, ctx: Context) -> str:
        return "".join([(await ctx.sample(f"{call}/{n}")).text for n in range(3)])

    async def both(call: int, ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.sample(f"{call}/a"), ctx.sample(f"{call}/b"))
        return first.text + second.text

    async def named(call: int, ctx: Context) -> str:
        return (await ctx.sample(f"{call}/named", key="choice")).text

    async def late(call: int, ctx: Context) -> str:
        await asyncio.sleep(0)
        try:
            return (await ctx.sample(f"{call}/late")).text
        finally:
            await asyncio.sleep(0)

    async def one(call: int, ctx: Context) -> str:
        await ctx.progress(1)
        return (await ctx.sample(f"{call}/one")).text

    async def stuck(call: int, ctx: Context) -> str:
        await ctx.sample(f"{call}/stuck")
        await asyncio.Event().wait()
        return ""

    async def claimed(call: int, ctx: Context) -> str:
        first = await ctx.sample(f"{call}/1")
        return first.text + (await ctx.sample(f"{call}/2")).text

    for tool in (one, chain, both, named, late, stuck, claimed):
        server.tool(name=tool.__name__, once=tool is claimed)(counted(tool, live))
    return server, live


def counted(tool: Any, live: Counter[str]) -> Any:
    """Count the bodies of a tool that have begun and not ended."""

    async def body(call: int, ctx: Context) -> str:
        live["now"] += 1
        try:
            return await tool(call, ctx)
        finally:
            live["now"] -= 1

    return body


class Line:
    """One connection of the attacker's: what it sent, and every reply to it."""

    def __init__(self, server: Server) -> None:
        ours, theirs = memory_pair()
        self.client = RawClient(ours)
        self.replies: dict[int, list[Json]] = {}
        self.withdrawn: set[int] = set()
        self.arrived = asyncio.Event()
        self._peer = server._service.connect(theirs)
        self._peer.start()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while frames := await self.client.channel.receive():
            for frame in frames:
                assert not isinstance(frame, Oversized)
                message = msgspec.json.decode(frame)
                if "method" not in message:
                    self.replies[message["id"]].append(message)
                    self.arrived.set()

    def send(self, **params: Any) -> int:
        """Send a request of a tool and return its id."""
        id = self.client.modern("tools/call", **params)
        self.replies[id] = []
        return id

    def cancel(self, id: int) -> None:
        """Withdraw a request, answered or not."""
        self.withdrawn.add(id)
        self.client.send({"method": "notifications/cancelled", "params": {"requestId": id}})

    async def close(self) -> None:
        """Hang up; the server does not wait for what still runs."""
        await self._peer.close()
        await self._reading


class Attacker:
    """Carries out operations, and knows which requests must be refused."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.line = Line(server)
        self.lines = [self.line]
        self.calls: list[tuple[str, Json]] = []
        self.sent: list[tuple[Line, int, int]] = []
        """Line, id, and number of the call of every request."""
        self.forged: set[tuple[Line, int]] = set()

    async def do(self, kind: str, detail: int) -> None:
        """Carry out one operation; one that needs a round does nothing while there is none."""
        await getattr(self, f"_{kind}")(detail)

    async def _call(self, which: int) -> None:
        tool, call = sorted(ASKS)[which % len(ASKS)], len(self.calls)
        self.calls.append((tool, {"name": tool, "arguments": {"call": call}}))
        self._send(call)

    async def _retry(self, which: int) -> None:
        self._answer(which, newest=True, every=True)

    async def _partial(self, which: int) -> None:
        self._answer(which, newest=True, every=False)

    async def _stale(self, which: int) -> None:
        self._answer(which, newest=False, every=True)

    async def _forged(self, which: int) -> None:
        if (found := self._round(which, newest=True)) is not None:
            call, round = found
            state = round["requestState"].encode()
            place, bit = which % len(state), which % 7
            forged = state[:place] + bytes([state[place] ^ 1 << bit]) + state[place + 1 :]
            self._send(call, requestState=forged.decode(), inputResponses=self._answers(call, round), is_forged=True)

    async def _swapped(self, which: int) -> None:
        mine, other = self._round(which, newest=True), self._round(which + 1, newest=True)
        if mine is not None and other is not None and mine[0] != other[0]:
            answers = self._answers(mine[0], mine[1])
            self._send(mine[0], requestState=other[1]["requestState"], inputResponses=answers, is_forged=True)

    async def _cancel(self, which: int) -> None:
        if self.sent:
            line, id, _ = self.sent[which % len(self.sent)]
            if line is self.line:
                line.cancel(id)

    async def _pause(self, passes: int) -> None:
        for _ in range(passes % 40):
            await asyncio.sleep(0)

    async def _drop(self, _which: int) -> None:
        old, self.line = self.line, Line(self.server)
        self.lines.append(self.line)
        await old.close()

    def _send(self, call: int, *, is_forged: bool = False, **params: Any) -> None:
        id = self.line.send(**self.calls[call][1], **params)
        self.sent.append((self.line, id, call))
        if is_forged:
            self.forged.add((self.line, id))

    def _answer(self, which: int, *, newest: bool, every: bool) -> None:
        if (found := self._round(which, newest=newest)) is not None:
            call, round = found
            answers = self._answers(call, round)
            if not every:
                answers = dict(list(answers.items())[:1])
            self._send(call, requestState=round["requestState"], inputResponses=answers)

    def _answers(self, call: int, round: Json) -> Json:
        return {key: said(f"<{call}>") for key in round["inputRequests"]}

    def _round(self, which: int, *, newest: bool) -> tuple[int, Json] | None:
        """Return the newest or the first round of one of the calls that have any."""
        rounds: dict[int, list[Json]] = {}
        for line, id, call in self.sent:
            for reply in line.replies[id]:
                if "inputRequests" in reply.get("result", {}):
                    rounds.setdefault(call, []).append(reply["result"])
        if not rounds:
            return None
        call = sorted(rounds)[which % len(rounds)]
        return call, rounds[call][-1 if newest else 0]

    # --- what must hold ---------------------------------------------------------------------------------------------

    def is_owed(self, line: Line, id: int, call: int) -> bool:
        """Tell whether a request must have its reply by now: no reason is known why not."""
        return line is self.line and id not in line.withdrawn and self.calls[call][0] != "stuck"

    async def settle(self) -> None:
        """Wait for every reply that is owed."""
        async with asyncio.timeout(30):
            while any(self.is_owed(line, id, call) and not line.replies[id] for line, id, call in self.sent):
                self.line.arrived.clear()
                await self.line.arrived.wait()

    def check(self) -> None:
        """Hold the replies against the rules."""
        for line, id, call in self.sent:
            replies = line.replies[id]
            assert len(replies) <= 1
            for reply in replies:
                if (line, id) in self.forged:
                    assert reply.get("error") == FROZEN
                self._check_reply(call, reply)

    def _check_reply(self, call: int, reply: Json) -> None:
        if "error" in reply:
            # A call that runs once may have been carried out elsewhere, which its own client is told.
            is_claimed = self.calls[call][0] == "claimed"
            assert reply["error"] == FROZEN or (is_claimed and reply["error"]["code"] == OutcomeUnknown.CODE)
        elif "inputRequests" in (result := reply["result"]):
            asked = [ask["params"]["messages"][0]["content"]["text"] for ask in result["inputRequests"].values()]
            assert asked
            assert all(one.startswith(f"{call}/") for one in asked)
        else:
            assert text(result) == f"<{call}>" * ASKS[self.calls[call][0]]


@contextmanager
def nothing_at_error() -> Iterator[None]:
    """Assert that nothing is logged as an error."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = records.append
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    assert [record.getMessage() for record in records] == []


async def attack(options: Json, sequence: list[tuple[str, int]]) -> None:
    """Carry out a sequence, and check that it came to nothing."""
    server, live = asking(**options)
    async with server._service.serving():
        attacker = Attacker(server)
        for kind, detail in sequence:
            await attacker.do(kind, detail)
        await attacker.settle()
        if "max_parked" in options:
            assert server._service.rounds.parked <= options["max_parked"] + len(attacker.sent)
        await attacker.line.close()
    attacker.check()
    assert server._service.rounds.parked == 0
    assert live["now"] == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SERVERS)), operations)
def test_no_sequence_gains_anything(kind: str, sequence: list[tuple[str, int]]) -> None:
    """Every request has at most one reply, refusals say one thing, nothing is an internal error, nothing is left."""
    with nothing_at_error():
        asyncio.run(attack(SERVERS[kind](), sequence))
