"""Steps around each tool call: consent before it, a look-up of missing headers, and validation of the result.

Owns who is asked for consent, before anything of the call is sent. A ``Host``, or any such function, decides. What is
known of the tools is in ``known_tools``. ``client`` and ``by_hand`` make the call itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct, structs

from antiphon.client.answers.answerers import find_method
from antiphon.client.client_middleware import ClientMiddlewareStack, ClientRequest
from antiphon.client.known_tools import KnownTools
from antiphon.client.link import ServerLink
from antiphon.client.notifications import Cache
from antiphon.client.requests.attempts import BecameTask
from antiphon.errors import ConfigError, ConnectionClosed, HeaderMismatch, PeerError, Rejected, RemoteProtocolError
from antiphon.machine.call_time import CURRENT, TimeLeft
from antiphon.machine.other_frameworks import explain_other_names
from antiphon.wire.lossless import Received
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.outcome_filter import pass_outcome
from antiphon.wire.task import CreateTaskResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

log = logging.getLogger("antiphon.client")

# Not where it is defined: messages depend on nothing of this machine.
explain_other_names(CallToolResult)

Confirmer = Callable[[CallToolRequestParams, Origin], Awaitable[bool | ChangedCall | None]]
"""Decides about a tool call: true allows it, a ``ChangedCall`` takes its place. Anything else, or raising ``Rejected``,
refuses it."""


@runtime_checkable
class Confirming(Protocol):
    """An object that decides about tool calls, such as a ``Host``."""

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall | None:
        """Decide about one call; see ``Confirmer``.

        Args:
            params: the call.
            origin: the server, and what it says about the tool.
        """


@runtime_checkable
class Examining(Protocol):
    """A decider that also says what of a call's result is passed on, such as a ``Host``."""

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        """Return what is passed on of a result."""
        ...


@runtime_checkable
class ConfirmsItself(Protocol):
    """A server of this process that has each call confirmed before it passes it on, such as that of a ``Gateway``."""

    @property
    def confirmer(self) -> Confirmer | Confirming | None:
        """What it asks before each call; ``None`` for nothing."""


class Consent:
    """The consent to tool calls of one client, or to one call.

    ``behind``: what the server asks by itself, which is not asked a second time here.
    """

    def __init__(
        self, deciders: Sequence[Confirmer | Confirming], timeout: float | None, behind: object = None
    ) -> None:
        for each in deciders:
            if not (callable(each) or hasattr(each, "confirm")):
                raise ConfigError(f"confirm= must be an async function (params, origin), or a Host; got {each!r}")
        self.deciders = deciders
        """What is asked, in this order; all must allow the call."""
        # Once for all calls: a comparison with a protocol class looks at each of its members.
        self._asks = tuple(map(_find_confirmer, deciders))
        self.told = [find_method(each, "handed_over") for each in deciders]
        """What each wants to be told of the end of a call that it allowed: a method or nothing."""
        self._examiners = [each for each in deciders if isinstance(each, Examining)]
        self._behind, self._timeout = behind, timeout

    @property
    def confirmers(self) -> tuple[Confirmer | Confirming, ...]:
        """What is asked before each call, here or by the server itself."""
        return (*self.deciders, *(() if self._behind is None else (cast("Confirming", self._behind),)))

    def with_one_more(self, confirm: Confirmer | Confirming) -> Consent:
        """Return the consent to a call about which ``confirm`` is asked, too: first, unless it is asked anyway."""
        if _find_confirmer(confirm) in map(_find_confirmer, self.confirmers):
            return self
        return Consent((confirm, *self.deciders), self._timeout, self._behind)

    async def ask(self, params: CallToolRequestParams, origin: Origin, time: TimeLeft) -> ChangedCall | None:
        """Return if the call may be made, or what takes its place.

        Raises ``Rejected``, and nothing is sent, if the call was refused or the decision took too long.
        """
        changed = None
        for at, ask in enumerate(self._asks):
            # Not by ``count_time``, whose block costs each call three of its functions.
            before = CURRENT.set(time)
            try:
                deciding = ask(params, origin)
                allowed = await (deciding if self._timeout is None else self._in_time(params, deciding))
            finally:
                CURRENT.reset(before)
            if isinstance(allowed, ChangedCall):
                if allowed.params is None:
                    return allowed
                # All must allow the call that runs: the next deciders are asked about it, and the earlier ones again.
                params = allowed.params
                if origin.call is not None:
                    call = structs.replace(origin.call, arguments=allowed.decode_arguments())
                    origin = structs.replace(origin, call=call)
                if await Consent(self.deciders[:at], self._timeout).ask(params, origin, time) is not None:
                    raise Rejected(f"{params.name!r} was changed twice; call it again", data={"reason": "changed"})
                changed = structs.replace(allowed, note=f"{changed.note} {allowed.note}") if changed else allowed
            elif allowed is not True:
                raise Rejected(f"User rejected the call of {params.name!r}", data={"reason": "user"})
        return changed

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        """Return what is passed on of a result, after all deciders that look at results have seen it."""
        for each in self._examiners:
            result = await each.examine(result, params, origin)
        return result

    async def _in_time(self, params: CallToolRequestParams, deciding: Awaitable[Any]) -> Any:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await deciding
        except TimeoutError:
            if not limit.expired():
                raise
            raise Rejected(
                f"Nobody decided about the call of {params.name!r} in time", data={"reason": "expired"}
            ) from None


def usual_consent(confirm: Confirmer | Confirming | None, timeout: float | None, target: object) -> Consent:
    """Return the consent to all calls of a client of ``target``."""
    behind = target.confirmer if isinstance(target, ConfirmsItself) else None
    return Consent(() if confirm is None else (confirm,), timeout, behind)


def _find_confirmer(decider: Confirmer | Confirming) -> Confirmer:
    return decider.confirm if isinstance(decider, Confirming) else decider


T = TypeVar("T")

Follow = Callable[[CallToolRequestParams, CreateTaskResult], Awaitable[CallToolResult]]


class ToolCalls(Struct, eq=False):
    """The tool calls of one client.

    ``tools`` lists all tools within a time limit, and calls ``learn`` for each page. ``middleware`` is around each
    call, outside consent, so that a person agrees to what is sent.
    """

    link: ServerLink
    cache: Cache
    known: KnownTools
    consent: Consent
    tools: Callable[[TimeLeft | None], AsyncIterator[Tool]]
    middleware: ClientMiddlewareStack | None = None

    def learn(self, page: ListToolsResult) -> ListToolsResult:
        """Learn from a page of the list, and return it with the tools that can be used here."""
        usable = self.known.learn(page.tools, have_headers=self.link.is_http and self.link.calls.is_modern)
        return page if len(usable) == len(page.tools) else structs.replace(page, tools=usable)

    def call(
        self,
        how: Callable[..., CoroutineType[Any, Any, Any]],
        params: CallToolRequestParams,
        time: TimeLeft,
        progress: Callable[..., object] | None,
        meta: dict[str, Any] | None,
        *,
        follow: Follow | None = None,
        confirm: Confirmer | Confirming | None = None,
    ) -> Awaitable[Any]:
        """Make a call with ``how``, a method of ``Calls``, through the middleware and with consent. See ``make``.

        ``follow`` follows a call that becomes a task to its end, so that the middleware sees the result.
        Without ``follow`` the middleware sees the exception ``BecameTask``, and without middleware the caller
        does. ``confirm`` is asked about this call besides the usual deciders.
        """
        consent = self.consent
        if confirm is not None:
            consent = consent.with_one_more(confirm)
            self.known.keep_definitions()

        def send(params: CallToolRequestParams, meta: dict[str, Any] | None) -> Awaitable[Any]:
            def make(params: CallToolRequestParams = params) -> Awaitable[Any]:
                return self.link.run(
                    how, "tools/call", params, CallToolResult, timeout=time, progress=progress, meta=meta
                )

            return self.allowed(params, make, time, consent=consent)

        if self.middleware is None:
            return send(params, meta)

        def last(passed: ClientRequest) -> Awaitable[Any]:
            sent = send(passed.params, passed.meta)
            return sent if follow is None else self._follow_task(passed.params, sent, time, follow)

        return self.middleware.run(ClientRequest("tools/call", params, meta=meta), last)

    async def _follow_task(
        self, params: CallToolRequestParams, sent: Awaitable[Any], time: TimeLeft, follow: Follow
    ) -> CallToolResult:
        try:
            return await sent
        except BecameTask as became:
            task = became.task
        return await self.checked(params.name, await follow(params, task), time)

    def allowed(
        self,
        params: CallToolRequestParams,
        call: Callable[..., Awaitable[T]],
        time: TimeLeft,
        answer: Callable[[CallToolResult], Any] = lambda result: result,
        *,
        consent: Consent | None = None,
    ) -> Awaitable[T]:
        """Make a call once the deciders allow it (by default the client's own), with the params they may have changed.

        ``answer``: converts the result of a person to what the call returns. See ``make``.
        """
        consent = consent or self.consent
        if not consent.deciders:
            return self.make(params.name, call, time)
        return self._make_allowed_call(params, call, time, answer, consent)

    async def _make_allowed_call(
        self,
        params: CallToolRequestParams,
        call: Callable[..., Awaitable[T]],
        time: TimeLeft,
        answer: Callable[[CallToolResult], Any],
        consent: Consent,
    ) -> T:
        """Make a call once it is allowed, and tell who allowed it whether it reached the server. See ``make``.

        If this tool is not known yet, the tools are listed first, so that its description can be shown. Listing the
        tools uses up ``time``, deciding does not.
        """
        definition = self.known.definition(params.name)
        if definition is None and not self.known.knows(params.name):
            await self.known.look_up(params.name, lambda: self.tools(time))
            definition = self.known.definition(params.name)
        origin = self.link.calls.origin_of(params, definition)
        changed = await consent.ask(params, origin, time)
        if changed is not None and changed.params is None:
            return answer(changed.result or CallToolResult(content=[]))
        if changed is not None and changed.params is not None:
            params, call = changed.params, partial(call, changed.params)
        sent = self._report_ask(self.make(params.name, call, time), consent, origin)
        made = await pass_outcome(sent, partial(consent.examine, params=params, origin=origin))
        read: object = made.read if type(made) is Received else made
        if changed is None or not isinstance(read, CallToolResult):
            return made
        noted = changed.add_note(read)
        return cast("T", made.changed(noted) if type(made) is Received else noted)

    async def pass_later(
        self, params: CallToolRequestParams, confirm: Confirmer | Confirming | None, outcome: Awaitable[T]
    ) -> T:
        """Return what is passed on of a result, or of an error, that came later than the reply to its call."""
        consent = self.consent if confirm is None else self.consent.with_one_more(confirm)
        origin = self.link.calls.origin_of(params, self.known.definition(params.name))
        return await pass_outcome(outcome, partial(consent.examine, params=params, origin=origin))

    async def _report_ask(self, made: Awaitable[T], consent: Consent, origin: Origin) -> T:
        calls, why = self.link.calls, None
        try:
            return await made
        except ConnectionClosed:
            why = "closed"
            raise
        finally:
            # In every other case the call was sent: a deadline, or a caller that gives up, undoes nothing.
            for told in consent.told:
                calls.answers.report_to(told, origin, why)

    async def make(self, name: str, call: Callable[[], Awaitable[T]], time: TimeLeft) -> T:
        """Make a call, repeat it if headers were missing, and validate the structured content of its result.

        ``time``: what is left for all of this, including the call. Raises as ``checked`` does.
        """
        try:
            result = await call()
        except HeaderMismatch:
            # The tool wants arguments in headers that we do not know (any more): look the tool up, and
            # try once more.
            if not await self._look_up(name, time):
                raise
            result = await call()
        read: object = result.read if type(result) is Received else result
        if isinstance(read, CallToolResult) and read.structured_content is not None and not read.is_error:
            await self.checked(name, read, time)
        return result

    async def checked(self, name: str, result: CallToolResult, time: TimeLeft) -> CallToolResult:
        """Return a result; raises ``ResultInvalid`` if its structured content does not fit the tool's output schema."""
        if result.structured_content is not None and not result.is_error:
            try:
                await self.known.look_up(name, lambda: self.tools(time))
            except (PeerError, ConnectionClosed, RemoteProtocolError) as error:
                # The call was carried out, so its result must not be lost: whoever gets an error calls again.
                log.warning("the result of %r is not checked, since the tools cannot be listed: %s", name, error)
            await self.known.check_output(name, result.structured_content)
        return result

    async def _look_up(self, name: str, time: TimeLeft) -> bool:
        """List the tools again; return whether this one exists and may need headers."""
        if not self.link.is_http:
            return False
        self.cache.drop("tools/list")
        return name in [tool.name async for tool in self.tools(time)]
