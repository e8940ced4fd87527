"""A store in memory, for hosts that need no other, and for tests.

It implements ``base.Store`` except that nothing outlives the process. The audit is bounded: the oldest records are
dropped first.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from itertools import dropwhile, islice
from secrets import token_hex
from typing import Any, Literal

import msgspec

from antiphon.host.budget import Amount, task_account
from antiphon.host.store import ask_rows, base
from antiphon.host.store.chain import Entry, Head, Record, RecordSearch, extend_chain
from antiphon.host.store.news import News

MAX_RECORDS = 10_000
"""Most audit records: some thousand requests, about 5 MB."""
MAX_GRANTS = 1_000
"""Most grants; a person gives a handful. The oldest are dropped first, so that the person is asked again."""
MAX_ACCOUNTS = 10_000
"""Most accounts, nearly all of them of calls. The oldest without a reservation is dropped first; its spending is
counted in other accounts as well."""
MAX_SUMS = 10_000
"""Most sums of what was spent, by day, server and model. The oldest are dropped first."""
MAX_DEFINITIONS = 10_000
"""Most definitions of tools. A further one is not kept, and a person is asked at each call of its tool."""
MAX_REVIEWS = 1_000
"""Most reviews that are over: a history for the review page."""


class MemoryStore(base.Store):
    """A ``Store`` in memory, which ends with the process. No method awaits anything, so each is atomic.

    Args:
        clock: returns seconds since the epoch.
        keep_content: keep what was reviewed after the review is over.
    """

    bounded = True

    def __init__(self, *, clock: Callable[[], float] = time.time, keep_content: bool = False) -> None:
        """Make an empty store."""
        self._keep_content = keep_content
        self.host = token_hex(6)
        self.news = News()
        self._clock = clock
        self._accounts: dict[str, base.Balance] = {}
        self._holds: dict[str, base.HoldRow] = {}
        self._task_asks: dict[str, dict[str, float]] = {}
        self._grants: dict[str, base.GrantRow] = {}
        self._definitions: dict[tuple[str, str], base.DefinitionRow] = {}
        self._blocks: dict[str, base.BlockRow] = {}
        self._reviews: dict[str, base.ReviewRow] = {}
        self._timed_rows: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
        self._partials: dict[str, base.PartialRow] = {}
        self._calls: dict[str, base.PendingCallRow] = {}
        self._runs: dict[str, list[str]] = {}
        self._watched = 0.0
        self._entries: deque[Entry] = deque(maxlen=MAX_RECORDS)
        self._head = Head()
        self._asks: dict[ask_rows.AskKey, ask_rows.AskRow] = {}
        self._spent: dict[ask_rows.SpentKey, ask_rows.SpentRow] = {}
        self._gathered = 0
        self._drafts: dict[str, str] = {}
        self._version = 0

    async def commit(self, change: base.Change) -> str | None:
        refusal = await self._refusal(change)
        if refusal is not None:
            return refusal
        records = change.records
        if change.settle is not None and not self._settle(change.settle.id, change.settle.amount):
            records = base.correct_late_records(records, change.settle, Amount())
        if change.hold is not None:
            self._take(change.hold)
        if change.send is not None:
            self._holds[change.send] = msgspec.structs.replace(self._holds[change.send], sent=True)
        if change.use is not None:
            grant = self._grants[change.use]
            self._grants[change.use] = msgspec.structs.replace(grant, used=grant.used + 1)
        if change.finish is not None:
            await self._finish(change.finish.id, change.begin)
        for id in change.ended.reviews if change.ended is not None else ():
            if id in self._reviews and change.ended is not None:
                self._keep(msgspec.structs.replace(self._reviews[id], outcome=change.ended.outcome))
        if change.define is not None:
            key = (change.define.identity, change.define.tool)
            known = self._definitions.get(key)
            off = None if known is None else known.off
            self._definitions[key] = msgspec.structs.replace(change.define, off=off)
        self._record(records)
        return None

    async def _finish(self, id: str, call: base.PendingCallRow | None) -> None:
        await self.close_review(id, "done", keep_item=self._keep_content)
        if call is not None:
            _keep_latest(self._calls, call.id, call, MAX_REVIEWS)
            rows = (each for each in self._reviews.values() if each.shared and each.fingerprint == call.fingerprint)
            self._withdraw([each for each in rows if each.id != call.id], base.TAKEN)

    async def balances(self, prefix: str = "") -> list[base.Balance]:
        return [self._accounts[key] for key in sorted(self._accounts) if key.startswith(prefix)]

    async def balances_of(self, keys: Sequence[str]) -> list[base.Balance]:
        return [self._accounts[key] for key in keys if key in self._accounts]

    async def task_so_far(self, task: str, ask: str) -> base.TaskSoFar:
        asks = self._task_asks.setdefault(task, {})
        asks.setdefault(ask, self._clock())
        if len(self._task_asks) > MAX_ACCOUNTS:
            del self._task_asks[next(iter(self._task_asks))]
        account = self._accounts.get(task_account(task))
        spent = Amount() if account is None else account.spent
        return base.TaskSoFar(first=next(iter(asks.values())), asks=list(asks).index(ask), spent=spent)

    async def holds(self) -> list[base.HoldRow]:
        return list(self._holds.values())

    async def entries(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        first = self._head.seq - len(self._entries) + 1
        at = max(after + 1 - first, 0)
        return [self._entries[index] for index in range(at, min(at + limit, len(self._entries)))]

    async def head(self) -> Head:
        return self._head

    async def entries_at(self, seqs: Sequence[int]) -> list[Entry]:
        wanted = set(seqs)
        return [entry for entry in self._entries if entry.seq in wanted]

    async def find_records(self, search: RecordSearch, limit: int = 400) -> list[Entry]:
        entries = self._entries if search.after is not None else reversed(self._entries)
        before, after = search.before or self._head.seq + 1, search.after or 0
        return list(islice((one for one in entries if after < one.seq < before and one.record in search), limit))

    async def gather(self, limit: int = 2000) -> int:
        """See ``base.Store.gather``. Adds all records, since there are few; dropped ones are left out."""
        if self._gathered != self._head.seq:
            self._asks, self._gathered = {}, self._head.seq
            ask_rows.gather_rows(self._asks, ask_rows.decode_records(self._entries))
        return 0

    async def asks(self, sought: ask_rows.Sought) -> ask_rows.Found:
        found = [row for row in reversed(self._asks.values()) if row in sought]
        page = (row for row in found if sought.before is None or row.seq < sought.before)
        rows, behind = list(islice(page, sought.limit)), self._head.seq - self._gathered
        return ask_rows.Found(rows=rows, count=len(found), behind=behind, gathered=self._gathered)

    async def calls(self, since: float) -> dict[str, int]:
        calls = (row for row in self._asks.values() if row.method == "tools/call" and row.at >= since)
        return Counter(row.identity for row in calls)

    async def servers(self, identities: Collection[str]) -> dict[str, str]:
        return {row.identity: row.server for row in self._asks.values() if row.identity in identities and row.server}

    async def ask(self, seq: int) -> ask_rows.AskRow | None:
        return next((row for row in self._asks.values() if row.seq == seq), None)

    async def spending(self) -> tuple[list[ask_rows.SpentRow], int]:
        return [msgspec.structs.replace(row) for row in self._spent.values()], self._head.seq

    async def standing(self, identities: Sequence[str], tool: str) -> base.Standing:
        blocked = bool(self._blocks) and any(row.covers(identities) for row in self._blocks.values())
        return base.Standing(blocked=blocked, definition=self._definitions.get((identities[0], tool)))

    async def definitions(self) -> list[base.DefinitionRow]:
        return [row for _, row in sorted(self._definitions.items())]

    async def switch_tool(self, identity: str, tool: str, *, off: float | None, by: str | None = None) -> None:
        """See ``base.Store.switch_tool``. There is room for it, because nobody switches off thousands."""
        unknown = base.DefinitionRow(identity=identity, tool=tool, digest="", body="", allowed=0.0, by=by)
        known = self._definitions.get((identity, tool), unknown)
        self._definitions[identity, tool] = msgspec.structs.replace(known, off=off)

    async def add_grant(self, row: base.GrantRow) -> None:
        _keep_latest(self._grants, row.id, row, MAX_GRANTS)

    async def grants(self, identity: str | None = None) -> list[base.GrantRow]:
        return [row for row in self._grants.values() if self._in_force(row) and identity in (None, row.identity)]

    async def revoke(self, grant: str) -> bool:
        return self._grants.pop(grant, None) is not None

    async def block(self, row: base.BlockRow) -> None:
        self._block(row, ())

    async def unblock(self, identity: str) -> bool:
        return self._blocks.pop(identity, None) is not None

    async def blocks(self, *identities: str) -> list[base.BlockRow]:
        return [row for row in self._blocks.values() if not identities or row.covers(identities)]

    async def put_review(self, row: base.ReviewRow) -> base.ReviewRow:
        """See ``base.Store.put_review``. There are no killed processes, but calls that are made again."""
        self._expire_left()
        sent = self._find_sent_call(row.fingerprint) if row.shared else None
        if sent is not None and sent.id in self._reviews:
            return self._reviews[sent.id]
        left = next((kept for kept in self._reviews.values() if self._is_same(kept, row)), None)
        if left is not None and left.host is not None:
            return left
        if left is not None:
            row = msgspec.structs.replace(left, **base.take_over(left, row))
        self._keep(row)
        over = [id for id, kept in self._reviews.items() if kept.state not in base.OPEN]
        for id in over[: max(0, len(over) - MAX_REVIEWS)]:
            del self._reviews[id]
        return row

    def _is_same(self, kept: base.ReviewRow, row: base.ReviewRow) -> bool:
        """Return whether a question is the open one that another takes over or joins."""
        is_free = kept.host is None or (kept.shared and row.shared and kept.hash == row.hash)
        is_valid = kept.expires is None or kept.expires > self._clock()
        return kept.fingerprint == row.fingerprint and kept.state in base.OPEN and is_free and is_valid

    async def leave_review(self, call: base.PendingCallRow, *, most: int) -> bool:
        self._expire_left()
        others = [each for each in self._calls.values() if each.owner == call.owner and each.id != call.id]
        if sum(not each.sent and self._find_open(each.id) is not None for each in others) >= most:
            return False
        if (row := self._find_open(call.id)) is not None and row.host == self.host:
            self._calls[call.id] = call
            self._keep(msgspec.structs.replace(row, host=None, expires=call.until))
        return True

    def _find_open(self, id: str) -> base.ReviewRow | None:
        row = self._reviews.get(id)
        return row if row is not None and row.state in base.OPEN else None

    def _expire_left(self) -> int:
        """End the questions and calls that nobody has asked for again in time. Returns the number of questions."""
        now, rows = self._clock(), self._reviews.values()
        self._calls = {id: each for id, each in self._calls.items() if each.until > now}
        left = [row for row in rows if row.host is None and row.state in base.OPEN and (row.expires or now + 1) <= now]
        for row in left:
            self._keep(_empty_review(row, "expired"))
        return len(left)

    async def pending_call(self, *, id: str = "", fingerprint: str = "") -> base.PendingCallRow | None:
        if not id:
            return self._find_sent_call(fingerprint)
        row = self._calls.get(id)
        return row if row is not None and row.until > self._clock() else None

    def _find_sent_call(self, fingerprint: str) -> base.PendingCallRow | None:
        """Return the latest call with a fingerprint that was sent, and is still told of."""
        now, calls = self._clock(), reversed(self._calls.values())
        return next(
            (each for each in calls if each.until > now and each.sent and each.fingerprint == fingerprint), None
        )

    async def settle_call(self, call: base.PendingCallRow) -> None:
        _keep_latest(self._calls, call.id, call, MAX_REVIEWS)
        self._changed(call.id)

    async def run_entries(self, run: str) -> list[str]:
        return list(self._runs.get(run, ()))

    async def add_run_entry(self, run: str, at: int, body: str) -> bool:
        entries = self._runs.setdefault(run, [])
        if at == len(entries):
            entries.append(body)
            return True
        return False

    async def forget_run(self, run: str) -> None:
        self._runs.pop(run, None)

    async def review(self, id: str) -> base.ReviewRow | None:
        return self._reviews.get(id)

    async def reviews(
        self,
        states: Sequence[base.ReviewState] = ("pending",),
        limit: int = 1000,
        *,
        latest: bool = False,
        contents: bool = True,
        after: str | None = None,
    ) -> list[base.ReviewRow]:
        """See ``base.Store.reviews``: contents are here in any case."""
        oldest_first = sorted(self._reviews.values(), key=lambda row: row.created)
        rows = reversed(oldest_first) if latest else iter(oldest_first)
        if after is not None:
            rows = islice(dropwhile(lambda row: row.id != after, rows), 1, None)
        return list(islice((row for row in rows if row.state in states), limit))

    async def waiting(self) -> int:
        now, rows = self._clock(), self._reviews.values()
        return sum(row.state == "pending" and not row.held and (row.expires or now + 1) > now for row in rows)

    async def decide(self, decisions: Sequence[base.Decided]) -> base.ReviewRow | None:
        now, rows = self._clock(), list[base.ReviewRow]()
        for decided in decisions:
            row = self._reviews.get(decided.id)
            if row is None:
                raise LookupError(f"there is no review {decided.id}")
            if not self._can_decide(row, decided):
                return row
            rows.append(row)
        for row, decided in zip(rows, decisions, strict=True):
            state: base.ReviewState = "decided" if decided.release is None else "pending"
            kept = {"decision": decided.decision, "by": decided.by, "decided": now, "release": decided.release}
            kept = {} if decided.decision is None else {"state": state, **kept}
            self._keep(msgspec.structs.replace(row, approvals=decided.approvals, **kept))
        for decided in decisions:
            if decided.block is not None and decided.release is not None:
                self._note_block(decided.block)
            elif decided.block is not None:
                self._block(decided.block, [one.id for one in decisions])
        return None

    async def undo(self, id: str, decided: float | None, *records: Record) -> bool:
        row = self._reviews.get(id)
        undone = self._end_hold(id, decided, base.UNDECIDED)
        self._record(records if undone else ())
        blocking = {each.identity for each in self._reviews.values() if each.blocks}
        if undone and row is not None and row.blocks and row.identity not in blocking:
            self._blocks.pop(row.identity, None)
        return undone

    async def release(self, id: str, decided: float | None) -> bool:
        return self._end_hold(id, decided, {"state": "decided"})

    def _end_hold(self, id: str, decided: float | None, values: dict[str, Any]) -> bool:
        row = self._reviews.get(id)
        if row is None or not row.held or row.decided != decided:
            return False
        self._keep(msgspec.structs.replace(row, **values))
        return True

    async def keep_draft(self, id: str, body: str | None) -> bool:
        self._drafts.pop(id, None)
        row = self._reviews.get(id)
        if body is None or row is None or row.state != "pending":
            return False
        self._drafts[id] = body
        return True

    async def draft(self, id: str) -> str | None:
        return self._drafts.get(id)

    async def close_review(self, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
        if (row := self._find_open(id)) is not None:
            self._keep(msgspec.structs.replace(row, state=state) if keep_item else _empty_review(row, state))

    async def claim_review(self, id: str, expires: float | None) -> None:
        if (row := self._find_open(id)) is not None:
            self._keep(msgspec.structs.replace(row, host=self.host, expires=expires))

    async def reviews_version(self) -> int:
        return self._version

    async def undecided(self) -> set[str]:
        rows = self._reviews.values()
        return {row.id for row in rows if row.state == "pending" and not row.held and row.host == self.host}

    async def watch(self, until: float) -> None:
        self._watched = until

    async def watched(self) -> bool:
        return self._watched > self._clock()

    async def keep_partial(self, row: base.PartialRow) -> None:
        if row.id not in self._partials:
            self._changed(row.id)
        self._partials[row.id] = row

    async def drop_partial(self, id: str) -> None:
        self._partials.pop(id, None)

    async def partials(self) -> list[base.PartialRow]:
        return list(self._partials.values())

    async def keep_timed_row(self, kind: str, id: str, body: str, until: float, *, most: int) -> None:
        rows = {key: row for key, row in self._timed_rows[kind].items() if row[0] > self._clock()}
        rows.setdefault(id, (until, body))
        self._timed_rows[kind] = dict(sorted(rows.items(), key=lambda row: row[1])[-most:])

    async def take_timed_row(self, kind: str, id: str) -> str | None:
        until, body = self._timed_rows[kind].pop(id, (0.0, None))
        return body if until > self._clock() else None

    async def timed_rows(self, kind: str) -> dict[str, str]:
        return {id: body for id, (until, body) in self._timed_rows[kind].items() if until > self._clock()}

    async def recover(self) -> int:
        """See ``base.Store.recover``. There are no other processes, but calls that were never made again."""
        return self._expire_left()

    async def aclose(self) -> None:
        """See ``base.Store.aclose``. There is nothing to release."""

    def _record(self, records: Sequence[Record]) -> None:
        entries, self._head = extend_chain(self._head, records)
        self._entries.extend(entries)
        ask_rows.add_spending(self._spent, records)
        while len(self._spent) > MAX_SUMS:
            del self._spent[next(iter(self._spent))]

    async def _refusal(self, change: base.Change) -> str | None:
        supposed = change.supposed
        if supposed and not base.still_stands(supposed, await self.standing(supposed.identities, supposed.tool)):
            return "standing"
        if change.hold is not None:
            names = (change.hold.identity, *change.hold.coarser)
            if any(row.covers(names) for row in self._blocks.values()):
                return "block"
            for account in change.hold.accounts:
                known = self._accounts.get(account.key) or base.Balance(key=account.key)
                if not account.cap.allows(_add_amounts(_add_amounts(known.spent, known.held), change.hold.amount)):
                    return account.key
        if change.send is not None and change.send not in self._holds:
            return "hold"
        grant = None if change.use is None else self._grants.get(change.use)
        if change.use is not None and (grant is None or not self._in_force(grant)):
            return "grant"
        has_decision = change.finish is not None or change.begin is not None or change.define is not None
        return self._refusal_of_decision(change) if has_decision else None

    def _refusal_of_decision(self, change: base.Change) -> str | None:
        if change.finish is not None:
            review = self._reviews.get(change.finish.id)
            if review is None or (review.state, review.decided) != ("decided", change.finish.decided):
                return "review"
        if change.begin is not None and self._find_sent_call(change.begin.fingerprint) is not None:
            return "sent"
        row = change.define
        is_full = len(self._definitions) >= MAX_DEFINITIONS
        return "definition" if row and is_full and (row.identity, row.tool) not in self._definitions else None

    def _note_block(self, row: base.BlockRow) -> None:
        known = self._blocks.setdefault(row.identity, row)
        if known.coarse is None:
            self._blocks[row.identity] = msgspec.structs.replace(known, coarse=row.coarse)

    def _block(self, row: base.BlockRow, but: Sequence[str]) -> None:
        self._note_block(row)
        rows = [each for each in self._reviews.values() if each.id not in but]
        self._withdraw(
            [each for each in rows if row.covers((each.identity, *base.identities_in(each.item)))], base.BLOCKED
        )

    def _withdraw(self, rows: Sequence[base.ReviewRow], outcome: str) -> None:
        """Withdraw those of the questions that are open."""
        for row in rows:
            if row.state in base.OPEN:
                ended = msgspec.structs.replace(row, state="withdrawn", outcome=outcome)
                self._keep(ended if self._keep_content else _empty_review(ended, "withdrawn"))

    def _can_decide(self, row: base.ReviewRow, decided: base.Decided) -> bool:
        open_still = row.state == "pending" and row.decision is None and row.hash in (None, decided.hash)
        open_still = open_still and (decided.approvals is None or row.approvals == decided.seen)
        return open_still and (row.expires is None or row.expires > self._clock())

    def _in_force(self, row: base.GrantRow) -> bool:
        unused = row.max_uses is None or row.used < row.max_uses
        return unused and (row.until is None or row.until > self._clock())

    def _take(self, hold: base.Hold) -> None:
        for account in hold.accounts:
            balance = self._accounts.pop(account.key, None) or base.Balance(key=account.key)
            # Remove and insert again, so that the account not used for longest comes first.
            self._accounts[account.key] = msgspec.structs.replace(
                balance, held=_add_amounts(balance.held, hold.amount), cap=account.cap
            )
        self._holds[hold.id] = base.HoldRow(
            id=hold.id,
            host=self.host,
            ask=hold.ask,
            identity=hold.identity,
            keys=tuple(account.key for account in hold.accounts),
            amount=hold.amount,
            sent=hold.sent,
        )
        excess = len(self._accounts) - MAX_ACCOUNTS
        if excess > 0:
            known = self._accounts.items()
            idle = [key for key, balance in known if key.startswith("call:") and balance.held == Amount()]
            for key in idle[:excess]:
                del self._accounts[key]

    def _settle(self, id: str, amount: Amount) -> bool:
        hold = self._holds.pop(id, None)
        if hold is None:
            return False
        for key in hold.keys:
            balance = self._accounts[key]
            held = _add_amounts(balance.held, hold.amount, sign=-1)
            self._accounts[key] = msgspec.structs.replace(balance, spent=_add_amounts(balance.spent, amount), held=held)
        return True

    def _keep(self, row: base.ReviewRow) -> None:
        self._reviews[row.id] = row
        if row.state not in base.OPEN:
            self._drafts.pop(row.id, None)
        self._changed(row.id)

    def _changed(self, id: str) -> None:
        self._version += 1
        self.news.tell(id)


def _keep_latest(rows: dict[str, Any], id: str, row: object, most: int) -> None:
    rows.pop(id, None)
    rows[id] = row
    while len(rows) > most:
        del rows[next(iter(rows))]


def _add_amounts(amount: Amount, other: Amount, *, sign: int = 1) -> Amount:
    return Amount(money=amount.money + sign * other.money, tokens=amount.tokens + sign * other.tokens)


def _empty_review(row: base.ReviewRow, state: base.ReviewState) -> base.ReviewRow:
    return msgspec.structs.replace(row, state=state, item=None, decision=None, approvals=None)
