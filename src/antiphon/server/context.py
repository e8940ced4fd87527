"""What a handler receives: the way back to the client, and the facts of the request it serves.

A ``Context`` belongs to one call and holds nothing of its own; it works in tools, resources, prompts and completers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from antiphon.errors import LocalProtocolError
from antiphon.server.asks.ask import ask
from antiphon.server.asks.elicitation import Elicited, elicit_form, elicit_visit
from antiphon.server.asks.sample import Sample
from antiphon.server.asks.sampling_params import DEFAULT_MAX_TOKENS, Messages, Preferences, sampling_params
from antiphon.server.asks.tool_loop import MAX_STEPS, SampleOptions, Turns, one_step
from antiphon.server.asks.toolbox import TOOL_CONCURRENCY, SamplingTool, Toolbox
from antiphon.server.calls.call import Call
from antiphon.server.calls.steps import take_step
from antiphon.server.decorators import Features
from antiphon.server.request_info import RequestFacts
from antiphon.wire.common import LOGGING_LEVELS, LoggingLevel, RequestParams
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import IncludeContext, ToolChoice

if TYPE_CHECKING:
    from antiphon.wire.resources import ReadResourceResult

__all__ = ["Context"]

S = TypeVar("S")


class Context:
    """The client, as seen from one call. Declare a parameter of this type, and it is passed in."""

    __slots__ = ("_call",)
    __antiphon_context__ = True
    """Marks the parameter that ``signature`` fills in."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def server(self) -> Features:
        """The server this handler belongs to."""
        return self._call.core.features

    @property
    def request(self) -> RequestFacts:
        """Facts of the request that is live now: revision, client, capabilities, principal, ``_meta``."""
        return RequestFacts(self._call)

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; ``None`` without one."""
        return self._call.core.state

    @property
    def cancelled(self) -> bool:
        """Whether the client has withdrawn the request. The handler's task is cancelled as well."""
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
    ) -> Sample[Any]:
        """Ask the client's model for a completion, with its user in control.

        ``messages``: text, a block of content, a message, or a list of these, the oldest first; text and blocks are
        the user's. ``model_preferences``: a model's name, several in order of preference, priorities from 0 to 1 as in
        ``{"cost": 0.3, "speed": 0.8, "hints": ["sonnet"]}``, or ``ModelPreferences``; the client decides.

        ``tools``: functions, plain or async, which are run for the model, ``tool_concurrency`` at once, until it has
        what it needs or ``max_steps`` turns are over; in the last one it may use none. Their schemas come from their
        signatures, and a parameter of type ``Context`` gets this context. Or definitions (``Tool``): then this is one
        turn, and what the model wants comes back in ``tool_uses``. ``tool_choice="required"`` holds for the first turn.

        ``result_type``: a dataclass, msgspec Struct, TypedDict, pydantic model or plain type such as ``list[str]`` or a
        ``Literal``, of which ``value`` will be: the model is asked for JSON, and once more if that does not fit.

        ``fallback``: whether ``Server(sampling_fallback=...)`` answers if the client cannot; ``Sample.by`` tells.
        ``key``: a name for the ask on the wire, numbered from the second turn on. ``timeout``: seconds for each turn;
        by default a person may take their time.

        Source: client/sampling of every revision; deprecated, and fully supported, since 2026-07-28.

        Raises:
            SamplingUnavailable: the client offers no sampling (or not with tools); nothing was sent.
            NotInRevision: the client's revision has no such thing (tools, audio, several blocks); nothing was sent.
            LocalProtocolError: an argument or the conversation breaks a rule, whose place is named; nothing was sent.
            Rejected: the user, a policy or a limit of the client said no.
            SamplingFailed: the answer does not fit ``result_type``, or the model never stopped using tools.
            CallTimeout: no answer came within ``timeout``.
        """
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
        turns = Turns(self._call, fallback=fallback, key=key, timeout=timeout)
        return await turns.complete(params, toolbox, max_steps, result_type)

    async def sample_step(
        self, messages: Messages, *, execute_tools: bool = True, **options: Unpack[SampleOptions]
    ) -> Sample[None]:
        """Have one turn with the model, for loops of one's own.

        The arguments are those of ``sample``. If the model wants to use ``tools`` that are functions, they are run, and
        ``messages`` of the result ends with what they gave; go on with it until ``tool_uses`` is empty. With
        ``execute_tools=False``, or definitions as tools, run them yourself and go on with ``with_results``.

        Raises: what ``sample`` raises.
        """
        return await one_step(self, self._call, messages, execute_tools, options)

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
        self, message: str, form: object, *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[Any]:
        """Ask the user to fill in a form.

        ``form``: a dataclass, msgspec Struct, TypedDict or pydantic model with flat members (strings, numbers,
        booleans, enums), or the type of one such member (``bool``, ``Literal["red", "blue"]``), of which
        ``Elicited.value`` will be; or a JSON Schema of that kind, for a plain ``dict``. Without an answer the value is
        ``None``: look at that, and type checkers know the rest.

        Raises:
            ElicitationUnavailable: the client offers no forms; nothing was sent.
        """
        return await elicit_form(self._call, message, form, key=key, timeout=timeout)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout: float | None = None
    ) -> Elicited[None]:
        """Ask the user to visit an address, for what must not pass through the client (from 2025-11-25).

        Raises:
            ElicitationUnavailable: the client does not offer this; nothing was sent.
        """
        return await elicit_visit(self._call, message, url, key=key, timeout=timeout)

    async def list_roots(self, *, key: str | None = None, timeout: float | None = None) -> Sequence[Root]:
        """Ask the client for the folders it lets the server work in.

        Raises:
            MissingCapability: the client has no roots to offer; nothing was sent.
        """
        return (await ask(self._call, "roots/list", RequestParams(), ListRootsResult, key=key, timeout=timeout)).roots

    # --- doing --------------------------------------------------------------------------------------------------

    @overload
    async def step(self, name: str, function: Callable[..., Awaitable[S]], *, secret: bool = False) -> S: ...
    @overload
    async def step(self, name: str, function: Callable[..., S], *, secret: bool = False) -> S: ...
    async def step(self, name: str, function: Callable[..., Any], *, secret: bool = False) -> Any:
        """Do something that must not be repeated, and return its result: an order placed, a mail sent, the time read.

        Where a call may go on in another process (``Server(keys=...)``), the function is run there again from its
        start; a step that was taken is not taken again, its result is known. What is read from the world belongs in a
        step as well, if a later ask depends on it. Everywhere else the function is simply called.

        ``function``: plain or async, without arguments; if it has a parameter ``idempotency_key``, it gets a string
        that is the same whenever this step is tried. Its result must be something JSON can carry; it comes back as its
        return annotation says, always, so that both ways are the same. ``secret``: the result is never compressed with
        others, so that lengths tell nothing. A step that fails is not recorded: it is tried again in a replay, and so
        is one whose process dies in the middle. Without ``Server(state_store=...)`` the same goes for a step that was
        completed, if the process dies before the next message to the client: only that message records it.

        Raises:
            CallAbandoned: this copy of the call has ended, another process may have gone on with it.
            ConfigError: the result is nothing that JSON can carry.
        """
        return await take_step(self._call, name, function, secret=secret)

    # --- telling ------------------------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the work has come, in any unit. Sent if the client asked for it and the value has increased."""
        await self._call.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants that level. ``data``: a string, or anything JSON can carry."""
        if level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"log: there is no level {level!r}; the levels are {', '.join(LOGGING_LEVELS)}")
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger or self._call.core.name)
        request = self._call.request
        if request is not None:
            await self._call.send(self._call.connection.session.log(params, request))

    async def debug(self, data: Any) -> None:
        """Log at level ``debug``."""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """Log at level ``info``."""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """Log at level ``warning``."""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """Log at level ``error``."""
        await self.log("error", data)

    def close_stream(self) -> None:
        """Close the HTTP response of the live request; the call goes on, and the client comes back for the rest.

        For long calls of legacy clients that can resume; in all other cases nothing happens. Source: 2025-11-25
        basic/transports, "Sending Messages to the Server".
        """
        self._call.close_stream()

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read one of this server's own resources.

        Raises:
            ResourceNotFound: there is none with this URI.
        """
        return await self._call.core.read_resource(uri, self)
