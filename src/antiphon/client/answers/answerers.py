"""Answers to what a server asks, whether it came as a request or in a round.

Owns the capabilities a client declares, checks of an ask before an answerer sees it (the protocol's rules, and limits
for all answerers), and the forms in which answerers may reply. The answerer (a ``Host``, which checks far more, or any
such function) decides whether and how to answer. Sources: 2025-11-25 client/sampling, client/elicitation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from msgspec import Raw, ValidationError, convert, structs

from antiphon.client.rounds.loop import PendingRound
from antiphon.errors import ConfigError, InternalError, InvalidParams, LocalProtocolError, MethodNotFound, Rejected
from antiphon.machine.asyncio_tasks import is_withdrawn
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability, Wire
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult, ElicitValue, drop_refused
from antiphon.wire.envelope import encode_value
from antiphon.wire.lossless import Received, relay_object
from antiphon.wire.origin import Equipment, Origin
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    check_conversation,
    check_counts,
    text_answer,
)

Sampler = Callable[[CreateMessageRequestParams, Origin], Awaitable[str | CreateMessageResult]]
"""Answers a sampling request; a string is a text answer. Raises ``Rejected`` to refuse."""

Elicitor = Callable[[ElicitRequestParams, Origin], Awaitable[ElicitResult | Mapping[str, Any] | None]]
"""Answers an elicitation; a mapping is an accepted form, ``None`` (or raising ``Rejected``) declines."""

Roots = Sequence[str | Path | Root] | Callable[[], Awaitable[Sequence[str | Path | Root]]]
"""The roots themselves, or an async function that returns them."""

OnRound = Callable[[PendingRound[Any]], object]
"""Called with each round before any of its asks is answered; may be async. An exception from it ends the call."""


Around = Callable[[Wire, Origin, Callable[[Wire], Awaitable[Wire]]], Awaitable[Wire]]
"""Middleware around an answer: takes the ask, its origin, and what answers an ask."""

_ASIDE = 1_000
"""Most rounds kept that were answered by hand and not sent yet. When the oldest is dropped, its answerers are not told
what became of their answers."""
_REPORTING = 5.0
"""Seconds for which ``close`` waits for answerers that record what became of their answers."""

log = logging.getLogger("antiphon.client")


@runtime_checkable
class Forwards(Protocol):
    """An answerer that passes asks on to another peer, with all their members."""

    async def forward(self, ask: Received, origin: Origin, key: str | None) -> Received:
        """Have an ask answered by the other peer. ``key``: its name in its round; ``None`` before 2026-07-28."""
        ...


async def _forward_ask(forwards: Forwards, ask: Received, origin: Origin, key: str | None) -> Wire | Received:
    try:
        return await forwards.forward(ask, origin, key)
    except Rejected:
        if not isinstance(ask.read, ElicitRequestParams):
            raise
        return ElicitResult(action="decline")


class PutAside(NamedTuple):
    """An answer to an ask of a round that goes on by hand."""

    answer: Wire
    params: Wire
    origin: Origin


class Extension(Protocol):
    """What a client speaks beyond the protocol. Its requests are made by ``Client.forward``."""

    @property
    def capabilities(self) -> ClientCapabilities:
        """What is declared beside the client's own: ``extensions`` and ``experimental``."""
        ...

    async def requested(self, method: str, params: Received, origin: Origin) -> Received:
        """Answer a request of the server whose method no revision has (up to 2025-11-25).

        Args:
            method: name of the method.
            params: its params, as they came.
            origin: the server.

        Returns:
            The result to send.
        """
        ...

    def notified(self, method: str, params: Received) -> object:
        """Handle a notification of the server: one that no revision has, or that a URL elicitation is complete.

        Args:
            method: name of the method.
            params: its params, as they came.

        Returns:
            A coroutine, which is then run, or anything else.
        """


class Answers:
    """The answerers of one client."""

    def __init__(
        self,
        sampling: Sampler | None,
        elicitation: Elicitor | None,
        roots: Roots | None,
        *,
        on_round: OnRound | None = None,
        timeout: float | None = None,
        extension: Extension | None = None,
    ) -> None:
        for name, answerer in (("sampling", sampling), ("elicitation", elicitation)):
            if answerer is not None and not takes_two(answerer):
                raise ConfigError(f"{name}= must be an async function (params, origin), or a Host; got {answerer!r}")
        if callable(getattr(elicitation, "elicit", None)):
            raise ConfigError(f"elicitation= got a host, which answers sampling: give its elicit; got {elicitation!r}")
        if on_round is not None and not callable(on_round):
            raise ConfigError(f"on_round= must be a function (pending); got {on_round!r}")
        _check_roots(roots)
        self.extension = extension
        """Messages and capabilities beyond the protocol."""
        self.on_round = on_round
        """Called with each round before its asks are answered."""
        self._sampling = sampling
        self._elicitation = elicitation
        self._roots = roots
        self.around: Around | None = None
        """Middleware around every answer."""
        self.timeout = timeout
        """Seconds an answerer may take; ``None`` for no limit."""
        self.reports = any(find_method(each, "handed_over") is not None for each in (sampling, elicitation))
        """Whether an answerer wants to know what becomes of its answers, as a ``Host`` does."""
        self._reports: set[asyncio.Future[None]] = set()
        self._aside: OrderedDict[tuple[str, int], Mapping[str, PutAside]] = OrderedDict()
        """Answers to rounds that go on by hand, by call and round."""
        self._forwards = any(isinstance(each, Forwards) for each in (sampling, elicitation, roots))
        offered = self.capabilities().sampling
        self._offers_context = offered is not None and offered.context is not None

    def capabilities(self) -> ClientCapabilities:
        """Return the client's capabilities: those an answerer declares itself, or else the plain ones."""
        more = ClientCapabilities() if self.extension is None else self.extension.capabilities
        roots = RootsCapability(list_changed=True) if self._roots is not None else None
        if isinstance(self._roots, Forwards):
            roots = _read_capability(self._roots, "roots", RootsCapability())
        return ClientCapabilities(
            experimental=more.experimental,
            extensions=more.extensions,
            sampling=_read_capability(self._sampling, "sampling", SamplingCapability()),
            elicitation=_read_capability(self._elicitation, "elicitation", ElicitationCapability(form={})),
            roots=roots,
        )

    async def equip(self, origin: Callable[[], Origin]) -> Equipment | None:
        """Return what an answerer gives to a server's process, as a ``Host`` with a model API does."""
        give = find_method(self._sampling, "equip") or find_method(self._elicitation, "equip")
        return None if give is None else await give(origin)

    def admit(self, params: Wire) -> Wire:
        """Check an ask, and return it as an answerer may see it. See the function ``admit``."""
        return admit_ask(params, offers_context=self._offers_context)

    async def answer(
        self,
        params: Wire,
        origin: Origin,
        *,
        raw: Raw | None = None,
        before: Wire | None = None,
        key: str | None = None,
    ) -> Wire | Received:
        """Answer one ask, as ``admit`` returned it.

        ``raw``: the ask as JSON; only for an answerer that forwards, like ``before``, the ask decoded from
        ``raw`` if ``admit`` changed it, and ``key``, its name in its round. A refused elicitation is answered
        with ``decline``, and one that takes too long with ``cancel``.

        Raises ``MethodNotFound`` if this client does not offer this, ``Rejected`` if sampling was refused or
        the answerer took too long, and what the answerer raises.
        """
        if raw is not None and self._forwards:
            asks_model = isinstance(params, CreateMessageRequestParams)
            asks_person = isinstance(params, ElicitRequestParams)
            forwards = self._sampling if asks_model else self._elicitation if asks_person else self._roots
            if isinstance(forwards, Forwards):
                return await self._forward(forwards, params, origin, Received(raw or Raw(b"{}"), before or params), key)
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await self._answer(params, origin)
        except asyncio.CancelledError as error:
            if is_withdrawn(error):
                raise
            # Raised on, it would end the task of a caller that nobody cancelled.
            raise InternalError("The request was abandoned") from None
        except TimeoutError:
            if not limit.expired():
                raise
        if isinstance(params, ElicitRequestParams):
            return ElicitResult(action="cancel")
        raise Rejected("User rejected sampling request", data={"reason": "expired"})

    async def _forward(
        self, forwards: Forwards, params: Wire, origin: Origin, sent: Received, key: str | None
    ) -> Wire | Received:
        """Forward an ask through the middleware, and return the answer with all its members."""
        answers: list[Wire | Received] = []

        async def forward_ask(passed: Wire) -> Wire:
            ask = relay_object(sent.carrying(passed), passed)
            answers[:] = [await _forward_ask(forwards, ask, origin, key)]
            return answers[0].read if isinstance(answers[0], Received) else answers[0]

        if self.around is None:
            await forward_ask(params)
            return answers[0]
        answer = await self._pass_ask(self.around, params, origin, forward_ask)
        received = answers[0] if answers else None
        return received.changed(answer) if isinstance(received, Received) else answer

    def report(self, params: Wire, origin: Origin, why: str | None = None) -> None:
        """Tell the answerer what became of its answer; see ``Host.handed_over``. Does not wait for it."""
        answerer = self._sampling if isinstance(params, CreateMessageRequestParams) else self._elicitation
        self.report_to(find_method(answerer, "handed_over"), origin, why)

    def report_to(self, told: Any, origin: Origin, why: str | None = None) -> None:
        """Tell the ``handed_over`` of an answerer, if it has one, what became of its answer. Does not wait for it."""
        recording = None if told is None else told(origin, why)
        if recording is not None:
            task = asyncio.ensure_future(recording)
            self._reports.add(task)
            task.add_done_callback(self._report_ask)

    def put_aside(self, pending: PendingRound[Any], given: Mapping[str, PutAside]) -> None:
        """Keep the answers to a round by hand until it is resumed, when ``take_up_asks`` finds out which were sent."""
        self._aside[pending.call, pending.number] = given
        if len(self._aside) > _ASIDE:
            self._aside.popitem(last=False)

    def take_up_asks(self, pending: PendingRound[Any], answers: Mapping[str, object]) -> list[tuple[Wire, Origin]]:
        """Return the asks of a round whose answers are sent now; report the others as cancelled."""
        sent: list[tuple[Wire, Origin]] = []
        for key, each in self._aside.pop((pending.call, pending.number), {}).items():
            if answers.get(key) == each.answer:
                sent.append((each.params, each.origin))
            else:
                self.report(each.params, each.origin, "cancelled")
        return sent

    def _report_ask(self, task: asyncio.Future[None]) -> None:
        self._reports.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("what became of an answer could not be recorded: %s", type(error).__name__)

    async def wait_reported(self) -> None:
        """Wait a short time for answerers to record what became of their answers."""
        if self._reports:
            await asyncio.wait(self._reports, timeout=_REPORTING)

    async def _answer(self, params: Wire, origin: Origin) -> Wire:
        if self.around is None:
            return await self._answer_of(params, origin)
        return await self._pass_ask(self.around, params, origin, lambda passed: self._answer_of(passed, origin))

    async def _pass_ask(
        self, around: Around, params: Wire, origin: Origin, answer: Callable[[Wire], Awaitable[Wire]]
    ) -> Wire:
        """Pass an ask through the middleware. An elicitation that the middleware refuses is declined."""
        try:
            return await around(params, origin, answer)
        except Rejected as error:
            if isinstance(params, ElicitRequestParams) and not error.remote:
                return ElicitResult(action="decline")
            raise

    async def _answer_of(self, params: Wire, origin: Origin) -> Wire:
        if isinstance(params, CreateMessageRequestParams) and self._sampling is not None:
            return _make_message(await _check_awaitable("sampling", self._sampling(params, origin)))
        if isinstance(params, ElicitRequestParams) and self._elicitation is not None:
            try:
                return _make_elicit_result(await _check_awaitable("elicitation", self._elicitation(params, origin)))
            except Rejected:
                return ElicitResult(action="decline")
        if self._roots is not None:
            return ListRootsResult(roots=await _list_roots(self._roots))
        raise MethodNotFound("This client does not offer it")

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots that are offered from now on."""
        _check_roots(roots)
        self._roots = roots


def find_method(answerer: object, name: str) -> Any:
    """Return a method of the object that answers, or ``None`` if it has none of this name."""
    owner: Any = answerer.__self__ if inspect.ismethod(answerer) else answerer
    return getattr(owner, name, None)


def takes_two(answerer: object) -> bool:
    """Return whether something can be called with params and origin."""
    try:
        inspect.signature(cast("Any", answerer)).bind(None, None)
    except (TypeError, ValueError) as error:
        # Functions written in C may have no signature.
        return isinstance(error, ValueError)
    return True


def _check_awaitable(name: str, answer: Awaitable[Any]) -> Awaitable[Any]:
    if not hasattr(answer, "__await__"):
        what = type(answer).__name__
        raise LocalProtocolError(f"{name}= gave a {what} and nothing to await: write the function with `async def`")
    return answer


async def _list_roots(given: Roots) -> Sequence[Root]:
    roots = await given() if callable(given) else given
    _check_roots(roots)
    return [_make_root(one) for one in roots]


def _check_roots(roots: object) -> None:
    # A string is a sequence of strings: "/srv/docs" would be taken as a list that begins with "/", the whole disk.
    if roots is not None and not callable(roots) and (isinstance(roots, str) or not isinstance(roots, Sequence)):
        raise ConfigError(f"roots= must be a list of paths, URIs and Roots, or an async function; got {roots!r}")


def _read_capability(answerer: object, kind: str, plain: Any) -> Any:
    """Return the capability an answerer declares by ``capabilities`` (a ``Host`` does), or else the plain one."""
    if answerer is None:
        return None
    declared = find_method(answerer, "capabilities")
    return getattr(declared, kind) if isinstance(declared, ClientCapabilities) else plain


def find_ask_method(params: Wire) -> str:
    """Return the method of an ask with these params."""
    if isinstance(params, CreateMessageRequestParams):
        return "sampling/createMessage"
    return "elicitation/create" if isinstance(params, ElicitRequestParams) else "roots/list"


def shape_answer(method: str, given: object) -> Wire:
    """Convert an answer in a short form (a string, a mapping, ``None``, a list of roots) to the result that is sent.

    Raises ``LocalProtocolError`` if it is no answer to this method.
    """
    if method == "sampling/createMessage":
        return _make_message(given)
    if method == "elicitation/create":
        return _make_elicit_result(given)
    if isinstance(given, ListRootsResult):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        return ListRootsResult(roots=[_make_root(one) for one in cast("Sequence[str | Path | Root]", given)])
    raise LocalProtocolError(f"{method} is answered with a list of roots, not with {type(given).__name__}")


def shape_answers(pending: PendingRound[Any], answers: Mapping[str, object]) -> dict[str, Wire]:
    """Convert answers to a round in short forms to results, by their keys.

    Raises ``LocalProtocolError`` for a key without an ask, and for an answer that does not fit its ask.
    """
    unknown = [key for key in answers if key not in pending.asks]
    if unknown:
        raise LocalProtocolError(f"The round has no ask {unknown[0]!r}: it has {', '.join(pending.asks) or 'none'}")
    return {key: shape_answer(pending.asks[key].method, given) for key, given in answers.items()}


def _make_message(answer: object) -> CreateMessageResult:
    if isinstance(answer, CreateMessageResult):
        return answer
    if isinstance(answer, str):
        return text_answer(answer)
    try:
        return convert(answer, CreateMessageResult)
    except ValidationError:
        raise LocalProtocolError(
            f"sampling is answered with a string or a CreateMessageResult, not with {type(answer).__name__}"
        ) from None


def _make_elicit_result(answer: object) -> ElicitResult:
    if isinstance(answer, Mapping):
        answer = ElicitResult(action="accept", content=dict(cast("Mapping[str, ElicitValue]", answer)))
    if isinstance(answer, ElicitResult):
        return drop_refused(answer)
    if answer is None:
        return ElicitResult(action="decline")
    raise LocalProtocolError(
        f"an elicitation is answered with a mapping, None or an ElicitResult, not with {type(answer).__name__}"
    )


def _make_root(given: str | Path | Root) -> Root:
    if isinstance(given, Root):
        return given
    if isinstance(given, str) and "://" in given:
        return Root(uri=given)
    path = Path(given).absolute()
    return Root(uri=path.as_uri(), name=path.name or None)


MAX_TOKENS = 128 * 1024
"""Most tokens an answerer is asked for. No model of 2026 answers with more; a larger number means "no limit"."""

MAX_FORM = 256 * 1024
"""Most bytes of an elicitation: its message, its form or its address."""


def admit_ask(params: Wire, *, offers_context: bool = False) -> Wire:
    """Check an ask, and return it as an answerer may see it.

    A ``maxTokens`` above ``MAX_TOKENS`` is lowered to that, which the specification leaves to the client; an
    ``includeContext`` that was not offered is dropped. Raises ``InvalidParams`` for an invalid ask; its message and
    ``data.place`` name the place.
    """
    if isinstance(params, CreateMessageRequestParams):
        check_counts(params)
        check_conversation(params.messages)
        return _cut_back(params, offers_context)
    if isinstance(params, ElicitRequestParams) and len(encode_value(params)) > MAX_FORM:
        raise InvalidParams(f"params: more than {MAX_FORM} bytes", data={"place": "params"})
    return params


def _cut_back(params: CreateMessageRequestParams, offers_context: bool) -> CreateMessageRequestParams:
    if params.max_tokens > MAX_TOKENS:
        # "The client MAY choose to sample fewer tokens than the requested maximum."
        params = structs.replace(params, max_tokens=MAX_TOKENS)
    wants_context = params.include_context is not None and params.include_context != "none"
    if wants_context and not offers_context:
        params = structs.replace(params, include_context=None)
    return params
