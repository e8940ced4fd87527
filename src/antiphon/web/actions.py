"""Actions on the page: decisions, revoking, settings, asking again. Each is a POST that the ``guards`` accepted.

Owns the responses if an action is not possible, because somebody else decided or the input is invalid. Responses are
JSON for the page's script, except for the preview of an edit, which is part of the page. A request from the history can
be asked again, to the same model or another; only the page gets the answer (``host.own_request.Asker``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from secrets import token_hex
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from antiphon.errors import AntiphonError, PeerError, Rejected
from antiphon.host.checks.people import write_decider
from antiphon.host.own_request import Asker, make_person_origin
from antiphon.host.review import decisions, review
from antiphon.host.review.diff import compare_requests
from antiphon.host.review.given_grants import approve_covered, find_covered
from antiphon.host.review.history import AskHistory, show_kept
from antiphon.host.review.notify import NotDelivered
from antiphon.host.review.question import NotAllowed, Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch
from antiphon.host.review.shown import Shown, collect_shown
from antiphon.host.review.summary import arrange_rows, groups_of
from antiphon.host.store.ask_rows import Sought
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.web.page_guards import form_of, is_linked
from antiphon.web.page_texts import LANGUAGES
from antiphon.web.queue_rows import Sifting
from antiphon.web.record_pages import SINGLE_KEYS, find_history, server_names, show_settings
from antiphon.web.site import THEMES, OwnRequest, Site, wants_data
from antiphon.web.views import find_similar, show_piece
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import read_data
from antiphon.wire.sampling import CreateMessageRequestParams

_ACTIONS = ("approve", "edit", "deny", "answer", "fill", "regenerate")
_SEAL = ("digest", "hash", "shown")
"""The fields by which a decision names what it is about, and when that was sent to the browser."""

Act = Callable[[Site, Request], Awaitable[Response]]
"""Carries out one action."""


def _reporting(act: Act) -> Act:
    """Have an action report why nothing was decided, instead of failing."""

    @wraps(act)
    async def carry_out(site: Site, request: Request) -> Response:
        try:
            return await act(site, request)
        except LookupError:
            return site.problem(request, 404, "problem.gone")
        except AlreadyDecided as late:
            if (question := late.question).state in ("held", "decided", "done") and question.by:
                return site.problem(request, 409, "problem.late_by", by=question.by)
            state = "expired" if question.state == "pending" else question.state
            key = "unreadable" if question.state == "pending" and question.item is None else "late"
            return site.problem(request, 409, f"problem.{key}", state=site.texts(request)(f"state.{state}"))
        except Mismatch as mismatch:
            return (
                site.problem(request, 403, f"barred.{mismatch.key}", **mismatch.values)
                if isinstance(mismatch, NotAllowed)
                else site.problem(request, 409, "problem.mismatch", detail=str(mismatch))
            )
        except decisions.InvalidInput as refused:
            # Without a script nothing else has kept what was typed, and the page that is loaded next shows a draft.
            if not wants_data(request) and "id" in request.path_params and "of" in dict(form_of(request)):
                await store_draft(site, request)
            words = refused.values_in(site.texts(request))
            return site.problem(request, 422, refused.key, detail=refused.detail, **words)

    return carry_out


@_reporting
async def decide_question(site: Site, request: Request) -> Response:
    """Decide one question."""
    action: str = request.path_params["action"]
    if action not in _ACTIONS:
        return site.problem(request, 404, "problem.form")
    form = decisions.DecisionForm(form_of(request))
    found = await site.queue.get(request.path_params["id"])
    if action == "edit" and isinstance(found.item, review.ToolItem) and found.state == "pending":
        decision = await decisions.call_with_edits(form, found.item)
    else:
        decision = _make_decision(found, action, form, site.clock())
    # A refusal allows nothing, so that it may be made at any speed.
    if not review.is_refusal(decision) and site.too_soon(request, f"{found.id}:{form('hash')}", form("shown")):
        raise decisions.InvalidInput("problem.soon")
    if not site.may_decide(request, decision):
        return site.problem(request, 403, "barred.link")
    made, also = {found.id: decision}, await _find_also(site, found, decision, form)
    if isinstance(decision, review.Approve) and also:
        made = {**approve_covered(found, decision, also)}
    hashes = {found.id: form("hash"), **{each.id: each.hash for each in also}}
    await site.queue.decide_all(made, hashes, by=site.by(request))
    then = f"/review/{found.id}" if is_linked(request) else "/"
    # The page's script chooses the next question itself.
    if not (wants_data(request) or is_linked(request)):
        then = await _find_next_place(site, found, Sifting.of(request.query_params))
    before = [found, *(each for each in also if each.id in made)]
    done = decision.action if isinstance(decision, ElicitResult) else action
    if (await site.queue.get(found.id)).state == "pending":
        done = "first"
    if isinstance(decision, review.Deny) and decision.reach != "once":
        done = f"deny.{decision.reach}"
    return await site.decided(request, before, f"done.{done}", then=then)


@_reporting
async def preview_edit(site: Site, request: Request) -> Response:
    """Show the edited request, and its differences to what the server sent."""
    found = await site.queue.get(request.path_params["id"])
    if not isinstance(found.item, review.ReviewItem):
        raise AlreadyDecided(found)
    fields = [(name, value) for name, value in form_of(request) if name not in _SEAL]
    form = decisions.DecisionForm(fields)
    params = decisions.read_edited_request(form, found.item.params)
    return site.html(
        request,
        "parts/preview.html" if request.headers.get("x-part") else "preview.html",
        q=collect_shown(found),
        fields=fields,
        lines=compare_requests(found.item.received, params),
        model=(model := form("model") or found.item.model or found.item.provider),
        most=review.most_of(found.item, model, params),
        digest=review.digest(params),
    )


@_reporting
async def undo_decision(site: Site, request: Request) -> Response:
    """Take back a permission that has not taken effect yet."""
    named = [each.partition(" ") for each in decisions.DecisionForm(form_of(request)).all("of")]
    late = 0
    for id, _, decided in named:
        # A decision that somebody has made since then stays. Where another tab was faster, the request waits again.
        found = await site.queue.get(id)
        if is_linked(request) and found.decided and found.by != site.by(request):
            return site.problem(request, 403, "barred.undo")
        if decided == str(found.decided):
            with suppress(AlreadyDecided):
                await site.queue.undo(id, by=site.by(request), decided=found.decided)
        late += (await site.queue.get(id)).state != "pending"
    await site.read_outcomes(request)
    if late == len(named):
        raise decisions.InvalidInput("undo.late")
    return site.done(request, "undo.some" if late else "undo.done", then=f"/review/{named[0][0]}")


@_reporting
async def store_draft(site: Site, request: Request) -> Response:
    """Store what was typed about a question, or delete it."""
    id: str = request.path_params["id"]
    fields = [(name, value) for name, value in form_of(request) if name not in (*_SEAL, "of")]
    of = decisions.DecisionForm(form_of(request))("of")
    kept = [(name, value) for name, value in await site.queue.draft(id) or () if name.rpartition(":")[0] != of]
    if ("discard", "1") not in fields:
        kept += [(f"{of}:{name}" if of else name, value) for name, value in fields]
    await site.queue.keep_draft(id, kept or None)
    return site.done(request, "done.draft", then=f"/review/{id}/edit")


@_reporting
async def approve_together(site: Site, request: Request) -> Response:
    """Approve several similar requests, all or none."""
    form = decisions.DecisionForm(form_of(request))
    ids = form.all("id")
    pending = await site.pending()
    first = next((question for question in pending if question.id in ids), None)
    if first is None:
        raise decisions.InvalidInput("problem.none")
    alike = {question.id for question in find_similar(first, pending)}
    if not alike.issuperset(ids):
        # It is over, or not similar: the form was not shown for it.
        raise decisions.InvalidInput("problem.unlike")
    if any(site.too_soon(request, f"{id}:{form(f'hash-{id}')}", form(f"shown-{id}")) for id in ids):
        raise decisions.InvalidInput("problem.soon")
    now = site.clock()
    chosen: dict[str, review.Decision | ElicitResult] = {
        id: decisions.read_approval(decisions.DecisionForm([("digest", form(f"digest-{id}"))]), now) for id in ids
    }
    hashes = {id: form(f"hash-{id}") for id in ids}
    await site.queue.decide_all(chosen, hashes, by=site.by(request))
    return await site.decided(request, [each for each in pending if each.id in ids], "done.together")


@_reporting
async def deny_several(site: Site, request: Request) -> Response:
    """Deny the selected questions with one reason, all or none."""
    form = decisions.DecisionForm(form_of(request))
    hashes = {id: hash for id, _, hash in (each.partition(" ") for each in form.all("ask"))}
    if not hashes:
        raise decisions.InvalidInput("mark.none")
    before = [await site.queue.get(id) for id in hashes]
    refusal = decisions.read_denial(decisions.DecisionForm([("reason", form("reason"))]))
    await site.queue.decide_all(dict.fromkeys(hashes, refusal), hashes, by=site.by(request))
    return await site.decided(request, before, "done.several")


async def revoke_grant(site: Site, request: Request) -> Response:
    """Withdraw a grant."""
    if not await site.grants.revoke(str(request.path_params["id"]), by=site.by(request)):
        return site.problem(request, 404, "problem.no_grant")
    return site.done(request, "done.revoke", then="/grants")


async def block_server(site: Site, request: Request) -> Response:
    """Block a server, and withdraw what waits from it."""
    identity = decisions.DecisionForm(form_of(request))("identity")
    names = await server_names(site, [identity])
    if identity not in names:
        return site.problem(request, 404, "problem.gone")
    await site.queue.block(identity, names[identity], by=site.by(request))
    return site.done(request, "done.deny.server", then=f"/servers/{identity}")


async def unblock_server(site: Site, request: Request) -> Response:
    """Unblock a server."""
    if not await site.queue.unblock(decisions.DecisionForm(form_of(request))("identity"), by=site.by(request)):
        return site.problem(request, 404, "problem.no_grant")
    return site.done(request, "done.unblock", then="/grants")


async def switch_tool(site: Site, request: Request) -> Response:
    """Switch a tool of a server behind the gateway on or off."""
    form = decisions.DecisionForm(form_of(request))
    found = () if site.servers is None else site.servers.upstreams
    offered = (each for server in found if server.identity == form("identity") for each in server.tools)
    if site.servers is None or form("tool") not in (each.tool.name for each in offered):
        return site.problem(request, 404, "problem.tool")
    on = form("on") == "true"
    await site.servers.switch_tool(form("identity"), form("tool"), on=on, by=write_decider(site.by(request)))
    return site.done(request, "done.on" if on else "done.off", then="/servers")


async def store_settings(site: Site, request: Request) -> Response:
    """Store language, theme and name in the browser."""
    form = decisions.DecisionForm(form_of(request))
    language, theme = form("language"), form("theme")
    if language not in LANGUAGES or theme not in THEMES:
        return site.problem(request, 422, "problem.form")
    keys = {"letters": "on" if form("letters") == "on" else "off"} if "of_keys" in form else {}
    chosen = {key.action: form(f"key-{key.action}").strip() or key.keys[0] for key in SINGLE_KEYS}
    if any(len(key) != 1 or key.isspace() for key in chosen.values()) or len(set(chosen.values())) < len(chosen):
        return site.problem(request, 422, "problem.keys")
    keys |= {key.action: chosen[key.action] for key in SINGLE_KEYS if chosen[key.action] != key.keys[0]}
    data = wants_data(request)
    response = JSONResponse({"done": "", "reload": "/settings"}) if data else RedirectResponse("/settings", 303)
    for name, value in (("language", language), ("theme", theme), ("name", form("name").strip())):
        site.keep(response, request, name, value)
    site.keep(response, request, "keys", urlencode(keys), most=1_000)
    return response


async def tell_device(site: Site, request: Request) -> Response:
    """Tell this browser of questions by Web Push, or no longer."""
    form, (devices, person) = decisions.DecisionForm(form_of(request)), site.devices_for(request)
    if devices is None:
        return site.gone(request)
    on = form("on") == "true"
    try:
        text = site.texts(request)("notice.test") if on else ""
        await devices.change_device(form("subscription"), person, text)
    except NotDelivered as error:
        return site.problem(request, 422, "problem.device", detail=str(error))
    return site.done(request, "done.device" if on else "done.device_off", then="/settings")


async def invite_browser(site: Site, request: Request) -> Response:
    """Make an address that opens the page in one more browser; where people sign in, none does."""
    if site.access.settings is not None:
        return site.gone(request)
    address = f"{request.base_url}open?token={site.access.issue()}"
    if wants_data(request):
        return site.done(request, "done.invite", address=address)
    return await show_settings(site, request, address=address)


async def _find_also(
    site: Site, found: Question, decision: review.Decision | ElicitResult, form: decisions.DecisionForm
) -> list[Question]:
    """Return what waits and is covered by the grant that is given, of those that the form has counted."""
    named = set(form.all("also"))
    if not named or not isinstance(decision, review.Approve):
        return []
    covered = find_covered(found, decision.scope, await site.pending(), decision.when)
    return [each for each in covered if f"{each.id} {each.hash}" in named]


def _make_decision(
    question: Question, action: str, form: decisions.DecisionForm, now: float
) -> review.Decision | ElicitResult:
    item = question.item
    if item is None or question.state != "pending":
        raise AlreadyDecided(question)
    if isinstance(item, review.ElicitItem):
        return decisions.read_denial(form) if action == "deny" else decisions.read_filled_form(form, item)
    match action:
        case "approve":
            return decisions.read_approval(form, now, review.usual_terms(item))
        case "edit" if isinstance(item, review.ReviewItem):
            return decisions.read_edit(form, item)
        case "regenerate":
            return review.Regenerate(model=form("model") or None)
        case "answer":
            return decisions.read_answer(form)
        case "deny":
            return decisions.read_denial(form)
        case _:
            raise decisions.InvalidInput("problem.form")


async def _find_next_place(site: Site, decided: Question, sifting: Sifting) -> str:
    """Return the next place without a script: the next question in the filtered list, its first, or the queue."""
    pending = [question for question in await site.pending() if question.id != decided.id]
    groups = arrange_rows(groups_of([*pending, decided], by_server=True), sifting.order, sifting.wanted, sifting.only)
    ids = [row.id for group in groups for row in group.rows]
    at = ids.index(decided.id) if decided.id in ids else len(ids)
    near = [*ids[at + 1 :], *ids[:at]]
    return f"/review/{near[0]}" if near else "/"


_WAIT = 20.0
"""Seconds that one request of the page's script waits for an answer; then the script sends the next."""
_LONGEST_ID = 32


async def show_kept_request(site: Site, request: Request) -> Response:
    """Show a request that was kept, to be edited and sent."""
    found = await _find_kept_request(site, request)
    if found is None:
        return site.gone(request)
    told, shown, params, asker = found
    why, offers = "", ()
    try:
        offers = await asker.offers(params, told.row.identity)
    except AntiphonError as error:
        why = _describe_error(error)
    return site.html(request, "again.html", told=told, q=shown, offers=offers, why=why, id=token_hex(8), draft=None)


@_reporting
async def ask_again(site: Site, request: Request) -> Response:
    """Have the edited request answered, and redirect to the answer."""
    form = decisions.DecisionForm(form_of(request))
    id = form("id")
    if not id.isalnum() or len(id) > _LONGEST_ID:
        return site.problem(request, 422, "problem.form")
    if site.own.get(id) is None:
        found = await _find_kept_request(site, request)
        if found is None:
            return site.problem(request, 404, "problem.gone")
        if site.own.full:
            return site.problem(request, 429, "again.full")
        told, _, kept, asker = found
        params, model, by = decisions.read_edited_request(form, kept), form("model"), write_decider(site.by(request))
        answering = asker.complete(params, identity=told.row.identity, by=by, model=model or None)
        site.own.start(OwnRequest(id, told.row.seq, params, model), answering)
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
    words, failure = site.texts(request), "" if own.failure is None else _describe_error(own.failure)
    key = f"cause.{read_data(own.failure, 'reason')}" if isinstance(own.failure, Rejected) else ""
    failure = f"{words(key)}: {failure}" if words.has(key) else failure
    return site.html(request, "asked.html", own=own, answer=shown and shown.answer, record=record, failure=failure)


async def show_text_piece(site: Site, request: Request) -> Response:
    """Show a piece of a long text of an answer."""
    own = site.own.get(str(request.path_params["id"]))
    return show_piece(site, request, own and _collect_shown(own), f"/asked/{request.path_params['id']}")


async def await_answer(site: Site, request: Request) -> Response:
    """Wait for an answer, and tell the page's script whether it has arrived."""
    own = site.own.get(str(request.path_params["id"]))
    if own is None or own.task is None:
        return JSONResponse({"done": True})
    closing = asyncio.ensure_future(site.closing.wait())
    await asyncio.wait((closing, own.task), timeout=_WAIT, return_when=asyncio.FIRST_COMPLETED)
    closing.cancel()
    return JSONResponse({"done": own.is_over})


async def stop_waiting(site: Site, request: Request) -> Response:
    """Stop waiting for an answer. Its cost up to now counts as spent."""
    own = site.own.get(str(request.path_params["id"]))
    if own is None:
        return site.problem(request, 404, "problem.gone")
    await end_tasks(own.task)
    return site.done(request, "done.stopped", then=f"/asked/{own.id}")


async def _find_kept_request(
    site: Site, request: Request
) -> tuple[AskHistory, Shown, CreateMessageRequestParams, Asker] | None:
    """Return a request that can be asked again, and the host that answers; ``None`` if it cannot be asked."""
    told, asker = await find_history(site, request.path_params["seq"]), site.own.asker
    if told is None or told.asked is None or told.asked.params is None or asker is None:
        return None
    return told, told.asked, told.asked.params, asker


def _collect_shown(own: OwnRequest) -> Shown | None:
    """Collect what is shown of an answer; ``None`` if there is none."""
    return None if own.answer is None else show_kept(make_person_origin(), own.params, own.params, own.answer.result)


def _describe_error(error: AntiphonError) -> str:
    return error.message if isinstance(error, PeerError) else str(error)
