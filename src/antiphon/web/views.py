"""The views of the page: the queue, one question, its media, its long texts, and the stream of changes.

Only the piece of a long text that is shown is made inert: ten megabytes at once would hold the event loop for 0.3 s.
Nothing here changes anything. ``actions`` has the decisions; ``history`` and ``records`` show the past.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from antiphon.host.budget import format_dollars
from antiphon.host.checks.message_parts import list_binaries
from antiphon.host.checks.people import Person, read_deciders
from antiphon.host.checks.risk import list_spots
from antiphon.host.checks.validate import inspect_media
from antiphon.host.checks.visible import inert_line
from antiphon.host.pipeline.growth import LOOK, Partial, partials_in
from antiphon.host.review import decisions
from antiphon.host.review.diff import compact, format_json
from antiphon.host.review.given_grants import find_covered
from antiphon.host.review.history import Bound
from antiphon.host.review.question import NotAllowed, Question, check_decider, reaches_question
from antiphon.host.review.review import Approve, Deny, ReviewItem, ToolItem
from antiphon.host.review.shown import MessageTurn, Shown, collect_shown, shape_of
from antiphon.host.review.summary import ORDERS, arrange_rows, first_rows, first_words, outcome_text, who_of
from antiphon.host.store.ask_rows import Sought
from antiphon.web.page_guards import session_of
from antiphon.web.queue_rows import FILTERS, QueueRows, Sifting, group_changes
from antiphon.web.render import PIECE
from antiphon.web.site import Site


class GrowingAnswers(msgspec.Struct, eq=False):
    """What one stream has reported of growing answers."""

    _site: Site
    _request: Request
    told: list[Partial] = []

    async def news(self) -> str:
        """Read, and return an event for the page's script; empty if nothing has changed."""
        partials = await partials_in(self._site.store)
        if partials == self.told:
            return ""
        self.told = partials
        html = self._site.part(self._request, "parts/partials.html", partials=partials)
        return f"event: partials\ndata: {msgspec.json.encode({'html': html}).decode()}\n\n"


_HEARTBEAT = 15.0
"""Seconds between two writes to a stream: proxies and sleeping laptops notice a dead stream only by a write."""
_FIRST = 30
"""Most rows in a page as it is opened, some more than a window shows; the script fetches the others, and ``all`` shows
them without it."""
_LAST = 5
"""Decisions about a server that are listed beside its request."""
_COVERED = 100
"""Most requests of a server of which is found out whether a grant covers them, which takes some milliseconds."""
_LOOK = 0.1
"""Seconds between two reads of a store that sends no notices of changes by other processes."""


async def show_queue(site: Site, request: Request) -> Response:
    """Show the waiting questions."""
    sifting = Sifting.of(request.query_params)
    rows = await site.read_page(sifting.after)
    await site.read_outcomes(request)
    if request.headers.get("x-part") != "queue":
        waiting = _collect_waiting(site, rows, sifting, None if "all" in request.query_params else _FIRST)
        first = next((row.id for group in waiting["groups"] for row in group.rows), "")
        # The script of a page that is opened shows the first question without another round trip.
        opens = request.headers.get("sec-fetch-dest") == "document"
        found = next((each for each in await site.pending() if opens and each.id == first), None)
        detail = {"over": None} if found is None else await _collect_question(site, request, found)
        return site.html(request, "queue.html", current="", **detail, **waiting)
    waiting = _collect_waiting(site, rows, sifting)
    changed = rows.since(request.headers.get("x-since", ""))
    if changed is None:
        return site.html(request, "parts/queue.html", current="", **waiting)
    changes = list(group_changes(waiting["groups"], changed))
    return site.html(request, "parts/changes.html", current="", changes=changes, changed=changed, **waiting)


def _collect_waiting(site: Site, rows: QueueRows, sifting: Sifting, most: int | None = None) -> dict[str, Any]:
    """Collect the values for the queue's template: the questions of one page, filtered and sorted."""
    groups = arrange_rows(rows.groups(), sifting.order, sifting.wanted, sifting.only)
    counts, left = {group.key: len(group.rows) for group in groups}, rows.count
    following = structs.replace(sifting, after=rows.last, earlier=sifting.earlier + left)
    if most is not None and (cut := sum(counts.values()) - most) > 0:
        groups, left = first_rows(groups, most), left - cut
    return {
        "groups": groups,
        "counts": counts,
        "is_cut": left < rows.count,
        "pending": site.waiting,
        "beyond": max(0, site.waiting - sifting.earlier - left),
        "following": following.query if site.waiting > following.earlier and rows.last else "",
        "version": rows.version if left == rows.count else "",
        "orders": ORDERS,
        "filters": FILTERS,
    }


async def show_question(site: Site, request: Request) -> Response:
    """Show one question, with the queue beside it."""
    found = await site.queue.get(request.path_params["id"])
    # Asked for by the page's script. A browser without the script gets whole pages.
    alone = request.headers.get("x-part") == "detail"
    sifting = Sifting.of(request.query_params)
    rows = site.rows
    if not alone:
        rows = await site.read_page(sifting.after)
        await site.read_outcomes(request)
    detail = await _collect_question(site, request, found) | _collect_waiting(site, rows, sifting, _FIRST)
    return site.html(request, "parts/question.html" if alone else "review.html", current=found.id, **detail)


async def _collect_question(site: Site, request: Request, found: Question) -> dict[str, Any]:
    shown = collect_shown(found)
    draft = await site.queue.draft(found.id) or []

    def drafts(of: str) -> dict[str, list[str]] | None:
        mine = [(name.partition(":")[2], value) for name, value in draft if name.rpartition(":")[0] == of]
        return {name: [value for other, value in mine if other == name] for name, _ in mine} or None

    covered: dict[str, list[Question]] = {}
    session = session_of(request)
    only = None if session is None else session.only
    if shown is not None and only is not None:
        shown = structs.replace(shown, scopes=(), choices=shown.choices - {"grant"})
    if shown is not None and "grant" in shown.choices:
        pending = [each for each in await site.pending() if each.identity == found.identity][:_COVERED]
        covered = {scope: find_covered(found, scope, pending) for scope in shown.scopes}
    of_server = await site.store.asks(Sought(identity=found.identity, limit=2 * _LAST))
    return {
        "q": shown,
        "over": found,
        "became": "" if found.outcome is None else outcome_text(found.outcome, site.texts(request)),
        "drafts": drafts,
        "take": "take" in request.query_params,
        "covered": covered,
        "barred": _find_bar(site, request, found),
        "decided": [row for row in of_server.rows if row.ending != "open" and only is None][:_LAST],
    }


def _find_bar(site: Site, request: Request, found: Question) -> tuple[str, dict[str, str]] | None:
    """Return why this person may not approve a question, with what the text inserts; ``None`` if they may."""
    by = site.by(request)
    try:
        if found.item is not None:
            check_decider(by, found.item, Approve(digest=""))
    except NotAllowed as barred:
        return barred.key, barred.values
    has_approved = isinstance(by, Person) and any(by.principal in read_deciders(each.by) for each in found.approvals)
    return ("twice", {}) if has_approved else None


async def show_edit_form(site: Site, request: Request) -> Response:
    """Show the form for editing a request."""
    found = await site.queue.get(request.path_params["id"])
    template = "parts/edit.html" if request.headers.get("x-part") == "detail" else "edit.html"
    # The names of fields of any other form begin with that form's.
    kept = [(name, value) for name, value in await site.queue.draft(found.id) or () if ":" not in name]
    draft = decisions.DecisionForm(kept) if kept else None
    call = decisions.argument_fields(found.item) if isinstance(found.item, ToolItem) else ()
    return site.html(request, template, q=collect_shown(found), over=found, draft=draft, call=call)


async def show_like_rule(site: Site, request: Request) -> Response:
    """Show the rule that would allow calls like one that waits, before it is saved."""
    found = await site.queue.get(request.path_params["id"])
    item = found.item
    if not isinstance(item, ToolItem) or "grant" not in item.choices or found.state != "pending":
        return site.gone(request)
    arguments = decisions.arguments_of(item.params)
    chosen = {name: request.query_params.get(f"arg-{at}", "") for at, name in enumerate(arguments)}
    likenesses = decisions.read_likenesses(item, chosen)
    return site.html(
        request,
        "like.html",
        q=collect_shown(found),
        rows=[
            (name, compact(value), decisions.list_likenesses(value), likenesses[name])
            for name, value in arguments.items()
        ],
        lines=list(decisions.list_rule_words(item, likenesses, site.texts(request))),
        when=decisions.write_condition(item, likenesses),
    )


async def show_text_piece(site: Site, request: Request) -> Response:
    """Show a piece of a long text of a question."""
    found = await site.queue.get(request.path_params["id"])
    return show_piece(site, request, collect_shown(found), f"/review/{found.id}")


async def show_withdrawn(site: Site, request: Request) -> Response:
    """Name what a refusal that reaches further would withdraw: everything of the call, or of the server."""
    try:
        found = await site.queue.get(request.path_params["id"])
    except LookupError:
        return site.problem(request, 404, "problem.gone")
    reach = "call" if request.query_params.get("reach") == "call" else "server"
    if not site.may_decide(request, Deny(reach=reach)):
        return site.problem(request, 403, "barred.link")
    waiting = [each for each in await site.pending() if each.item is not None and reaches_question(found, each, reach)]
    words = site.texts(request)
    name = "" if found.item is None else who_of(found.item.origin).name
    title = words(f"sure.{reach}", name=inert_line(name), n=len(waiting))
    return JSONResponse({"title": title, "about": [inert_line(first_words(each.item)) for each in waiting]})


async def show_outcomes(site: Site, request: Request) -> Response:
    """Show what this browser has decided last, and what became of it."""
    await site.read_outcomes(request)
    return site.html(request, "parts/outcomes.html")


async def show_alike(site: Site, request: Request) -> Response:
    """Show the requests that can be approved together with this one, each completely."""
    found = await site.queue.get(request.path_params["id"])
    together = find_similar(found, await site.pending())
    shown = [each for question in together if (each := collect_shown(question)) is not None]
    models = sorted({each.item.model or each.item.provider for each in shown if each.item is not None})
    return site.html(request, "alike.html", shown=shown, models=models)


def find_similar(found: Question, pending: list[Question]) -> list[Question]:
    """Return the questions with the same server, system prompt and tools, itself included."""
    shape = shape_of(found)
    return [] if shape is None else [each for each in pending if shape_of(each) == shape]


async def send_media(site: Site, request: Request) -> Response:
    """Send an image or a sound of a question, with the media type of its actual content."""
    found = await site.queue.get(request.path_params["id"])
    if not isinstance(found.item, ReviewItem):
        return PlainTextResponse("", 404)
    result = found.item.result if request.path_params["of"] == "answer" else None
    held = list(list_binaries(found.item.params if result is None else result))
    number: int = request.path_params["number"]
    if number >= len(held) or not held[number].playable:
        return PlainTextResponse("", 404)
    try:
        # Only the accepted formats are sent. SVG is not one of them, because it can contain scripts.
        inspected = inspect_media(held[number].data, held[number].mime_type)
    except ValueError:
        return PlainTextResponse("", 415)
    headers = {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "inline"}
    return Response(binascii.a2b_base64(held[number].data), media_type=inspected.mime_type, headers=headers)


async def send_changes(site: Site, request: Request) -> Response:
    """Send an event for each change of a question, with the number of waiting questions."""
    if request.method == "HEAD":
        # HEAD asks only whether listening is allowed; a stream that nobody reads would keep its connection for ever.
        return Response(media_type="text/event-stream")
    return StreamingResponse(_send_events(site, request), media_type="text/event-stream")


async def _send_events(site: Site, request: Request) -> AsyncIterator[str]:
    bound, version = await site.head_budget.read(), 0
    growing = GrowingAnswers(site, request)
    changes = site.queue.changes(_LOOK)
    closing = asyncio.ensure_future(site.closing.wait())
    change = asyncio.ensure_future(anext(changes))
    spending = asyncio.ensure_future(site.head_budget.await_change(bound))
    try:
        yield "retry: 1000\n\n"
        while not closing.done():
            await site.watching.look()
            pause = LOOK if growing.told else _HEARTBEAT
            await asyncio.wait((change, spending, closing), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            session = session_of(request)
            if session is None or site.access.session(session.secret) is None:
                # Signed out, or the session has ended meanwhile.
                return
            if change.done() or spending.done():
                if spending.done():
                    spending.result()
                if change.done():
                    version, change = change.result(), asyncio.ensure_future(anext(changes))
                await site.pending()
                bound = await site.head_budget.read()
                told = {"version": version, "pending": site.waiting, "list": site.rows.version}
                told |= {"budget": _describe_budget(site, request, bound)}
                yield f"event: change\ndata: {msgspec.json.encode(told).decode()}\n\n"
                spending.cancel()
                spending = asyncio.ensure_future(site.head_budget.await_change(bound))
            yield await growing.news() or ": still here\n\n"
    finally:
        for waiting in (change, spending, closing):
            waiting.cancel()


def _describe_budget(site: Site, request: Request, bound: Bound | None) -> dict[str, object] | None:
    """Return what the head shows of a budget: its words, and the part that is used."""
    if bound is None:
        return None
    words = site.texts(request)
    text = words("spending.of", spent=format_dollars(bound.used), cap=format_dollars(bound.cap, rounding="none"))
    text = words(f"spending.head.{bound.kind}", part=text)
    return {"text": text, "used": min(1.0, bound.used / max(1, bound.cap))}


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A complete text, and its ranges that look like secrets."""

    text: str
    spots: tuple[tuple[int, int], ...] = ()


def show_piece(site: Site, request: Request, shown: Shown | None, back: str) -> Response:
    """Show a piece of a long text; the address of the request names the text and the first character."""
    key = request.path_params["key"]
    whole = None if shown is None else next((text for name, text in _list_texts(shown) if name == key), None)
    return site.gone(request) if whole is None or not whole.text else show_whole(site, request, whole, back)


def show_whole(site: Site, request: Request, whole: Whole, back: str, **more: Any) -> Response:
    """Show a piece of a text; ``more``: what else ``text.html`` shows."""
    more = {"at": "", "left_out": 0, "is_marked": False, **more}
    asked = request.query_params.get("from", "0")
    start = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    if start and start >= len(whole.text):
        return site.gone(request)
    end = min(start + PIECE, len(whole.text))
    return site.html(request, "text.html", whole=whole, start=start, end=end, back=back, **more)


def _list_texts(shown: Shown) -> Iterator[tuple[str, Whole]]:
    """Yield each text of a question with its name in addresses."""
    yield "message", Whole(text=shown.message)
    yield "raw", Whole(text=shown.raw)
    yield "arguments", Whole(text=shown.arguments)
    yield "read", Whole(text=shown.read)
    yield "description", Whole(text=shown.tool_description)
    yield "tool", Whole(text=shown.tool)
    yield "result", Whole(text=shown.tool_result)
    if shown.params is not None:
        risks = () if shown.answer else shown.risks
        yield "system", Whole(text=shown.params.system_prompt or "", spots=list_spots(risks, "systemPrompt"))
        for at, tool in enumerate(shown.params.tools or ()):
            yield f"tools-{at}", Whole(text=format_json(tool))
    yield from _list_parts("request", shown.turns)
    yield from _list_parts("answer", () if shown.answer is None else (shown.answer,))


def _list_parts(of: str, turns: Sequence[MessageTurn]) -> Iterator[tuple[str, Whole]]:
    for at, turn in enumerate(turns):
        for number, part in enumerate(turn.parts):
            yield f"{of}-{at}-{number}", Whole(text=part.text, spots=part.spots)
