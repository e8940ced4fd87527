"""Middleware of a client: functions around every request between it and the server, in both directions.

A request that the client makes passes through them on its way out, its result on the way back; an ask of the server
(sampling, elicitation, roots) passes through them before it is answered. They are called in the order they were given.
A call passes once, even if rounds or a lost connection make it several requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

from msgspec import Raw, Struct, structs

from antiphon.client.answers.answerers import find_ask_method, shape_answer
from antiphon.client.rounds.loop import PendingRound
from antiphon.errors import ConfigError
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode_wire
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Origin
from antiphon.wire.task import CreateTaskResult
from antiphon.wire.tools import CallToolRequestParams


class ClientRequest(Struct, eq=False):
    """A request between this client and its server.

    Args:
        method: name of the method, such as ``tools/call``.
        params: the decoded params, of the method's type in ``antiphon.types``.
        origin: who asks, and within which call, if the request was received; ``None`` if this client sends it.
        meta: further members of the ``_meta`` of a tool call; none by default.
    """

    method: str
    params: Any
    origin: Origin | None = None
    meta: dict[str, Any] | None = None

    @property
    def direction(self) -> Literal["sent", "received"]:
        """Who made the request: ``sent`` by this client, ``received`` from the server."""
        return "sent" if self.origin is None else "received"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``tools/call`` or ``prompts/get``; empty for other methods."""
        given = getattr(self.params, "arguments", None)
        if isinstance(given, Raw):
            given = decode_wire(given, dict[str, Any]) if given else None
        return dict(given or {})

    def replace(self, *, meta: dict[str, Any] | None = None, **members: Any) -> ClientRequest:
        """Return this request with other params, to pass on: ``request.replace(arguments={...})``.

        Args:
            meta: for a tool call: further members of its ``_meta``, in place of those it has.
            members: the members of ``params`` to change.

        Raises:
            TypeError: the params have no such member.
        """
        if isinstance(self.params, CallToolRequestParams) and "arguments" in members:
            members["arguments"] = CallToolRequestParams.of("", members["arguments"]).arguments
        params = structs.replace(self.params, **members) if members else self.params
        return ClientRequest(self.method, params, origin=self.origin, meta=self.meta if meta is None else meta)


ClientNext = Callable[[ClientRequest], Awaitable[Any]]
"""Passes a request to the next middleware, or to where it is sent or answered. Returns the result."""

ClientMiddleware = Callable[[ClientRequest, ClientNext], Awaitable[Any]]
"""``async (request, call_next) -> result``. The result has the method's result type in ``antiphon.types``."""


class ClientMiddlewareStack:
    """The middleware of one client, in the order in which it was given.

    Raises ``ConfigError``: one of them cannot be called.
    """

    def __init__(self, functions: Sequence[ClientMiddleware]) -> None:
        given = cast("object", functions)
        if not isinstance(given, list | tuple):
            raise ConfigError(f"Client(middleware=) is a list, as in middleware=[function], not {given!r}")
        for function in functions:
            if not callable(function):
                raise ConfigError(
                    f"Client(middleware=) holds functions, async (request, call_next) -> result, not {function!r}"
                )
        self._functions = tuple(functions)

    async def run(self, request: ClientRequest, last: ClientNext) -> Any:
        """Pass a request through all functions to ``last``; return the result.

        Raises ``TypeError``, which names the function, if one returned something that is no result of the
        method.
        """
        step = last
        for function in reversed(self._functions):
            step = partial(_pass_request, function, step)
        return await step(request)

    async def answered(self, params: Wire, origin: Origin, answer: Callable[[Wire], Awaitable[Wire]]) -> Wire:
        """Pass an ask of the server through all functions to ``answer``; return the answer."""
        request = ClientRequest(find_ask_method(params), params, origin=origin)
        return await self.run(request, lambda passed: answer(passed.params))


async def _pass_request(function: ClientMiddleware, step: ClientNext, request: ClientRequest) -> Any:
    result: object = await function(request, step)
    spec = METHODS.get(request.method)
    expected = None if spec is None else spec.result
    # A call by hand ends with its first round, if there is one.
    if expected is None or isinstance(result, expected | PendingRound | CreateTaskResult):
        return cast("object", result)
    if request.direction == "received":
        # Middleware may answer an ask as briefly as an answerer may.
        return shape_answer(request.method, result)
    # A subscription has no result before its end.
    if result is None and request.method == "subscriptions/listen":
        return None
    name = getattr(function, "__qualname__", repr(function))
    raise TypeError(
        f"the middleware {name} returned {type(result).__name__} for {request.method}: return what call_next returned, "
        f"or a {expected.__name__}"
    )
