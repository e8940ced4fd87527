"""Random changes of a store in memory and of one in a file: whatever happens, both answer the same."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec import structs

from antiphon.host.budget import Account, Amount, Cap
from antiphon.host.store.base import (
    OPEN,
    BlockRow,
    Change,
    Decided,
    DefinitionRow,
    Ended,
    GrantRow,
    Hold,
    PendingCallRow,
    ReviewRow,
    Settlement,
    Store,
    Supposed,
    Ticket,
)
from antiphon.host.store.memory_store import MemoryStore
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.runner import SqliteRunner
from tests.host.store.stores import Clock, record

ALIKE = "coarse:1"
ITEM = '{"origin":{"identity":"%s","coarser":["coarse:1"]}}'
DENIAL = '{"type":"deny","reach":"server"}'
CAPS = {"day:1": Cap(money=25), "total": Cap(money=60, tokens=30)}
OVER = ("decided", "done", "expired", "withdrawn")
SERVERS = ("command:x", "command:y")
LASTS = (None, 30.0)
IDS = st.sampled_from("abcd")
PRINTS = st.sampled_from("12")
HASHES = st.sampled_from("hi")
DIGESTS = st.sampled_from("de")
SERVER = st.sampled_from(SERVERS)
YES = st.booleans()
AGO = st.sampled_from([0, 0, 0, 1])


class StoresAlike(RuleBasedStateMachine):
    """One store of each kind, in which the same is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.clock, self.folder = asyncio.Runner(), Clock(), Path(mkdtemp())
        self.file = SqlStore(SqliteRunner(self.folder / "host.db"), clock=self.clock, lease=1e9)
        self.memory = MemoryStore(clock=self.clock)
        self.memory.host = self.file.host

    def both(self, method: str, *values: Any, **more: Any) -> Any:
        """Do the same in both stores, which must return the same, in the same order where there is one."""
        memory, file = (self.runner.run(self._do(store, method, values, more)) for store in (self.memory, self.file))
        assert memory == file, method
        return file

    async def _do(self, store: Store, method: str, values: tuple[Any, ...], more: dict[str, Any]) -> Any:
        try:
            found = await getattr(store, method)(*values, **more)
        except LookupError:
            return LookupError
        return sorted(found, key=str) if method in ("holds", "balances_of", "grants", "blocks") else found

    def commit(self, step: str = "policy", **change: Any) -> None:
        """Make a change, which is recorded."""
        self.both("commit", Change(records=(record(step),), **change))

    def ticket(self, id: str, ago: int) -> Ticket:
        """Name the decision of a review, or an earlier one."""
        row = self.both("review", id)
        return Ticket(id=id, decided=None if row is None or row.decided is None else row.decided - ago)

    def tidy(self) -> None:
        """Let both end what is over. One does it by itself now and then, the other when something is put."""
        for store in (self.memory, self.file):
            self.runner.run(store.recover())

    @initialize()
    def begin(self) -> None:
        """Begin with what most changes are about."""
        for id, same in ("a1", "b2"):
            self.put(id, same, "h", SERVERS[0], shared=True, lasts=None)
        self.grant("a", SERVERS[0], 2, None)

    # --- questions --------------------------------------------------------------------------------------------------

    @rule(id=IDS, same=PRINTS, hash=HASHES, server=SERVER, shared=YES, lasts=st.sampled_from(LASTS))
    def put(self, id: str, same: str, hash: str, server: str, shared: bool, lasts: float | None) -> None:
        """Ask a question, the first time or again; no two have the same time, which says nothing of their order."""
        self.tidy()
        self.clock.now += 0.001
        if self.both("review", id) is not None:
            return
        row = ReviewRow(
            id=id,
            kind="tool",
            # Two servers never ask the same.
            fingerprint=f"{same} {server}",
            group="g",
            identity=server,
            created=self.clock(),
            expires=None if lasts is None else self.clock() + lasts,
            host=self.file.host,
            item=ITEM % server,
            hash=hash,
            shared=shared,
        )
        self.both("put_review", row)

    @rule(ids=st.lists(IDS, min_size=1, max_size=2, unique=True), hash=HASHES, held=YES, blocks=YES, alike=YES)
    def decide(self, ids: list[str], hash: str, held: bool, blocks: bool, alike: bool) -> None:
        """Decide some questions at once, or block a server by the first of them."""
        now = self.clock()
        block = BlockRow(identity=SERVERS[0], target="x", since=now, coarse=ALIKE if alike else None)
        made = Decided(id="", decision="{}", by="me", hash=hash, release=now + 5 if held else None)
        decisions = [structs.replace(made, id=id) for id in ids]
        if blocks:
            decisions[0] = structs.replace(decisions[0], decision=DENIAL, block=block)
        self.both("decide", decisions)

    @rule(id=IDS, hash=HASHES, seen=st.sampled_from([None, "1"]), is_last=YES)
    def approve(self, id: str, hash: str, seen: str | None, is_last: bool) -> None:
        """Approve as one of two people."""
        approvals = "1" if seen is None else "12"
        made = Decided(id=id, decision="{}" if is_last else None, hash=hash, approvals=approvals, seen=seen)
        self.both("decide", [made])

    @rule(id=IDS, is_older=YES, undoes=YES)
    def end_hold(self, id: str, is_older: bool, undoes: bool) -> None:
        """Take a decision back, or let it take effect: this one, or one before it."""
        row = self.both("review", id)
        decided = None if row is None or row.decided is None else row.decided - is_older
        self.both(*("undo", id, decided, record("review", "undone")) if undoes else ("release", id, decided))

    @rule(id=IDS, state=st.sampled_from(["expired", "withdrawn"]), keep_item=YES)
    def close(self, id: str, state: str, keep_item: bool) -> None:
        """End a question."""
        self.both("close_review", id, state, keep_item=keep_item)

    @rule(id=IDS, owner=PRINTS, most=st.integers(1, 2))
    def leave(self, id: str, owner: str, most: int) -> None:
        """Let the caller of a question go, to ask again."""
        self.tidy()
        row = self.both("review", id)
        if row is not None and row.shared:
            call = PendingCallRow(id=id, fingerprint=row.fingerprint, owner=owner, until=self.clock() + 60)
            self.both("leave_review", call, most=most)

    @rule(id=IDS, lasts=st.sampled_from(LASTS))
    def claim(self, id: str, lasts: float | None) -> None:
        """Wait for a question."""
        self.both("claim_review", id, None if lasts is None else self.clock() + lasts)

    @rule(id=IDS, body=st.sampled_from([None, "x"]))
    def draft(self, id: str, body: str | None) -> None:
        """Begin to type something."""
        self.both("keep_draft", id, body)

    @rule(id=IDS, ago=AGO, sends=YES, server=SERVER, defines=YES, supposes=YES, digest=st.none() | DIGESTS)
    def finish(
        self, *, id: str, ago: int, sends: bool, server: str, defines: bool, supposes: bool, digest: str | None
    ) -> None:
        """Carry a decision out, or one that was made before."""
        row, now = self.both("review", id), self.clock()
        begin = None
        if row is not None and row.shared and sends:
            begin = PendingCallRow(
                id=id, fingerprint=row.fingerprint, owner="1", until=now + 60, sent=True, host=self.file.host, at=now
            )
        define = DefinitionRow(identity=server, tool="t", digest="d", body="", allowed=now) if defines else None
        supposed = Supposed(identities=(server, ALIKE), tool="t", digest=digest) if supposes else None
        ended = Ended(reviews=(id, "none"), outcome="{}")
        self.commit("review", finish=self.ticket(id, ago), begin=begin, define=define, supposed=supposed, ended=ended)

    @rule(id=IDS, is_known=YES)
    def settle_call(self, id: str, is_known: bool) -> None:
        """Store the outcome of a call, or that nobody knows it."""
        row = self.both("pending_call", id=id)
        if row is not None and row.sent:
            self.both("settle_call", structs.replace(row, **{"body": "{}"} if is_known else {"host": None}))

    # --- money, permissions, definitions ----------------------------------------------------------------------------

    @rule(id=IDS, money=st.integers(0, 3), server=SERVER, keys=st.sets(st.sampled_from([*CAPS])), use=st.none() | IDS)
    def hold(self, id: str, money: int, server: str, keys: set[str], use: str | None) -> None:
        """Reserve money, by a grant or without one."""
        if id not in [row.id for row in self.both("holds")]:
            accounts = tuple(Account(key=key, cap=CAPS[key]) for key in sorted(keys))
            amount = Amount(money=10 * money, tokens=5)
            hold = Hold(
                id=id, ask="1", identity=server, accounts=accounts, amount=amount, sent=bool(use), coarser=(ALIKE,)
            )
            self.commit("reserved", hold=hold, use=use)

    @rule(id=IDS, review=st.none() | IDS, ago=AGO)
    def send(self, id: str, review: str | None, ago: int) -> None:
        """Send what was reserved."""
        self.commit("generate", send=id, finish=review and self.ticket(review, ago))

    @rule(id=IDS, money=st.integers(0, 3))
    def settle(self, id: str, money: int) -> None:
        """Settle what was reserved, once or again."""
        spent = record("settled", money=money, input_tokens=money, output_tokens=0)
        settled = Settlement(id=id, amount=Amount(money=money, tokens=money))
        self.both("commit", Change(settle=settled, records=(spent,)))

    @rule(id=IDS, server=SERVER, uses=st.sampled_from([None, 1, 2]), lasts=st.sampled_from(LASTS))
    def grant(self, id: str, server: str, uses: int | None, lasts: float | None) -> None:
        """Give a grant, the first time or again."""
        now = self.clock()
        until = None if lasts is None else now + lasts
        self.both("add_grant", GrantRow(id=id, identity=server, body="{}", given=now, max_uses=uses, until=until))

    @rule(id=IDS, server=SERVER)
    def use(self, id: str, server: str) -> None:
        """Use a grant, unless somebody forbids it."""
        self.commit("grant", use=id, supposed=Supposed(identities=(server, ALIKE), tool="t"))

    @rule(id=IDS)
    def revoke(self, id: str) -> None:
        """Take a grant back that a person is shown."""
        if id in [row.id for row in self.both("grants")]:
            self.both("revoke", id)

    @rule(server=SERVER, is_alike=YES, lifts=YES)
    def block(self, server: str, is_alike: bool, lifts: bool) -> None:
        """Block a server, or let it ask again."""
        row = BlockRow(identity=server, target="x", since=self.clock(), coarse=ALIKE if is_alike else None)
        self.both(*("unblock", server) if lifts else ("block", row))

    @rule(server=SERVER, is_off=YES)
    def switch(self, server: str, is_off: bool) -> None:
        """Switch a tool off, or on."""
        self.both("switch_tool", server, "t", off=self.clock() if is_off else None, by="me")

    @rule(server=SERVER, digest=DIGESTS)
    def define(self, server: str, digest: str) -> None:
        """Allow a definition."""
        row = DefinitionRow(identity=server, tool="t", digest=digest, body="", allowed=self.clock(), by="me")
        self.commit(define=row)

    @rule(server=SERVER, digest=DIGESTS)
    def suppose(self, server: str, digest: str) -> None:
        """Rely on what was allowed."""
        self.commit(supposed=Supposed(identities=(server, ALIKE), tool="t", digest=digest))

    @rule(seconds=st.sampled_from([1.0, 5.0, 31.0, 61.0, -2.0]))
    def tick(self, seconds: float) -> None:
        """Let time pass, or the clock be set back."""
        self.clock.now += seconds

    # --- what must hold ---------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Compare all that can be read, and close both."""
        try:
            self.tidy()
            for method in ("waiting", "undecided", "grants", "blocks", "definitions", "balances", "holds", "head"):
                self.both(method)
            for server in SERVERS:
                self.both("standing", (server, ALIKE), "t")
            for states in (("pending",), OPEN, OVER):
                self.both("reviews", states)
                self.both("reviews", states, latest=True)
            for id in "abcd":
                self.both("draft", id)
            for same in ("1", "2"):
                for server in SERVERS:
                    self.both("pending_call", fingerprint=f"{same} {server}")
            self.both("balances_of", [*CAPS])
            for balance in self.both("balances"):
                assert balance.cap.allows(balance.held)
        finally:
            self.runner.run(self.file.aclose())
            self.runner.close()
            shutil.rmtree(self.folder)


def test_a_store_in_memory_answers_as_one_in_a_file():
    """Whatever people, callers and processes do, in any order."""
    # The same each time: what fails was broken by the last change, and not found by chance.
    fixed = settings(max_examples=80, stateful_step_count=25, deadline=None, derandomize=True)
    run_state_machine_as_test(StoresAlike, settings=fixed)
