"""``Context``, what a handler receives: asks to the client, messages to it, and facts about the request.

A ``Context`` belongs to one call and holds no state of its own. Tools, resources, prompts and completers can all take
one. ``PerCaller`` keeps the state of each caller that outlives a call.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, Unpack, cast, get_type_hints, overload
from weakref import WeakKeyDictionary

import msgspec

from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.json_schema.validator import MismatchError
from antiphon.machine.other_frameworks import check_options, explain_other_names
from antiphon.server.asks.sample import DEFAULT_MAX_TOKENS, Messages, Preferences, Sample, sampling_params
from antiphon.server.asks.tool_loop import (
    MAX_STEPS,
    TOOL_CONCURRENCY,
    SampleOptions,
    SamplingTool,
    Toolbox,
    TurnOptions,
    Turns,
)
from antiphon.server.calls.call import HandlerCall
from antiphon.server.core import Core
from antiphon.server.decorators import Features
from antiphon.server.functions.shape import Adapter, adapt_type, decode_with, encode_value
from antiphon.wire.common import LOGGING_LEVELS, ClientCapabilities, Implementation, LoggingLevel, RequestParams
from antiphon.wire.envelope import RequestId
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import IncludeContext, ToolChoice

if TYPE_CHECKING:
    from antiphon.protocol.events import Request
    from antiphon.server.asks.elicitations import Elicited
    from antiphon.wire.resources import ReadResourceResult

S = TypeVar("S")

_KEY = "idempotency_key"


def _decode_value(name: str, function: Callable[..., Any], data: bytes) -> Any:
    called = function if hasattr(function, "__annotations__") else type(function).__call__
    annotation: Any = Any
    # An annotation that only a type checker can resolve is ignored here.
    with contextlib.suppress(NameError, TypeError):
        annotation = get_type_hints(called, include_extras=True).get("return", Any)
    kind = adapt_type(annotation, f"The step {name!r}")
    try:
        return kind.decode(data) if isinstance(kind, Adapter) else decode_with(msgspec.json.Decoder(kind).decode, data)
    except (MismatchError, TypeError) as error:
        raise ConfigError(f"The step {name!r} returned something else than its annotation says: {error}") from None


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    StateT = TypeVarWithDefault("StateT", default=Any)

    class _WithState(Generic[StateT]):
        pass

else:
    StateT = TypeVar("StateT")

    class _WithState:
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


@explain_other_names
class Context(_WithState[StateT]):
    """The client, as seen from one call. Declare a parameter of this type, and the context is passed in.

    ``Context[AppState]`` tells type checkers what the lifespan yields.
    """

    __slots__ = ("_call", "_core", "_request")
    __antiphon_context__ = True
    """``signature`` recognises the parameter to fill in by this attribute."""

    def __init__(self, call: HandlerCall, core: Core | None = None) -> None:
        self._call = call
        self._core = call.core if core is None else core
        """The server whose handler runs; ``call.core`` may be the server on which that one is mounted."""
        self._request: RequestFacts | None = None

    @property
    def server(self) -> Features:
        """The server this handler belongs to."""
        return self._core.features

    @property
    def request(self) -> RequestFacts:
        """Facts about the request being served: revision, client, capabilities, principal, ``_meta``."""
        if self._request is None:
            self._request = RequestFacts(self._call)
        return self._request

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded, of the type in ``Context[...]``; ``None`` if it has no lifespan."""
        return self._core.state

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the request. The handler's task is cancelled as well."""
        return self._call.facts.cancelled

    # --- asks ---------------------------------------------------------------------------------------------------

    @overload
    async def sample(
        self, messages: Messages, *, result_type: None = None, max_steps: int = ..., **options: Unpack[SampleOptions]
    ) -> Sample[None]: ...
    @overload
    async def sample(
        self, messages: Messages, *, result_type: type[S], max_steps: int = ..., **options: Unpack[SampleOptions]
    ) -> Sample[S]: ...
    @overload
    async def sample(
        self, messages: Messages, *, result_type: object, max_steps: int = ..., **options: Unpack[SampleOptions]
    ) -> Sample[Any]: ...
    async def sample(
        self,
        messages: Messages,
        *,
        system_prompt: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: Preferences | None = None,
        include_context: IncludeContext | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[SamplingTool] | None = None,
        tool_choice: str | ToolChoice | None = None,
        tool_concurrency: int = TOOL_CONCURRENCY,
        result_type: Any = None,
        max_steps: int = MAX_STEPS,
        fallback: bool = True,
        key: str | None = None,
        timeout: float | None = None,
        **_unknown: Never,
    ) -> Sample[Any]:
        """Ask the client's model for a completion, with its user in control.

        Source: client/sampling of every revision; deprecated since 2026-07-28, and fully supported.

        Args:
            messages: text, a block of content, a message, or a list of these, the oldest first. Text and blocks become
                messages of the user.
            system_prompt: instructions for the model, which the client may change.
            max_tokens: most tokens the model may generate in one turn; 1,024 by default.
            temperature: randomness, as the client's model understands it; by default the client chooses.
            stop_sequences: texts at which the model stops.
            model_preferences: a model's name; several, the preferred first; priorities from 0 to 1 as in ``{"cost":
                0.3, "speed": 0.8, "hints": ["sonnet"]}``; or ``ModelPreferences``. The client decides.
            include_context: ask the client to add context of its other conversations: ``"thisServer"`` or
                ``"allServers"``.
            metadata: passed to the provider, in the provider's own format.
            tools: functions, plain or async, that are run for the model until it answers or ``max_steps`` turns are
                over; schemas come from their signatures, and a parameter of type ``Context`` receives this context. Or
                definitions (``Tool``): then there is one turn, and what the model wants to call is in ``tool_uses``.
            tool_choice: ``"auto"``, ``"required"`` or ``"none"``; ``"required"`` applies to the first turn only.
            tool_concurrency: most functions that run at the same time; 8 by default.
            result_type: type of ``Sample.value``: a dataclass, msgspec Struct, TypedDict, pydantic model, or a plain
                type such as ``list[str]`` or a ``Literal``. The model is asked for JSON, and asked once more if its
                answer does not fit.
            max_steps: most turns with the model, 10 by default; in the last one it is offered no tools.
            fallback: let ``Server(sampling_fallback=...)`` answer if the client has no sampling; ``Sample.by`` tells
                who did.
            key: name of the ask on the wire, with a number from the second turn on; by default the server makes one.
            timeout: seconds for each turn; no limit by default, since a person may have to decide.

        Raises:
            SamplingUnavailable: the client offers no sampling (or none with tools); nothing was sent.
            NotInRevision: the client's revision lacks something (tools, audio, several blocks); nothing was sent.
            LocalProtocolError: an argument or the conversation breaks a rule; the message names the place; nothing was
                sent.
            Rejected: the user, a policy or a limit of the client refused.
            SamplingFailed: the answer does not fit ``result_type``, or the model never stopped using tools.
            CallTimeout: no answer came within ``timeout``.
        """
        if _unknown:
            check_options("ctx.sample()", _unknown, self.sample)
        toolbox = Toolbox(tools, self, tool_concurrency) if tools else None
        params = sampling_params(
            messages,
            system_prompt=system_prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
            include_context=include_context,
            metadata=metadata,
            tools=toolbox.definitions if toolbox is not None else None,
            tool_choice=tool_choice,
        )
        turns = Turns(self._call, self._core, fallback=fallback, key=key, timeout=timeout)
        return await turns.complete(params, toolbox, max_steps, result_type)

    async def sample_step(
        self, messages: Messages, *, execute_tools: bool = True, **options: Unpack[SampleOptions]
    ) -> Sample[None]:
        """Have one turn with the model, for a loop of your own.

        If the model uses ``tools`` that are functions, they are run, and ``messages`` of the result ends with their
        results; call again with these until ``tool_uses`` is empty.

        Args:
            messages: the conversation, as for ``sample``.
            execute_tools: run tools that are functions; if false, run them yourself and continue with ``with_results``.
            options: the other arguments of ``sample``.

        Raises:
            What ``sample`` raises.
        """
        tools = options.pop("tools", None)
        concurrency = options.pop("tool_concurrency", TOOL_CONCURRENCY)
        toolbox = Toolbox(tools, self, concurrency) if tools else None
        turns = Turns(
            self._call,
            self._core,
            fallback=options.pop("fallback", True),
            key=options.pop("key", None),
            timeout=options.pop("timeout", None),
        )
        # The remaining options are those of the request itself.
        request = cast("TurnOptions", options)
        params = sampling_params(messages, tools=toolbox.definitions if toolbox is not None else None, **request)
        turn = await turns.ask(params)
        if toolbox is None or not toolbox.runs or not turn.uses or not execute_tools:
            return turns.sample(turn)
        following = await turns.serve(turn, toolbox)
        return turns.sample(turn, messages=following.messages)

    @overload
    async def elicit(
        self, message: str, form: type[S], *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[S]: ...
    @overload
    async def elicit(
        self, message: str, form: Mapping[str, Any], *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[dict[str, Any]]: ...
    @overload
    async def elicit(
        self, message: str, form: object, *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[Any]: ...
    async def elicit(
        self,
        message: str,
        form: object = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
        **_unknown: Never,
    ) -> Elicited[Any]:
        """Ask the user to fill in a form (client/elicitation, from 2025-06-18).

        Args:
            message: what is asked and why, for the user.
            form: type of ``Elicited.value``: a dataclass, msgspec Struct, TypedDict or pydantic model with flat members
                (strings, numbers, booleans, enums), or the type of one such member (``bool``, ``Literal["red",
                "blue"]``); or a JSON Schema of that kind, for a plain ``dict``.
            key: name of the ask on the wire; by default the server makes one.
            timeout: seconds to wait for the answer; no limit by default.

        Returns:
            What the user did; ``value`` is ``None`` unless the form was accepted.

        Raises:
            ElicitationUnavailable: the client offers no forms; nothing was sent.
            CallTimeout: no answer came within ``timeout``.
        """
        if _unknown:
            check_options("ctx.elicit()", _unknown, self.elicit)
        from antiphon.server.asks.elicitations import elicit_form

        return await elicit_form(self._call, message, form, key=key, timeout=timeout)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[None]:
        """Ask the user to visit an address, for what must not pass through the client (from 2025-11-25).

        Args:
            message: what the visit is for, for the user.
            url: address to visit.
            key: name of the ask on the wire; by default the server makes one.
            timeout: seconds to wait for the answer; no limit by default.

        Raises:
            ElicitationUnavailable: the client does not offer this; nothing was sent.
            CallTimeout: no answer came within ``timeout``.
        """
        from antiphon.server.asks.elicitations import elicit_visit

        return await elicit_visit(self._call, message, url, key=key, timeout=timeout)

    async def list_roots(self, *, key: str | None = None, timeout: float | None = None) -> Sequence[Root]:
        """Ask the client for the folders it lets the server work in (client/roots).

        Args:
            key: name of the ask on the wire; by default the server makes one.
            timeout: seconds to wait for the answer; no limit by default.

        Raises:
            MissingCapability: the client offers no roots; nothing was sent.
            CallTimeout: no answer came within ``timeout``.
        """
        return (await self._call.ask("roots/list", RequestParams(), ListRootsResult, key=key, timeout=timeout)).roots

    # --- side effects -------------------------------------------------------------------------------------------

    @overload
    async def step(self, name: str, function: Callable[..., Awaitable[S]], *, secret: bool = False) -> S: ...
    @overload
    async def step(self, name: str, function: Callable[..., S], *, secret: bool = False) -> S: ...
    async def step(self, name: str, function: Callable[..., Any], *, secret: bool = False) -> Any:
        """Do something that must happen only once, and return its result: place an order, send a mail, read the time.

        If a call may continue in another process (``Server(keys=...)``), its handler runs there again from the start. A
        completed step is then not repeated: its recorded result is returned. Read what changes (time, files) in a step
        as well if a later ask depends on it. In all other cases the function is simply called.

        A step that fails is not recorded, so a replay tries it again; so does one whose process died before the step
        ended. Without ``Server(state_store=...)`` a completed step is recorded only by the next message to the client,
        and is repeated if the process dies before that.

        Args:
            name: name of the step, for the record of the call and error messages.
            function: a function, plain or async, without arguments or with one named ``idempotency_key``: a string that
                is the same for every attempt at this step. JSON must be able to carry the result, which is converted to
                the return annotation in the first run as well as in a replay.
            secret: never compress the result together with other data, so that the length of the state reveals nothing.

        Raises:
            CallAbandoned: this copy of the call has ended; another process may have continued it.
            ConfigError: JSON cannot carry the result.
            LocalProtocolError: it is taken on another event loop, with ``asyncio.run``.
        """
        if not callable(function):
            raise ConfigError(
                f"The step {name!r} was given a {type(function).__name__}: give the function itself, and not what its "
                f"call returns, as in ctx.step({name!r}, send_mail)"
            )
        if self._call.is_elsewhere:
            raise LocalProtocolError(f"The step {name!r} is taken with asyncio.run: make the tool async")

        async def work(key: str) -> bytes:
            wants_key = False
            # Functions written in C may have no signature.
            with contextlib.suppress(ValueError):
                wants_key = _KEY in inspect.signature(function).parameters
            value = function(**{_KEY: key}) if wants_key else function()
            if inspect.isawaitable(value):
                value = await value
            try:
                return encode_value(value)
            except (TypeError, ValueError, msgspec.MsgspecError) as error:
                raise ConfigError(f"The step {name!r} returned what JSON cannot carry: {error}") from None

        return _decode_value(name, function, await self._call.step(name, work, secret=secret))

    async def go_on_as_task(self, *, required: bool = False) -> bool:
        """Let the call go on as a task: the client gets a handle now, and the handler goes on without the request.

        For a tool with ``task="later"``: ask what must be known first, then call this. The handler is run once more
        from its start, as a task: answered asks and completed steps return their earlier results, and this method
        returns ``True``. Await every ask and step before you call it.

        Args:
            required: refuse clients that do not declare the extension, instead of going on without a task.

        Returns:
            Whether the handler runs as a task now; ``False`` if the client does not declare the extension.

        Raises:
            MissingCapability: the client does not declare the extension, and ``required`` says that it must.
            LocalProtocolError: the tool is not declared with ``task="later"``, or an ask or a step has not ended.
            InvalidRequest: there are too many tasks.
        """
        return await self._call.go_on_as_task(required=required)

    # --- messages to the client ---------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress. Sent if the client asked for reports and the value has increased.

        Args:
            progress: how much is done, in any unit.
            total: how much there is to do, in the same unit, if known.
            message: what is being done, for the user.
        """
        await self._call.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None, **_unknown: Never) -> None:
        """Send a log message to the client, if it wants messages of this level (server/utilities/logging).

        Args:
            level: severity, from ``"debug"`` to ``"emergency"``.
            data: a string, or anything that JSON can carry.
            logger: name of what logs; by default the server's name.

        Raises:
            LocalProtocolError: there is no such level.
        """
        if _unknown:
            check_options("ctx.log()", _unknown, self.log)
        if level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"log: there is no level {level!r}; the levels are {', '.join(LOGGING_LEVELS)}")
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger or self._core.name)
        request = self._call.request
        if request is not None:
            await self._call.send(self._call.connection.session.log(params, request))

    async def debug(self, data: Any, **_unknown: Never) -> None:
        """Log at level ``debug``.

        Args:
            data: a string, or anything that JSON can carry.
        """
        await self.log("debug", data, **_unknown)

    async def info(self, data: Any, **_unknown: Never) -> None:
        """Log at level ``info``.

        Args:
            data: a string, or anything that JSON can carry.
        """
        await self.log("info", data, **_unknown)

    async def warning(self, data: Any, **_unknown: Never) -> None:
        """Log at level ``warning``.

        Args:
            data: a string, or anything that JSON can carry.
        """
        await self.log("warning", data, **_unknown)

    async def error(self, data: Any, **_unknown: Never) -> None:
        """Log at level ``error``.

        Args:
            data: a string, or anything that JSON can carry.
        """
        await self.log("error", data, **_unknown)

    def close_stream(self) -> None:
        """Close the HTTP response of the request; the call continues, and the client reconnects for the rest.

        For long calls of legacy clients that can resume a stream; in all other cases it does nothing. Source:
        2025-11-25 basic/transports, "Sending Messages to the Server".
        """
        self._call.close_stream()

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read one of this server's own resources.

        Args:
            uri: URI of the resource.

        Raises:
            ResourceNotFound: there is no resource with this URI.
        """
        owner, resource = self._core.owner_of(uri)
        return await resource.read(uri, self if owner is self._core else Context(self._call, owner))


class _InfoMeta(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


_read_meta = msgspec.json.Decoder(_InfoMeta).decode


class RequestFacts:
    """The request being served, or between rounds the last one.

    Only ``principal``, ``scopes`` and ``claims`` are verified.
    """

    __slots__ = ("_call", "_meta", "_read")

    def __init__(self, call: HandlerCall) -> None:
        self._call = call
        self._read: Request | None = None
        """The request whose ``_meta`` was read."""

    @property
    def id(self) -> RequestId:
        """The request's JSON-RPC id."""
        return self._call.facts.id

    @property
    def method(self) -> str:
        """The method, such as ``tools/call``."""
        return self._call.facts.method.name

    @property
    def revision(self) -> str:
        """The protocol revision the request speaks."""
        return self._call.facts.revision.name

    @property
    def client(self) -> Implementation | None:
        """Name and version that the client declares."""
        facts, handshake = self._call.facts, self._call.connection.session.client
        if facts.meta is not None and facts.meta.client_info is not None:
            return facts.meta.client_info
        return handshake.client_info if handshake is not None else None

    @property
    def connection(self) -> object:
        """Identifies the client's connection: the same for all its requests, unless they come over HTTP statelessly."""
        return self._call.connection

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that the client declares: sampling, elicitation, roots."""
        return self._call.facts.capabilities or ClientCapabilities()

    @property
    def principal(self) -> str | None:
        """The client's verified principal; ``None`` if the transport does not authenticate."""
        return self._call.connection.principal

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the client's token, as its issuer names them; empty without tokens."""
        caller = self._call.facts.caller
        return caller.scopes if caller is not None else frozenset()

    @property
    def claims(self) -> Mapping[str, Any]:
        """What else the client's token says (``sub``, ``iss``, ``client_id`` ...); empty without tokens."""
        caller = self._call.facts.caller
        return caller.claims if caller is not None else {}

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers of the request, by lower-case name; empty over other transports."""
        return self._call.headers

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta`` as received, including keys that this library does not know."""
        facts = self._call.facts
        if self._read is not facts:
            self._read, self._meta = facts, _read_meta(facts.raw or b"{}").meta
        return self._meta


class PerCaller(Generic[S]):
    """Keep one object for each caller: ``basket: Annotated[list[str], Depends(PerCaller(list))]``.

    A caller is a principal, on whatever connection. One without a principal is its connection, and its object ends with
    the connection; so at 2026-07-28 over HTTP, where no request belongs to another, it has a new object each time.

    Args:
        make: makes the object of a new caller.
        max_callers: most principals with an object, 10,000 by default; then the object that was not used for the
            longest time is dropped.
    """

    def __init__(self, make: Callable[[], S], *, max_callers: int = 10_000) -> None:
        if max_callers < 1:
            raise ConfigError(f"PerCaller(max_callers=) must be at least 1, got {max_callers}")

        def make_for(_principal: str) -> S:
            return make()

        self._make = make
        self._of_principal = lru_cache(max_callers)(make_for)
        self._by_connection: WeakKeyDictionary[object, S] = WeakKeyDictionary()
        self._lock = Lock()

    def __call__(self, ctx: Context) -> S:
        """Return the object of the caller.

        Args:
            ctx: the context of the call.
        """
        # Dependencies run in threads, so two calls of a new caller may arrive here together.
        with self._lock:
            principal, connection = ctx.request.principal, ctx.request.connection
            if principal is not None:
                return self._of_principal(principal)
            if connection not in self._by_connection:
                self._by_connection[connection] = self._make()
            return self._by_connection[connection]
