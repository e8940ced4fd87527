"""What became of a call that a person decided about, told again to a caller that asks again.

A call is stored as sent in the transaction that carries its decision out, and its outcome is stored when it is known.
So the same call never runs twice because of one decision: it ran, it did not run, or nobody knows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime

from msgspec import DecodeError, structs

from antiphon.host.pipeline.case import Case
from antiphon.host.review.pending_call import PendingCall, fingerprint_call, hash_owner
from antiphon.host.review.queue import LATER
from antiphon.host.review.review import ToolItem
from antiphon.host.store.base import PendingCallRow, Store
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

REPEATED = 60.0
"""Seconds for which the outcome is told to the same call again; hosts that gave a call up call again within these. A
later call is a new one."""
UNKNOWN_KEPT = 24 * 3600.0
"""Seconds for which the same call is told that nobody knows whether it ran."""
MAX_BODY = 64_000
"""Most bytes of an outcome that are kept."""
SAVING = 5.0
"""Seconds that a result waits until its outcome is stored."""

_log = logging.getLogger("antiphon.host")


def begin_call(case: Case, params: CallToolRequestParams, review: str) -> PendingCallRow:
    """Describe a call that is sent now because of a decision; to be stored in the same transaction."""
    now = time.time()
    return PendingCallRow(
        id=review,
        fingerprint=fingerprint_call(params, case.origin),
        owner=hash_owner(case.origin.principal),
        until=now + UNKNOWN_KEPT,
        sent=True,
        host=case.desk.store.host,
        at=now,
    )


async def settle_call(store: Store, row: PendingCallRow, result: CallToolResult | None) -> None:
    """Store what became of a call that was sent; ``None``: nobody knows."""
    now = time.time()
    if result is None:
        row = structs.replace(row, host=None)
    else:
        body = encode_value(result)
        if len(body) > MAX_BODY:
            body = encode_value(
                CallToolResult(content=[TextContent(text="It ran; its result is too long to be kept.")])
            )
        row = structs.replace(row, body=body.decode(), until=now + REPEATED)
    try:
        async with asyncio.timeout(SAVING):
            await store.settle_call(row)
    except Exception as error:
        # The result goes to its caller; the same call is then told that nobody knows whether it ran.
        _log.warning("the outcome of a call could not be stored: %s", type(error).__name__)


async def repeat_outcome(
    case: Case, params: CallToolRequestParams, pending: PendingCall, *, since: str = ""
) -> CallToolResult | None:
    """Return what became of the same call, if it has run because of a decision; ``None`` if it has not.

    ``since``: the review that allowed it, if it is known that it runs.
    """
    store, fingerprint = case.desk.store, fingerprint_call(params, case.origin)
    with store.news.listening() as news:
        while True:
            row = await store.pending_call(id=since, fingerprint=fingerprint)
            if row is None or not row.sent:
                return None
            if row.body is not None or row.host is None:
                pending.is_repeated = True
                return _describe_outcome(row)
            if pending.seconds_left <= 0:
                raise case.leave_call(row.id, is_sent=True)
            await news.wait(min(LATER, pending.seconds_left))


def _describe_outcome(row: PendingCallRow) -> CallToolResult:
    at = datetime.fromtimestamp(row.at).astimezone().strftime("%H:%M:%S")
    if row.body is None:
        text = (
            f"Nobody knows whether this call ran: it was sent at {at} (id {row.id}), and its outcome was lost. It is "
            "not sent again. Find out what it has done before you make another call in its place."
        )
        return CallToolResult(content=[TextContent(text=text)], is_error=True)
    result = decode_wire(row.body.encode(), CallToolResult)
    note = f"This is the outcome of the call of {at} (id {row.id}), told again. It did not run a second time."
    return structs.replace(result, content=[*result.content, TextContent(text=note)])


async def wait_for_decision(store: Store, id: str) -> bool:
    """Wait until a person has decided about a call that was left. Returns false if its question ended without that."""
    with store.news.listening() as news:
        while (row := await store.review(id)) is not None and row.state == "pending":
            now = time.time()
            if row.expires is not None and row.expires <= now:
                return False
            if row.held and row.release is not None and row.release <= now:
                return True
            await news.wait(LATER)
    return row is not None and row.state in ("decided", "done")


async def find_call(
    store: Store, id: str, identity: str, name: str, principal: str | None
) -> CallToolRequestParams | CallToolResult | None:
    """Return the call with this id, or its outcome; ``None`` if this principal has made no such call of this tool.

    ``identity``: that of the tool's server; ``name``: the server's own name of the tool.
    """
    row, review = await store.pending_call(id=id), await store.review(id)
    if (row is not None and row.owner != hash_owner(principal)) or (review is not None and review.identity != identity):
        return None
    if row is not None and row.sent and (row.body is not None or row.host is None):
        return _describe_outcome(row)
    try:
        item = None if review is None or review.item is None else decode_wire(review.item.encode(), ToolItem)
    except DecodeError:
        return None
    if item is None or item.params.name != name or item.origin.principal != principal:
        return None
    return item.params
