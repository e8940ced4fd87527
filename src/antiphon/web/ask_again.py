"""Asking a request from the history again, to the same model or another; only the page gets the answer.

Owns the views. A ``host.own_request.Asker`` answers, and ``site.OwnRequests`` keeps the answers.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from antiphon.errors import AntiphonError, PeerError, Rejected
from antiphon.host.own_request import Asker, make_person_origin
from antiphon.host.review.decisions import DecisionForm, InvalidInput, read_edited_request
from antiphon.host.review.history import AskHistory
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, show_item
from antiphon.host.store.ask_rows import Sought
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.web.page_guards import form_of
from antiphon.web.record_pages import told_of
from antiphon.web.site import OwnRequest, Site
from antiphon.web.views import show_piece
from antiphon.wire.sampling import CreateMessageRequestParams

_WAIT = 20.0
"""Seconds that one request of the page's script waits for an answer; then the script sends the next."""
_LONGEST_ID = 32


async def show_kept_request(site: Site, request: Request) -> Response:
    """Show a request that was kept, to be edited and sent."""
    told = await told_of(site, request.path_params["seq"])
    found = _to_ask(site, told)
    if told is None or found is None:
        return site.gone(request)
    shown, asker = found
    why, offers = "", ()
    try:
        offers = await asker.offers(_get_params(shown), told.row.identity)
    except AntiphonError as error:
        why = _describe_error(error)
    return site.html(request, "again.html", told=told, q=shown, offers=offers, why=why, id=token_hex(8), draft=None)


async def ask_again(site: Site, request: Request) -> Response:
    """Have the edited request answered, and redirect to the answer."""
    form = DecisionForm(form_of(request))
    id = form("id")
    if not id.isalnum() or len(id) > _LONGEST_ID:
        return site.problem(request, 422, "problem.form")
    if site.own.get(id) is None:
        told = await told_of(site, request.path_params["seq"])
        found = _to_ask(site, told)
        if told is None or found is None:
            return site.problem(request, 404, "problem.gone")
        if site.own.full:
            return site.problem(request, 429, "again.full")
        shown, asker = found
        try:
            params = read_edited_request(form, _get_params(shown))
        except InvalidInput as refused:
            return site.refuse_input(request, refused)
        model = form("model")
        own = OwnRequest(id, told.row.seq, params, model)
        site.own.start(
            own, asker.complete(params, identity=told.row.identity, by=site.by(request), model=model or None)
        )
    # A form that was sent twice, by a double click or a reload, is asked once.
    return site.done(request, "done.asked", then=f"/asked/{id}")


async def show_answer(site: Site, request: Request) -> Response:
    """Show the answer, or that it has not arrived yet."""
    own = site.own.get(str(request.path_params["id"]))
    if own is None:
        return site.gone(request)
    shown, record = _collect_shown(own), None
    if own.answer is not None:
        await site.gather()
        rows = (await site.store.asks(Sought(words=((own.answer.ask, ()),), limit=1))).rows
        record = rows[0].seq if rows else None
    failure = "" if own.failure is None else _describe_failure(site, request, own.failure)
    return site.html(request, "asked.html", own=own, answer=shown and shown.answer, record=record, failure=failure)


async def show_text_piece(site: Site, request: Request) -> Response:
    """Show a piece of a long text of an answer."""
    own = site.own.get(str(request.path_params["id"]))
    return show_piece(site, request, own and _collect_shown(own), f"/asked/{request.path_params['id']}")


async def await_answer(site: Site, request: Request) -> Response:
    """Wait for an answer, and tell the page's script whether it has arrived."""
    own = site.own.get(str(request.path_params["id"]))
    if own is None:
        return JSONResponse({"done": True})
    closing = asyncio.ensure_future(site.closing.wait())
    over = asyncio.ensure_future(own.over.wait())
    await asyncio.wait((closing, over), timeout=_WAIT, return_when=asyncio.FIRST_COMPLETED)
    closing.cancel()
    over.cancel()
    return JSONResponse({"done": own.over.is_set()})


async def stop_waiting(site: Site, request: Request) -> Response:
    """Stop waiting for an answer. Its cost up to now counts as spent."""
    own = site.own.get(str(request.path_params["id"]))
    if own is None:
        return site.problem(request, 404, "problem.gone")
    await end_tasks(own.task)
    return site.done(request, "done.stopped", then=f"/asked/{own.id}")


def _to_ask(site: Site, told: AskHistory | None) -> tuple[Shown, Asker] | None:
    """Return the request that can be asked again, and the host that answers; ``None`` if it cannot be asked."""
    if told is None or told.asked is None or site.own.asker is None:
        return None
    return told.asked, site.own.asker


def _collect_shown(own: OwnRequest) -> Shown | None:
    """Collect what is shown of an answer; ``None`` if there is none."""
    if own.answer is None:
        return None
    item = ReviewItem(
        origin=make_person_origin(),
        params=own.params,
        received=own.params,
        provider="",
        choices=frozenset(),
        result=own.answer.result,
    )
    return show_item(item, "response")


def _get_params(shown: Shown) -> CreateMessageRequestParams:
    assert shown.params is not None, "requests to a model have them"
    return shown.params


def _describe_failure(site: Site, request: Request, failure: AntiphonError) -> str:
    words = site.texts(request)
    reason = failure.data.get("reason") if isinstance(failure, Rejected) else None
    key = f"cause.{reason}"
    return f"{words(key)}: {_describe_error(failure)}" if words.has(key) else _describe_error(failure)


def _describe_error(error: AntiphonError) -> str:
    return error.message if isinstance(error, PeerError) else str(error)
