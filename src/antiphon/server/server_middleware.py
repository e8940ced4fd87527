"""Middleware: functions around every request that a server serves, each able to change, answer or refuse it.

They are called in the order they were added. A call that asks the client (2026-07-28 basic/patterns/mrtr) passes each
of them once, from the first request to the result, even if its rounds take several requests. What the session answers
by itself (the handshake, ``ping``, ``server/discover``) passes no middleware.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Raw, ValidationError, structs

from antiphon.errors import ConfigError, InvalidParams, NotInRevision
from antiphon.json_schema.validator import describe_mismatch
from antiphon.server.calls.call import HandlerCall
from antiphon.server.context import Context
from antiphon.server.core import Core
from antiphon.server.functions.function import digest_code
from antiphon.wire.common import LoggingLevel, Wire
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lossless import Received, passed_on
from antiphon.wire.methods import METHODS, unknown_notification
from antiphon.wire.task import CreateTaskResult
from antiphon.wire.tools import CallToolRequestParams, Tool

MAX_REPEATED = 2
"""Most revisions for which one result is kept encoded; the clients of one server usually speak one or two."""


class ServerRequest:
    """A request on its way to its handler.

    Attributes: ``method``: name of the method, such as ``tools/call``; ``params``: the decoded params, of the method's
    type in ``antiphon.types``; ``ctx``: the context of the request: who the client is (``ctx.request``), logging,
    progress, and all asks.
    """

    __slots__ = ("_call", "_core", "ctx", "method", "params")

    def __init__(self, method: str, params: Any, call: HandlerCall, core: Core | None = None) -> None:
        self.method = method
        self.params = params
        self.ctx = Context(call, core)
        self._call = call
        self._core = core

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``tools/call`` or ``prompts/get``, not validated yet; empty for other methods.

        Raises ``InvalidParams`` if they are no object.
        """
        given = getattr(self.params, "arguments", None)
        if isinstance(given, Raw):
            try:
                given = decode_wire(given, dict[str, Any]) if given else None
            except ValidationError as error:
                raise InvalidParams(f"arguments: {describe_mismatch(error).problem}") from None
        return dict(given or {})

    def replace(self, **members: Any) -> ServerRequest:
        """Return this request with other params, to pass on: ``request.replace(arguments={...}, name="other")``.

        Args:
            members: the members of ``params`` to change.

        Raises:
            TypeError: the params have no such member.
        """
        if isinstance(self.params, CallToolRequestParams) and "arguments" in members:
            members["arguments"] = CallToolRequestParams.of("", members["arguments"]).arguments
        return ServerRequest(self.method, structs.replace(self.params, **members), self._call, self._core)

    @property
    def received(self) -> Received:
        """The params as the client sent them, including members that their type lacks.

        What belongs to the client's connection (progress token, ``io.modelcontextprotocol/*``) and to its rounds is
        left out.
        """
        facts = self._call.facts
        if facts.method.name != self.method:
            return Received(Raw(encode_value(self.params)), self.params)
        of_rounds = _OF_ROUNDS if facts.method.rounds else ()
        raw = passed_on(facts.raw, without=of_rounds, read=facts.params)
        return Received(raw, facts.params if facts.sent is None else facts.sent)

    async def serve_other(self, method: str, params: Any, call_next: CallNext) -> Any:
        """Have a request of another method served for the same caller, and return its result.

        Args:
            method: name of the method: a list, ``resources/read`` or ``prompts/get``.
            params: the method's params in ``antiphon.types``.
            call_next: the middleware's own.
        """
        result = await call_next(ServerRequest(method, params, self._call, self._core))
        # What a relayed result has besides its type belongs to that result alone.
        self._call.facts.original = None
        return result

    def find_tool(self, name: str) -> Tool | None:
        """Return the definition of a tool that the caller may see, also of a mounted server; ``None`` if there is none.

        Args:
            name: as the caller knows it.
        """
        return (self._core or self._call.core).definition_of(name, self.ctx.request.principal)

    @property
    def feature(self) -> Any:
        """The tool, prompt, resource or template that is requested, if the caller may see it; else ``None``."""
        core = self._core or self._call.core
        if self.method == "resources/read":
            found: Any = core.resource(self.params.uri)
        else:
            registry: Any = {"tools/call": core.features.tools, "prompts/get": core.features.prompts}.get(self.method)
            found = None if registry is None else registry.get(self.params.name)
        return None if found is None or found.is_hidden_from(self.ctx.request.principal) else found

    @property
    def failure(self) -> type[Exception] | None:
        """The class of the exception that the tool raised, if it did; its result may say less."""
        return self._call.failure

    @property
    def has_asked(self) -> bool:
        """Whether the client was asked for something since the call began."""
        return self._call.has_asked

    @property
    def client(self) -> object:
        """Identifies the client's connection: the same for all its requests."""
        return self._call.connection

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the client wants now; ``None`` if it has not said so."""
        facts = self._call.facts
        if facts.revision.modern:
            return facts.meta.log_level if facts.meta is not None else None
        return self._call.connection.session.log_level

    @property
    def is_modern(self) -> bool:
        """Whether the client speaks a revision without a handshake (2026-07-28)."""
        return self._call.facts.revision.modern

    async def log(self, message: Received) -> None:
        """Send the client a log message of another server, if it wants messages of this level.

        Args:
            message: the params of ``notifications/message`` as they came.
        """
        call = self._call
        if call.request is not None:
            await call.send(call.connection.session.log(message.read, call.request, message))

    async def notify(self, method: str, params: Received) -> None:
        """Send the client a notification of another server that belongs to this request.

        Nothing is sent if the client's revision has no such notification, or the request has ended.

        Args:
            method: name of the method; one that no revision has is sent as it is.
            params: the other server's params.
        """
        call = self._call
        if call.request is not None:
            spec = METHODS.get(method) or unknown_notification(method)
            with suppress(NotInRevision):
                await call.send(call.connection.session.notify(spec, params.read, call.request, params))

    def pass_on(self, result: Received) -> Any:
        """Return the result of another server, decoded, for middleware that relays.

        Its members that this library does not know are sent to the client, too, even if other middleware changes the
        returned value.

        Args:
            result: the result, decoded and as it came.
        """
        self._call.facts.original = result
        return result.read

    def grant_tasks(self, tasks: Mapping[str, Received]) -> None:
        """Let the client listen to tasks of another server, for middleware that relays ``subscriptions/listen``.

        Report their changes by ``Server.task_changed``.

        Args:
            tasks: the requested tasks that the client may see: the present state of each, by the client's id for it.
        """
        self._call.facts.tasks = tasks

    def repeat(self, encoded: MutableMapping[str, Received], result: Callable[[], Wire | Received]) -> Any:
        """Return a result that is the same for many requests, encoded once for each revision.

        Args:
            encoded: the results by the names of revisions, filled here; at most ``MAX_REPEATED`` are kept.
            result: a function that makes the result if it is missing; with its JSON if that has members which its type
                lacks.
        """
        revision = self._call.facts.revision
        known = encoded.get(revision.name)
        if known is None:
            made = result()
            while len(encoded) >= MAX_REPEATED:
                del encoded[next(iter(encoded))]
            read = made.read if isinstance(made, Received) else made
            lowered = revision.lower(read)
            raw = made.carrying(lowered) if isinstance(made, Received) else Raw(encode_value(lowered))
            known = Received(raw, read, lowered_for=revision.name)
            encoded[revision.name] = known
        return self.pass_on(known)

    async def forward(self, method: str, ask: Received, *, key: str | None = None) -> Received:
        """Pass on an ask of another server to the client, with all members, known or not.

        Args:
            method: ``sampling/createMessage``, ``elicitation/create`` or ``roots/list``; or one that no revision has,
                for a client up to 2025-11-25.
            ask: the other server's params.
            key: the other server's name of the ask in a round (2026-07-28); none by default.

        Returns:
            The client's answer.

        Raises what ``ask`` raises.
        """
        return await self._call.forward(method, ask, key=key)

    async def ask(self, method: str, params: Wire) -> Any:
        """Ask the client with these params, for middleware that relays; others use ``ctx.sample`` and the like.

        Args:
            method: ``sampling/createMessage``, ``elicitation/create`` or ``roots/list``.
            params: the method's params in ``antiphon.types``.

        Returns:
            The method's result in ``antiphon.types``.

        Raises:
            MissingCapability: the client does not offer this; nothing was sent.
            NotInRevision: the client's revision cannot carry it; nothing was sent.
            Rejected: the user, a policy or a limit of the client said no.
            PeerError: the client answered with another error.
        """
        return await self._call.ask(method, params, METHODS[method].result or Wire)


_OF_ROUNDS = ("inputResponses", "requestState")
"""Members of params that belong to the rounds of one connection."""

CallNext = Callable[[ServerRequest], Awaitable[Any]]
"""Passes a request to the next middleware, or to the handler. Returns the result."""

Middleware = Callable[[ServerRequest, CallNext], Awaitable[Any]]
"""``async (request, call_next) -> result``. The result has the method's result type in ``antiphon.types``."""


class ServerMiddlewareStack:
    """The middleware of one server, in the order in which it was added."""

    def __init__(self) -> None:
        self._functions: list[Middleware] = []
        self._finders: list[Callable[[CallToolRequestParams], CallToolRequestParams]] = []

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, function: Middleware) -> None:
        """Add a function after all others; raises ``ConfigError`` if it cannot be called."""
        if not callable(function):
            raise ConfigError(f"middleware is a function, async (request, call_next) -> result, not {function!r}")
        self._functions.append(function)
        # Once for all calls: to find out that a function has no such attribute takes long.
        self._finders += filter(None, [getattr(function, "find_called", None)])

    def code(self) -> bytes:
        """Return a digest of the code: calls that began before the code changed do not continue after it."""
        return b"".join(digest_code(function) for function in self._functions)

    def find_called(self, params: CallToolRequestParams) -> CallToolRequestParams:
        """Return the call that these params lead to, as far as middleware knows before it runs."""
        for find in self._finders:
            params = find(params)
        return params

    async def run(self, request: ServerRequest, handler: CallNext) -> Any:
        """Pass a request through all functions to its handler; ``TypeError`` names one that returned no result."""
        # No function here refers to itself: each call would be garbage that only the collector finds.
        for function in reversed(self._functions):
            handler = partial(_call_function, function, handler)
        return await handler(request)


_ALSO_RETURNED = {"subscriptions/listen": type(None), "tools/call": CreateTaskResult}
"""A subscription has no result before its end. A call that goes on as a task has a handle as its result."""


async def _call_function(function: Middleware, call_next: CallNext, request: ServerRequest) -> Any:
    result = await function(request, call_next)
    method = request.method
    row = METHODS.get(method)
    expected = row.result if row is not None else Wire
    if expected is None or isinstance(result, (expected, _ALSO_RETURNED.get(method, expected))):
        return result
    name = getattr(function, "__qualname__", repr(function))
    raise TypeError(
        f"the middleware {name} returned {type(result).__name__} for {method}: return what call_next returned, "
        f"or a {expected.__name__}"
    )
