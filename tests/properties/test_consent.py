"""Calls of tools, and people who decide about them, in random order: no call runs but by what was shown and decided."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec import structs

from antiphon.host import Approve, ChangedCall, Deny, EditCall, Host, MemoryStore, Queue, Terms, digest
from antiphon.host.review.given_grants import Grant
from antiphon.host.review.question import Mismatch, PendingCall, Question
from antiphon.host.review.queue import AlreadyDecided
from antiphon.host.review.review import Decision, ToolItem
from antiphon.host.store.base import BlockRow, Change
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin

TOOLS = [Tool(name="order", input_schema={}, description=text) for text in ("one", "two")]
SERVERS = st.sampled_from([("x",), ("x",), ("x",), ("y",)])
KINDS = ["once", "once", "session", "session", "edit", "deny", "server", "other"]
FEW = st.integers(0, 3)
TURNS = st.sampled_from([40, 0, 1, 2, 3, 4, 6, 9, 100])
"""Turns of the event loop: some that end between any two steps of a call, some that let it come to a wait."""


class Made(NamedTuple):
    """A change that lets a call run, as far as the store knows."""

    ask: str
    change: Change
    item: ToolItem | None
    decision: Decision | None


class WatchedStore(MemoryStore):
    """A store that lets others act between any two of its methods, and notes when a call may run."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Made] = []
        # The host takes what a store raises for a failure of the store, so that an assertion there would not be seen.
        self.made_though_forbidden: list[Change] = []

    async def standing(self, *names: Any) -> Any:
        """See ``base.Store.standing``."""
        await asyncio.sleep(0)
        return await super().standing(*names)

    async def grants(self, identity: str | None = None) -> Any:
        """See ``base.Store.grants``."""
        found = await super().grants(identity)
        await asyncio.sleep(0)
        return found

    async def blocks(self, *names: str) -> Any:
        """See ``base.Store.blocks``."""
        found = await super().blocks(*names)
        await asyncio.sleep(0)
        return found

    async def commit(self, change: Change) -> str | None:
        """See ``base.Store.commit``."""
        await asyncio.sleep(0)
        row = None if change.finish is None else await self.review(change.finish.id)
        identity = change.records[0].identity if change.records else ""
        refused = await super().commit(change)
        now = await super().standing((identity,), "order")
        if refused is None and (change.use is not None or (row is not None and change.supposed is not None)):
            if now.blocked or (now.definition is not None and now.definition.off is not None):
                self.made_though_forbidden.append(change)
            item = None if row is None or row.item is None else msgspec.json.decode(row.item, type=ToolItem)
            decision = None if row is None else msgspec.json.decode(row.decision or "null", type=Decision)
            self.made.append(Made(change.records[0].ask, change, item, decision))
        return refused


class Consent(RuleBasedStateMachine):
    """Calls of two principals, and people who decide, change their minds and forbid."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.store, self.asks = asyncio.Runner(), WatchedStore(), 0
        self.queue = Queue(self.store)
        self.host = Host(reviewer=self.queue, store=self.store)
        self.calls: dict[str, tuple[Origin, CallToolRequestParams, asyncio.Task[Any]]] = {}
        self.shown: list[Question] = []
        self.given: dict[str, Grant] = {}

    def act(self, work: Any, turns: int) -> Any:
        """Do something, and let the calls go on for some turns of the event loop."""

        async def acting() -> Any:
            try:
                return await work
            except (AlreadyDecided, Mismatch, LookupError):
                return None
            finally:
                for _ in range(turns):
                    await asyncio.sleep(0)
                for given in await self.host.grants.all():
                    self.given[given.id] = given.grant

        return self.runner.run(acting())

    @initialize()
    def begin(self) -> None:
        """Begin with a permission for one principal, and a call of the other that waits."""
        self.call("ann", ("x",), 1, TOOLS[0], again=False, turns=40)
        self.decide(0, "session", looks=True, turns=100)
        self.call("bob", ("x",), 1, TOOLS[0], again=True, turns=40)

    @rule(
        who=st.sampled_from(["ann", "bob"]),
        server=SERVERS,
        sku=FEW,
        tool=st.sampled_from([TOOLS[0], *TOOLS]),
        again=st.booleans(),
        turns=TURNS,
    )
    def call(self, who: str, server: tuple[str], sku: int, tool: Tool, again: bool, turns: int) -> None:
        """Call a tool, as one who waits or as one who would ask again."""
        self.asks += 1
        where = structs.replace(origin(f"{self.asks}", call=None, command=[*server]), principal=who, tool=tool)
        params = CallToolRequestParams.of("order", {"sku": sku})

        async def calling() -> Any:
            if not again:
                return await self.host.confirm(params, where)
            pending = PendingCall(600.0, 3600.0)
            with pending:
                confirmed = await self.host.confirm(params, where)
            return None if pending.is_repeated else confirmed

        async def begin() -> None:
            self.calls[where.id] = where, params, asyncio.create_task(calling())

        self.act(begin(), turns)

    @rule(which=FEW, kind=st.sampled_from(KINDS), looks=st.booleans(), turns=TURNS)
    def decide(self, which: int, kind: str, looks: bool, turns: int) -> None:
        """Decide what is shown now, or what was shown before."""
        if looks:
            self.shown = self.act(self.queue.pending(), 1)
        if not self.shown:
            return
        question = self.shown[which % len(self.shown)]
        item: Any = question.item
        edited = CallToolRequestParams.of("order", {"sku": "edited"})
        decision = {
            "once": Approve(digest=digest(item.params)),
            "session": Approve(digest=digest(item.params), scope="session", terms=Terms(uses=2)),
            "edit": EditCall(params=edited, digest=digest(edited)),
            "deny": Deny(),
            "server": Deny(reach="server"),
            "other": Approve(digest=digest(edited)),
        }[kind]
        self.act(self.queue.decide(question.id, decision, hash=question.hash, by="me"), turns)

    @rule(server=SERVERS, does=st.sampled_from(["block", "unblock", "unblock", "off", "on", "on"]), turns=TURNS)
    def forbid(self, server: tuple[str], does: str, turns: int) -> None:
        """Block a server or switch its tool off, or take that back."""
        identity = origin(command=[*server]).identity
        row = BlockRow(identity=identity, target="x", since=1.0)
        works = {"block": self.store.block, "unblock": self.store.unblock}
        if does in works:
            self.act(works[does](row if does == "block" else identity), turns)
        else:
            self.act(self.store.switch_tool(identity, "order", off=1.0 if does == "off" else None), turns)

    @rule(turns=TURNS)
    def revoke(self, turns: int) -> None:
        """Take the oldest permission back."""
        for given in self.act(self.host.grants.all(), 0)[:1]:
            self.act(self.host.grants.revoke(given), turns)

    @rule(which=FEW, turns=TURNS)
    def give_up(self, which: int, turns: int) -> None:
        """Let a caller go."""
        waiting = [task for _, _, task in self.calls.values() if not task.done()]
        if waiting:
            waiting[which % len(waiting)].cancel()
            self.act(asyncio.sleep(0), turns)

    def teardown(self) -> None:
        """Let everything end, and compare what has run with what was shown and decided."""
        for _, _, task in self.calls.values():
            task.cancel()
        self.runner.run(asyncio.wait([task for _, _, task in self.calls.values()]))
        assert self.act(self.queue.pending(), 0) == []
        finished = [made.change.finish.id for made in self.store.made if made.change.finish is not None]
        assert len(finished) == len({*finished})
        for ask, (where, params, task) in self.calls.items():
            if not task.cancelled() and task.exception() is None and task.result() is not None:
                self.check_run(ask, where, params, task.result())
        for grant in {made.change.use for made in self.store.made} - {None}:
            assert sum(made.change.use == grant for made in self.store.made) <= 2
        assert self.store.made_though_forbidden == []
        self.runner.close()

    def check_run(self, ask: str, where: Origin, params: CallToolRequestParams, result: bool | ChangedCall) -> None:
        """Check that a call ran by one decision about exactly this, which the audit has once."""
        [made] = [made for made in self.store.made if made.ask == ask]
        steps = [(record.step, record.outcome) for record in self.host.audit.records() if record.ask == ask]
        if made.change.use is not None:
            grant = self.given[made.change.use]
            assert (grant.principal, grant.identity) == (where.principal, where.identity)
            assert grant.covers(params, where)
            assert steps.count(("grant", "")) == 1
            return
        assert made.item is not None
        seen = made.item.origin
        assert (made.item.params, seen.principal, seen.identity, seen.tool) == (
            params, where.principal, where.identity, where.tool,
        )  # fmt: skip
        if isinstance(made.decision, EditCall):
            assert isinstance(result, ChangedCall)
            assert (result.params, steps.count(("review", "edit"))) == (made.decision.params, 1)
        else:
            assert isinstance(made.decision, Approve)
            assert (result, made.decision.digest, steps.count(("review", "approve"))) == (True, digest(params), 1)


def test_no_call_runs_but_by_what_was_shown_and_decided():
    """Whoever decides, forbids and gives up between any two steps."""
    # The same each time: what fails was broken by the last change, and not found by chance.
    fixed = settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True)
    run_state_machine_as_test(Consent, settings=fixed)
