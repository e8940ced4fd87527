"""The history of decisions and of spending, for the page and the terminal: who asked and decided what, at which cost.

Owns the filters, what is shown of a stored ask, the names of servers, and sums by day, server and model. The store
gathers what became of asks; nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar, cast, get_args

import msgspec

from antiphon.host.audit import ACCESS_CHANGE, Audit, day_of
from antiphon.host.checks.redact import mask_text
from antiphon.host.review.diff import DiffLine, compare_requests, format_json
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, show_item
from antiphon.host.store.ask_rows import AskRow, Ending, NumberedRecord, Sought, SpentRow, decode_records
from antiphon.host.store.base import Balance, Store
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

T = TypeVar("T")

PAGE = 50
"""Number of asks on one page."""
_MOST_WORDS, _LONGEST_WORD = 10, 100
METHODS = ("sampling/createMessage", "elicitation/create", "tools/call", ACCESS_CHANGE)
"""The kinds of asks, and of what a person changes without being asked."""
ENDINGS = get_args(Ending)
"""The ways in which an ask can end."""


class AskHistory(msgspec.Struct, frozen=True, kw_only=True):
    """One ask, with everything that was kept of it."""

    row: AskRow
    steps: list[NumberedRecord]
    asked: Shown | None = None
    """The request as it was, or would have been, sent."""
    answer: Shown | None = None
    changes: list[DiffLine] | None = None
    """Differences between what was asked and what was sent; ``None`` if they were not both kept, or are too long to
    compare."""
    form: ElicitRequestParams | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """Other content that was kept, as JSON: the step, and the text."""


async def read_ask(store: Store, row: AskRow) -> AskHistory:
    """Read one ask with everything that was kept of it."""
    return _describe_ask(row, decode_records(await store.entries_at(row.trail)))


def sought_by(params: Mapping[str, str], names: Mapping[str, str]) -> Sought:
    """Read the filters from form fields; a value that cannot be read excludes nothing.

    Fields are ``q`` (words that must all be found), ``kind``, ``ending``, ``server`` (its identity), ``since`` and
    ``until`` (days), and ``before`` (the page after this ask). ``names``: those of servers, by identity.
    """
    words = params.get("q", "").replace("\0", " ").lower().split()[:_MOST_WORDS]
    known = {identity: name.lower() for identity, name in names.items()}
    ending, method, before = params.get("ending"), params.get("kind"), params.get("before", "")
    return Sought(
        words=tuple(
            (word[:_LONGEST_WORD], tuple(identity for identity, name in known.items() if word in name))
            for word in words
        ),
        identity=params.get("server", "").replace("\0", "") or None,
        method=method if method in METHODS else None,
        ending=cast("Ending", ending) if ending in ENDINGS else None,
        since=_find_midnight(params.get("since")),
        until=_find_midnight(params.get("until"), days=1),
        before=int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None,
        limit=PAGE,
    )


def _find_midnight(day: str | None, *, days: int = 0) -> float | None:
    """Return when a day begins in this program's time zone, or some days later."""
    try:
        return (datetime.fromisoformat(day or "").replace(tzinfo=None) + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


async def server_names(
    store: Store, queue: Queue, known: Mapping[str, str], identities: Iterable[str] = ()
) -> dict[str, str]:
    """Return the targets of servers: those in ``known``, those with open questions, and ``identities`` that ever asked.

    Only reads what the store has gathered from the audit.
    """
    found = dict(known)
    for question in await queue.pending():
        if question.item is not None:
            origin = question.item.origin
            found |= dict.fromkeys([origin.identity, *origin.coarser], mask_text(origin.target))
    unknown = {*identities} - found.keys()
    return found | await store.servers(unknown) if unknown else found


def _describe_ask(row: AskRow, steps: list[NumberedRecord]) -> AskHistory:
    kept = {step.record.step: step.record.content for step in steps if step.record.content is not None}
    if row.method == "elicitation/create":
        form = _decode_kept(kept.get("policy"), ElicitRequestParams)
        texts = _list_texts(kept, {"policy", "answered"} if form is None else {"answered"})
        return AskHistory(row=row, steps=steps, form=form, texts=texts)
    received = _decode_kept(kept.get("policy"), CreateMessageRequestParams)
    sent = _decode_kept(kept.get("generate"), CreateMessageRequestParams) or received
    if row.method != "sampling/createMessage" or received is None or sent is None:
        return AskHistory(row=row, steps=steps, texts=_list_texts(kept, {"policy", "generate", "answered"}))
    answer = _decode_kept(kept.get("answered"), CreateMessageResult)
    digests = {step.record.step: step.record.digest for step in steps if step.record.step in ("policy", "generate")}
    # Whether something else was sent, and was not kept.
    is_lost = "generate" in digests and digests["generate"] != digests["policy"] and sent is received
    origin = Origin(id=row.ask, identity=row.identity, target=row.server)
    return AskHistory(
        row=row,
        steps=steps,
        asked=show_kept(origin, received, sent, None),
        answer=None if answer is None else show_kept(origin, received, sent, answer),
        changes=None if is_lost else compare_requests(received, sent),
    )


def show_kept(
    origin: Origin,
    received: CreateMessageRequestParams,
    sent: CreateMessageRequestParams,
    answer: CreateMessageResult | None,
) -> Shown:
    """Show a request or its answer in the form in which it is decided."""
    item = ReviewItem(origin=origin, params=sent, received=received, provider="", choices=frozenset(), result=answer)
    return show_item(item, "request" if answer is None else "response")


def _list_texts(kept: Mapping[str, str | None], steps: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple((step, _format_pretty(text)) for step, text in kept.items() if step in steps and text)


def _format_pretty(text: str) -> str:
    try:
        return format_json(msgspec.json.decode(text))
    except msgspec.MsgspecError:
        return text


def _decode_kept(content: str | None, kind: type[T]) -> T | None:
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError:
        return None


DAYS = 14
"""Number of days that are summed up by server."""
MOST = 5
"""Number of servers shown separately; the others are shown as one."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and how much of it is used. In nano-dollars."""

    kind: str
    """``"server"``, ``"day"`` or ``"total"``."""
    identity: str
    """Identity of the server, for a budget of one."""
    used: int
    """Spent and reserved."""
    held: int
    cap: int


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The spending of one server in the days of the chart; ``None`` for all servers without a colour of their own."""

    identity: str | None
    series: int
    money: int
    tokens: int
    requests: int


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers at one moment, in nano-dollars."""

    today: int
    total: int
    held: int
    """Reserved for requests in progress."""
    bounds: list[Bound]
    shares: list[Share]
    """For the last ``DAYS``, the highest first."""
    days: list[tuple[str, dict[int, int]]]
    """Each of these days, oldest first, with the spending of each share, by ``Share.series``."""
    lines: list[SpentRow]
    """By day, server and model, the latest first."""

    @property
    def priced(self) -> bool:
        """Whether the days show money; tokens if nothing has a price."""
        return any(share.money for share in self.shares)


async def sum_up_spending(store: Store, audit: Audit, now: float) -> Spending:
    """Sum up what the store has gathered from the audit; ``now`` in seconds since the epoch."""
    lines = await audit.spending()
    today = day_of(now)
    days = [day_of(now - back * 86_400) for back in range(DAYS - 1, -1, -1)]
    shares = _list_shares([line for line in lines if line.day in days])
    return Spending(
        today=sum(line.money for line in lines if line.day == today),
        total=sum(line.money for line in lines),
        held=sum(hold.amount.money for hold in await store.holds()),
        # The budgets of servers first, each as of the latest request it applied to.
        bounds=_make_bounds([*await store.balances("server:"), *await store.balances_of([f"day:{today}", "total"])]),
        shares=shares,
        days=_list_days(lines, days, shares),
        lines=lines[::-1],
    )


def _list_shares(lines: Sequence[SpentRow]) -> list[Share]:
    """Sum up by server, the highest first; those after ``MOST`` are joined."""
    sums = sum_up_rows(lines, lambda line: line.identity)
    ordered = sorted(sums, key=lambda name: (-sums[name].money, -count_tokens(sums[name]), name))
    rest = sum_up_rows((sums[name] for name in ordered[MOST:]), lambda _: "").values()
    shares = [*((name, sums[name]) for name in ordered[:MOST]), *((None, row) for row in rest)]
    return [
        Share(identity=name, series=at, money=row.money, tokens=count_tokens(row), requests=row.requests)
        for at, (name, row) in enumerate(shares)
    ]


def sum_up_rows(rows: Iterable[SpentRow], key: Callable[[SpentRow], str]) -> dict[str, SpentRow]:
    """Sum up spending by what ``key`` returns of each row; day, server and model of the sums are empty."""
    sums: dict[str, SpentRow] = {}
    for row in rows:
        total = sums.setdefault(key(row), SpentRow(day="", identity="", model=""))
        total.requests += row.requests
        total.money += row.money
        total.input_tokens += row.input_tokens
        total.output_tokens += row.output_tokens
    return sums


def count_tokens(row: SpentRow) -> int:
    """Return the tokens of requests and answers together."""
    return row.input_tokens + row.output_tokens


def _list_days(
    lines: Iterable[SpentRow], days: Iterable[str], shares: Sequence[Share]
) -> list[tuple[str, dict[int, int]]]:
    """Sum up by day: money, or tokens if nothing has a price."""
    series = {share.identity: share.series for share in shares}
    priced = any(share.money for share in shares)
    columns: dict[str, dict[int, int]] = {day: {} for day in days}
    for line in lines:
        if line.day in columns:
            place = series.get(line.identity, MOST)
            amount = line.money if priced else count_tokens(line)
            columns[line.day][place] = columns[line.day].get(place, 0) + amount
    return list(columns.items())


async def find_tightest_budget(store: Store, now: float) -> Bound | None:
    """Return that budget of all servers, for today or in total, of which the smallest part is left."""
    bounds = _make_bounds(await store.balances_of([f"day:{day_of(now)}", "total"]))
    return max(bounds, key=lambda bound: bound.used / max(1, bound.cap), default=None)


def _make_bounds(balances: Iterable[Balance]) -> list[Bound]:
    bounds: list[Bound] = []
    for balance in balances:
        kind, _, identity = balance.key.partition(":")
        if balance.cap.money is not None:
            held = balance.held.money
            bounds.append(
                Bound(kind=kind, identity=identity, used=balance.spent.money + held, held=held, cap=balance.cap.money)
            )
    return bounds
