"""The parts that all views of the page use, and responses made from templates.

Owns language, theme and name of the visitor, which are kept by the browser; what each browser has decided last; and the
person's own requests, whose answers end with this process, while the audit records them like any others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from antiphon.errors import AntiphonError, InternalError
from antiphon.host.audit import Audit
from antiphon.host.checks.people import Decider, Person, Role
from antiphon.host.checks.visible import inert_line
from antiphon.host.config.settings import Config, Notify
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.own_request import Asker, Offer, OwnAnswer
from antiphon.host.pipeline.growth import Watching
from antiphon.host.review import summary
from antiphon.host.review.decisions import describe_rule
from antiphon.host.review.definitions import Digests, Servers
from antiphon.host.review.given_grants import Grants
from antiphon.host.review.history import Bound, find_tightest_budget
from antiphon.host.review.keymap import describe_key, keys_as_set, print_key_name
from antiphon.host.review.push import DeviceNotices
from antiphon.host.review.question import AnyDecision, Question, find_reach
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import most_of, name_of
from antiphon.host.review.summary import first_words, outcome_text, who_of
from antiphon.host.store.base import Store
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.web.page_guards import BrowserSession, PageAccess, allow_inlined, is_first, is_plain, session_of
from antiphon.web.page_texts import LANGUAGES, Texts, choose_language, load_texts
from antiphon.web.queue_rows import QueueRows, Sifting
from antiphon.web.render import JOINED, LONG, PIECE, inline_files, make_environment
from antiphon.wire.sampling import CreateMessageRequestParams

if TYPE_CHECKING:
    from antiphon.web.provider_sign_in import ProviderSignIn

THEMES = ("auto", "light", "dark")
ARMING = 0.4
"""Seconds after a request was sent in which it cannot be approved: nobody reads faster, and a key may be pressed by
chance."""
LISTED = 1_000
"""Most questions on one page of the list, which a browser draws at once."""
_NAME = 40
"""Most characters of a reviewer's name."""
_PIECE = 100
"""Records that are gathered at once, which blocks a store for some 2 ms: each read of a view may wait for that."""
_PATIENCE = 0.1
"""Seconds that a view waits for records to be gathered; later ones are shown next time."""

_FIRST_POLICY = allow_inlined(JOINED["page.js"], JOINED["page.css"])

_log = logging.getLogger("antiphon.web")


class Site:
    """The parts of one page."""

    def __init__(
        self,
        store: Store,
        access: PageAccess,
        *,
        config: Config | None = None,
        undo: float = 0.0,
        asker: Asker | None = None,
        servers: Servers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.queue = Queue(store, clock=clock, undo=undo)
        self.grants = Grants(store)
        self.audit = Audit(store)
        self.outcomes = OutcomeLists(self.queue)
        self.watching = Watching(store, clock)
        self.head_budget = HeadBudget(lambda: find_tightest_budget(store, clock()))
        self.own = OwnRequests(asker, None if config is None else ConfiguredAsker(config, store))
        self.access = access
        notify = Notify() if config is None else config.notify
        devices = (DeviceNotices(each, store, "", notify.push_hosts) for each in notify.targets if each.is_push)
        self.devices = next(devices, None)
        """The browsers that are told of questions; ``None`` where that is not configured."""
        self.servers = servers
        self.digests = Digests()
        """The hashes of the definitions that the servers have now."""
        self.config = config
        self.clock = clock
        self.closing = asyncio.Event()
        """Set when the page is about to end, so that open streams end."""
        self.sign_in: ProviderSignIn | None = None
        """The provider with which people sign in; ``None`` if there is none."""
        self._gathering: asyncio.Task[None] | None = None
        self._environment = make_environment()
        self._known: tuple[int, list[Question]] | None = None
        self.rows = QueueRows()
        """The waiting questions as rows, as of the last read: the oldest ones, if there are very many."""
        self.waiting = 0
        """The number of all waiting questions."""
        self._reading = asyncio.Lock()

    async def gather(self) -> None:
        """Let the store gather new audit records, for a moment; if it takes longer, it continues in the background."""
        if self._gathering is None or self._gathering.done():
            self._gathering = asyncio.create_task(self._gather(), name="antiphon-history")
        await asyncio.wait([self._gathering], timeout=_PATIENCE)

    async def _gather(self) -> None:
        try:
            while not self.closing.is_set() and await self.store.gather(_PIECE):
                pass
        except Exception as error:
            # What was gathered before is still shown; the page says how much is missing.
            _log.warning("the history could not be brought up to date: %s", type(error).__name__)

    async def pending(self) -> list[Question]:
        """Return the waiting questions, read again only after a change, because views and streams ask concurrently."""
        async with self._reading:
            version = await self.store.reviews_version()
            if self._known is None or self._known[0] != version:
                self._known = (version, await self.queue.pending(LISTED))
            now = self.clock()
            pending = [each for each in self._known[1] if each.expires is None or each.expires > now]
            self.rows.update(pending)
            self.waiting = self.rows.count
            if self.waiting > LISTED // 2:
                # Of those that were read, some may be decided or expired.
                self.waiting = max(self.waiting, await self.queue.waiting())
            return pending

    async def read_page(self, after: str) -> QueueRows:
        """Return the waiting questions after one as rows, or the oldest ones if that is empty."""
        await self.pending()
        if not after:
            return self.rows
        rows = QueueRows()
        rows.update(await self.queue.pending(LISTED, after))
        return rows

    def texts(self, request: Request) -> Texts:
        """Return the texts in the visitor's language."""
        chosen = request.cookies.get(self.access.name_cookie("antiphon-language"))
        return load_texts(choose_language(chosen, request.headers.get("accept-language", "")))

    def theme(self, request: Request) -> str:
        """Return the theme that was chosen."""
        chosen = request.cookies.get(self.access.name_cookie("antiphon-theme"), "")
        return chosen if chosen in THEMES else "auto"

    def named(self, request: Request) -> str:
        """Return the visitor's name, or nothing.

        Where cookies are not safe none counts, because the name is recorded.
        """
        kept = request.cookies.get(self.access.name_cookie("antiphon-name"), "")
        return "" if is_plain(request) else unquote(kept)[:_NAME]

    def find_chosen_keys(self, request: Request) -> tuple[bool, dict[str, str]]:
        """Return whether keys of a single character work, and those that a person chose, by action."""
        kept = dict(parse_qsl(unquote(request.cookies.get(self.access.name_cookie("antiphon-keys"), ""))))
        return kept.pop("letters", "on") == "on", {name: key for name, key in kept.items() if len(key) == 1}

    def by(self, request: Request) -> Decider:
        """Return who decides: who has signed in, or a name that proves nothing."""
        session = _let_in(request)
        if session.only is not None:
            return f"link {session.number}"
        return session.person or self.named(request) or f"page {session.number}"

    def devices_for(self, request: Request) -> tuple[DeviceNotices | None, Person | None]:
        """Return the devices that are told, and who may change them; no devices if this browser cannot be one."""
        person = _let_in(request).person
        may = not is_plain(request) and (person is None or person.has_role("reviewer"))
        return self.devices if may else None, person

    def may_decide(self, request: Request, decision: AnyDecision) -> bool:
        """Return whether a decision is about no more than the session may decide: a link's session has one question."""
        return _let_in(request).only is None or find_reach(decision) == "once"

    def too_soon(self, request: Request, subject: str, stamp: str) -> bool:
        """Tell whether a decision came before anybody can have read the request."""
        shown = _let_in(request).read_stamp(subject, stamp)
        # A clock that was set back since then must not keep everybody from deciding.
        return shown is None or abs(self.clock() - shown) < ARMING

    def html(self, request: Request, template: str, *, status: int = 200, **context: object) -> Response:
        """Render a template."""
        session, now = _let_in(request), self.clock()
        said = request.query_params.get("said", "")
        page = self._environment.get_template(template).render(
            **self._words(request),
            csrf=session.csrf,
            proof=f"{session.number} {session.proof_key}",
            stamp=partial(session.stamp, at=now),
            said=said if said.startswith(("done.", "undo.")) else "",
            outcomes=self.outcomes.of(session.number),
            now=now,
            is_opened=is_first(request),
            **context,
        )
        if is_first(request):
            return HTMLResponse(inline_files(page), status, {"Content-Security-Policy": _FIRST_POLICY})
        return HTMLResponse(page, status)

    def gone(self, request: Request) -> Response:
        """Say that what was asked for does not exist any more."""
        return self.html(request, "gone.html", status=404)

    def part(self, request: Request, template: str, **context: object) -> str:
        """Render a template without forms, for the page's script."""
        return self._environment.get_template(template).render(**self._words(request), **context)

    def doorway(self, request: Request) -> Response:
        """Send a page with only the script, which then requests the page again with the session in a header."""
        return self.plain_html(request, "entrance/doorway.html")

    def plain_html(self, request: Request, template: str, *, status: int = 200, **values: object) -> Response:
        """Send a page to a browser that may have no session."""
        return HTMLResponse(self._environment.get_template(template).render(**self._words(request), **values), status)

    def problem(self, request: Request, status: int, key: str, *, detail: str = "", **values: object) -> Response:
        """Report a problem: to the page's script, or as a page if there is none."""
        text = self.texts(request)(key, **values)
        if wants_data(request):
            return JSONResponse({"problem": text, "detail": detail}, status)
        came = urlsplit(request.headers.get("referer", ""))
        back = f"{came.path or '/'}{Sifting.of(dict(parse_qsl(came.query))).query}"
        title = "problem.failed" if status >= 500 else "problem.title"
        return self.html(
            request, "failure.html", status=status, title=title, problem=f"{text} {detail}".strip(), back=back
        )

    def done(self, request: Request, key: str, *, then: str = "/", **more: str | float) -> Response:
        """Report that an action is done: as JSON for the page's script, else by a redirect to ``then``."""
        if wants_data(request):
            return JSONResponse({"done": self.texts(request)(key), **more})
        return RedirectResponse(f"{then}?{urlencode({'said': key, **Sifting.of(request.query_params).asked})}", 303)

    async def decided(
        self, request: Request, before: Sequence[Question], key: str, *, then: str = "/", **more: str
    ) -> Response:
        """Report a decision, and note it in the list of this browser."""
        entry = await self.outcomes.add(_let_in(request).number, before, key)
        held = next((each.question.id for each in entry.requests if each.question.state == "held"), None)
        undo = {} if held is None else {"undo": held, "seconds": entry.seconds(self.clock())}
        about = entry.requests[0].about if len(before) == 1 else ""
        return self.done(request, key, then=then, about=inert_line(about), of=before[0].id, **more, **undo)

    async def read_outcomes(self, request: Request) -> None:
        """Read what became of the decisions that were made in this browser."""
        await self.outcomes.load(_let_in(request).number)

    def keep(self, response: Response, request: Request, name: str, value: str, *, most: int = _NAME) -> None:
        """Store a setting in the browser, of at most so many characters."""
        response.set_cookie(
            # As for the session: a page of a neighbouring host could otherwise give a key another action.
            self.access.name_cookie(f"antiphon-{name}"),
            quote(value[:most]),
            max_age=365 * 24 * 3600,
            httponly=True,
            samesite="strict",
            secure=self.access.is_encrypted or request.url.scheme == "https",
        )

    def _words(self, request: Request) -> dict[str, object]:
        words, (letters, chosen) = self.texts(request), self.find_chosen_keys(request)
        session = session_of(request)
        person = None if session is None else session.person
        is_linked = session is not None and session.only is not None

        def may(role: Role) -> bool:
            return role != "admin" if is_linked else person is None or person.has_role(role)

        keys = keys_as_set("page", chosen, letters=letters)

        def key_of(action: str) -> str:
            return next((key.keys[0] for key in keys if key.action == action), "")

        return {
            "t": words,
            "languages": LANGUAGES,
            "theme": self.theme(request),
            "person": person,
            "may": may,
            "path": request.url.path,
            "base": str(request.base_url),
            "sifting": Sifting.of(request.query_params),
            "plain": is_plain(request),
            "linked": is_linked,
            "configured": self.config is not None,
            "has_servers": self.servers is not None,
            "keymap": [(key, [print_key_name(name) for name in key.keys], describe_key(key, words)) for key in keys],
            "key": key_of,
            "rule": describe_rule,
            "span": summary.format_duration,
            "clock": summary.format_time_left,
            "outcome_said": summary.outcome_text,
            "most_of": most_of,
            "first_words": summary.first_words,
            "name_of": name_of,
            "task_text": summary.task_text,
            "round_text": summary.round_text,
            "LONG": LONG,
            "PIECE": PIECE,
        }


def wants_data(request: Request) -> bool:
    """Tell whether the page's script sent the request; it wants JSON, and shows the result itself."""
    return "application/json" in request.headers.get("accept", "")


def _let_in(request: Request) -> BrowserSession:
    session = session_of(request)
    assert session is not None, "views are for those who were let in"
    return session


_PACE = 1.0
"""Seconds between two reads of the budget, for all open tabs of a page together."""


class HeadBudget:
    """The budget that the head shows. A host also spends without a question, of which no notice tells."""

    def __init__(self, find: Callable[[], Awaitable[Bound | None]]) -> None:
        self._find = find
        self._bound: Bound | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def read(self, *, older: float = 0.0) -> Bound | None:
        """Return the budget of which the least is left, read again if what is known is ``older``, in seconds."""
        async with self._reading:
            if time.monotonic() - self._read_at >= older:
                self._bound, self._read_at = await self._find(), time.monotonic()
            return self._bound

    async def await_change(self, known: Bound | None) -> None:
        """Wait until the budget is another one than a tab shows, or more of it is used or reserved."""
        while True:
            if await self.read(older=_PACE) != known:
                return
            await asyncio.sleep(_PACE)


_LAST = 5
"""Entries that are kept for each browser: more than a person takes back."""
MAX_LISTS = 1_000
"""Most browsers with a list, about as many as have a session. That which was added to longest ago is dropped first."""


class OutcomeRequest(msgspec.Struct, kw_only=True):
    """One request that was decided."""

    question: Question
    about: str
    """Its first words, as the server wrote them."""


class OutcomeEntry(msgspec.Struct, kw_only=True):
    """One decision, about one request or about several at once."""

    requests: tuple[OutcomeRequest, ...]
    done: str
    """Key of the text that says what was decided."""
    server: str = ""

    def seconds(self, now: float) -> float:
        """Return for how long the decision can still be taken back; 0 if it cannot."""
        held = (each.question.release for each in self.requests if each.question.state == "held")
        return max((at - now for at in held if at is not None), default=0.0)

    @property
    def is_open(self) -> bool:
        """Whether the outcome of any of its requests is not known yet."""
        return any(each.question.outcome is None for each in self.requests)

    def results(self, words: Texts) -> list[str]:
        """Say what became of it: one text for each kind of outcome, with its number if there are several requests."""
        known = (each.question.outcome for each in self.requests)
        counted = Counter(outcome_text(outcome, words) for outcome in known if outcome is not None)
        return [text if len(self.requests) == 1 else f"{count}: {text}" for text, count in counted.items()]


class OutcomeLists:
    """The lists of all browsers of one page."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lists: OrderedDict[int, deque[OutcomeEntry]] = OrderedDict()

    async def add(self, session: int, before: Sequence[Question], done: str) -> OutcomeEntry:
        """Note a decision. ``before``: the questions, as they were when they were decided."""
        requests = [
            OutcomeRequest(question=await self._queue.get(each.id), about=first_words(each.item)) for each in before
        ]
        server = who_of(before[0].item.origin).name if before[0].item is not None else ""
        entry = OutcomeEntry(requests=tuple(requests), done=done, server=server)
        self._lists.setdefault(session, deque(maxlen=_LAST)).appendleft(entry)
        self._lists.move_to_end(session)
        if len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return entry

    async def load(self, session: int) -> None:
        """Read from the store what became of the decisions of a browser. A decision that was taken back leaves it."""
        entries = self._lists.get(session) or deque[OutcomeEntry]()
        for entry in [each for each in entries if each.is_open]:
            stays: list[OutcomeRequest] = []
            for request in entry.requests:
                known = request.question
                request.question = known if known.outcome is not None else await self._queue.get(known.id)
                stays += [request] if request.question.decided == known.decided else []
            entry.requests = tuple(stays)
            if not entry.requests and entry in entries:
                entries.remove(entry)

    def of(self, session: int) -> list[OutcomeEntry]:
        """Return the entries of a browser, newest first."""
        return list(self._lists.get(session, ()))


MAX_KEPT = 20
"""Most answers that are kept; the oldest is dropped."""
MAX_RUNNING = 4
"""Most own requests that are answered at the same time, since each reserves money."""


class OwnRequest(msgspec.Struct, eq=False):
    """One own request."""

    id: str
    seq: int
    """The ask that it repeats, by its first record."""
    params: CreateMessageRequestParams
    model: str
    """The model that was asked."""
    answer: OwnAnswer | None = None
    failure: AntiphonError | None = None
    seconds: float = 0.0
    """Seconds that the answer took."""
    task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is an answer or a failure, or nobody waits for one any more."""
        return self.task is not None and self.task.done()

    async def run(self, answering: Coroutine[Any, Any, OwnAnswer]) -> None:
        """Wait for the answer, and keep it or its failure."""
        began = time.monotonic()
        try:
            self.answer = await answering
        except AntiphonError as error:
            self.failure = error
        except Exception as error:
            # An ``Asker`` may be code of others, whose error may contain anything: only the type is shown.
            self.failure = InternalError(type(error).__name__)
        finally:
            self.seconds = time.monotonic() - began


class ConfiguredAsker:
    """The configured host, which is opened in the process of the page on first use."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store
        self._host: ConfiguredHost | None = None

    async def offers(self, params: CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        return await self._open_host().offers(params, identity)

    async def complete(self, messages: CreateMessageRequestParams, **asked: Any) -> OwnAnswer:
        return await self._open_host().complete(messages, **asked)

    async def aclose(self) -> None:
        """Close its connections; the store stays open."""
        if self._host is not None:
            await self._host.aclose()

    def _open_host(self) -> ConfiguredHost:
        if self._host is None:
            self._host = ConfiguredHost(self._config, os.environ, reviewer=None, store=self._store)
        return self._host


class OwnRequests:
    """The own requests of one page."""

    def __init__(self, asker: Asker | None, configured: ConfiguredAsker | None) -> None:
        self.asker: Asker | None = asker or configured
        """The host that answers; ``None`` if the page has none."""
        self._configured = configured
        self._known: OrderedDict[str, OwnRequest] = OrderedDict()

    def get(self, id: str) -> OwnRequest | None:
        """Return a request by its id, or ``None``."""
        return self._known.get(id)

    @property
    def full(self) -> bool:
        """Whether as many requests as allowed are being answered."""
        return sum(not each.is_over for each in self._known.values()) >= MAX_RUNNING

    def start(self, own: OwnRequest, answering: Coroutine[Any, Any, OwnAnswer]) -> None:
        """Have a request answered in the background."""
        own.task = asyncio.create_task(own.run(answering), name="antiphon-own-request")
        self._known[own.id] = own
        for id in [id for id, each in self._known.items() if each.is_over][: max(0, len(self._known) - MAX_KEPT)]:
            del self._known[id]

    async def aclose(self) -> None:
        """Stop the requests that are being answered, and close the host if it was opened here."""
        await end_tasks(*(each.task for each in self._known.values()))
        if self._configured is not None:
            await self._configured.aclose()
