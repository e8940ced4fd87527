"""``Client``: one server, its typed calls, and the answers to what it asks.

Owns the life of the connection and the public calls. How a target is reached is ``targets``'s, what goes around the
call of a tool ``tool_calls``', how an ask is answered ``answers.answerers``'s, how a call goes on through rounds
``rounds.loop``'s business.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from msgspec import UNSET, UnsetType

from antiphon.channel import Channel
from antiphon.client.answers.answerers import Answers, Elicitor, OnRound, Roots, Sampler
from antiphon.client.by_hand import Rounds
from antiphon.client.connection.handshake import allowed_revisions
from antiphon.client.connection.targets import Target, resolve, with_options
from antiphon.client.features.cache import Cache
from antiphon.client.features.mirrored_headers import ToolHeaders
from antiphon.client.features.notifications import Listening, Notices, OnLog
from antiphon.client.features.pagination import iterate
from antiphon.client.link import Link, Settings
from antiphon.client.requests.attempts import TimeLeft
from antiphon.client.requests.calls import Calls
from antiphon.client.rounds.loop import DEFAULT_LIMITS, RoundLimits
from antiphon.client.tool_calls import Confirmer, Confirming, Consent, ToolCalls
from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.protocol.client_session import ClientSession
from antiphon.wire.common import (
    LOGGING_LEVELS,
    CacheableResult,
    EmptyResult,
    Implementation,
    LoggingLevel,
    NotificationParams,
    PaginatedParams,
)
from antiphon.wire.completion import (
    CompleteRequestParams,
    CompleteResult,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt
from antiphon.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

__all__ = ["Client", "OnProgress"]

OnProgress = Callable[[float, float | None, str | None], object]
"""Called with progress, total and message; may be a coroutine function."""

C = TypeVar("C", bound=CacheableResult)


class Client:
    """A client of one server. Use it as ``async with Client(target) as client``.

    ``target``: see ``client.connect``. ``sampling``, ``elicitation``: answerers ``async (params, origin)``, or a
    ``Host`` and its ``elicit``; what is not given is not offered. ``roots``: paths or URIs the server may work in.
    ``revision``: ``"auto"`` for the newest both speak, or one by name. ``timeout``: seconds for each call, not
    counting the time in which an ask is answered; ``None`` waits for ever. ``limits``: how much one call may ask.
    ``answer_timeout``: seconds an answerer has for one ask; by default as long as it likes. ``on_round``: called with
    each round (2026-07-28) before anything of it is answered; what it raises gives up the call.
    ``confirm``: asked before each tool is called, ``async (params, origin)``, or a ``Host``; see ``call_tool``.
    ``on_log``: called with each log message of the server. ``errlog``: called with each line a child process writes
    to its standard error. ``inherit_env``: give a child the whole environment instead of a safe part of it.
    ``headers``, ``ssl``, ``proxy``: for a URL; headers of every request, TLS settings (``False`` trusts everybody), the
    address of a proxy. ``wrap``: called with the channel, may return another around it (to record it).
    """

    def __init__(
        self,
        target: Target,
        *,
        sampling: Sampler | None = None,
        elicitation: Elicitor | None = None,
        roots: Roots | None = None,
        confirm: Confirmer | Confirming | None = None,
        revision: str = "auto",
        timeout: float | None = 60.0,
        limits: RoundLimits = DEFAULT_LIMITS,
        answer_timeout: float | None = None,
        on_round: OnRound | None = None,
        info: Implementation | None = None,
        log_level: LoggingLevel | None = None,
        on_log: OnLog | None = None,
        errlog: Callable[[str], object] | None = None,
        inherit_env: bool = False,
        headers: Mapping[str, str] | None = None,
        ssl: tls.SSLContext | bool | None = None,
        proxy: str | None = None,
        wrap: Callable[[Channel], Channel] | None = None,
    ) -> None:
        self.timeout = _seconds(timeout)
        self._answers = Answers(sampling, elicitation, roots, on_round=on_round, timeout=answer_timeout)
        self._notices = Notices(on_log)
        self._cache = self._notices.cache = Cache(lambda: asyncio.get_running_loop().time())
        self._log_level: LoggingLevel | None = log_level
        tool_headers = ToolHeaders()
        self._link = Link(
            Settings(
                where=with_options(resolve(target), headers, ssl, proxy),
                allowed=allowed_revisions(revision),
                answers=self._answers,
                limits=limits,
                info=info or _this_library(),
                log_level=log_level,
                timeout=timeout,
                notices=self._notices,
                headers=tool_headers,
                errlog=errlog,
                inherit_env=inherit_env,
                wrap=wrap,
            )
        )
        consent = Consent(confirm, answer_timeout)
        self._tool_calls = ToolCalls(self._link, self._cache, tool_headers, consent, self._tools_within)
        self._notices.on_tools_changed = self._tool_calls.forget
        self.rounds = Rounds(self._link, self._tool_calls, self._timeout)
        """The same calls a step at a time, for whoever wants to go through the rounds by hand."""

    # --- life ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the server, agree on a revision and open the session.

        Raises:
            ConfigError: the target cannot be started, or the revision is not spoken there.
            ConnectionClosed: the server ended; with its exit code and the tail of its stderr if it was a child process.
            RemoteProtocolError: no revision is spoken by both.
            PeerError: the server, or something before it, refuses.
            CallTimeout: no answer within ``timeout``.
        """
        if self._link.is_open:
            raise LocalProtocolError("This client is connected already")
        self._cache.clear()
        await self._link.open()
        try:
            if self._log_level is not None and self.server_capabilities.logging is not None:
                await self.set_log_level(self._log_level)
        except BaseException:
            # Nobody will leave an ``async with`` that was never entered.
            await self._link.close()
            raise

    async def close(self) -> None:
        """End the session and, if it is a child process, the server. May be called twice, from any task."""
        await self._link.close()

    # --- what the server said of itself -------------------------------------------------------------------------

    @property
    def _session(self) -> ClientSession:
        """The rules of this connection: agreed revision, server capabilities."""
        return self._link.session

    @property
    def revision(self) -> str:
        """The protocol revision agreed on."""
        agreed = self._session.revision
        if agreed is None:
            raise LocalProtocolError("No revision was agreed yet: use the client inside `async with`")
        return agreed.name

    @property
    def server_info(self) -> Implementation | None:
        """Name and version, as the server declares them."""
        return self._session.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server offers."""
        return self._session.server_capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, for a model."""
        return self._session.instructions

    # --- tools --------------------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: OnProgress | None = None,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool. A tool that failed says so in ``is_error`` of its result; only a protocol error raises.

        ``timeout``: instead of the client's. ``progress``: called with each report. ``meta``: further members of
        ``_meta``. Where the client has somebody to ``confirm`` calls, they are asked first, and shown these arguments.

        Raises:
            Rejected: whoever confirms calls said no; nothing was sent.
            PeerError: the server refused the call (``InvalidParams``: no such tool).
            CallTimeout: the deadline passed; the server was told to stop.
            ResultInvalid: the structured content does not fit the tool's output schema.
            ConnectionClosed: the server ended meanwhile.
        """
        params = CallToolRequestParams.of(name, arguments if arguments is not None else {})
        time = TimeLeft(self._timeout(timeout))
        if self._tool_calls.need_consent:
            await self._tool_calls.ask_consent(params, time)
        options: dict[str, Any] = {"timeout": time, "progress": progress, "meta": meta}
        return await self._tool_calls.make(
            name, lambda: self._link.run(Calls.rounds, "tools/call", params, CallToolResult, **options), time
        )

    async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
        """Fetch one page of the tools, the first without a cursor."""
        return (await self._list_tools(cursor))[0]

    def tools(self) -> AsyncIterator[Tool]:
        """Iterate over all tools."""
        return self._tools_within(None)

    def _tools_within(self, time: TimeLeft | None) -> AsyncIterator[Tool]:
        return iterate(partial(self._list_tools, time=time), lambda page: page.tools)

    async def _list_tools(self, cursor: str | None, time: TimeLeft | None = None) -> tuple[ListToolsResult, int]:
        page, size = await self._page("tools/list", cursor, ListToolsResult, time)
        return self._tool_calls.learn(page), size

    # --- resources, prompts, completion -------------------------------------------------------------------------

    async def list_resources(self, cursor: str | None = None) -> ListResourcesResult:
        """Fetch one page of the resources."""
        return (await self._page("resources/list", cursor, ListResourcesResult))[0]

    def resources(self) -> AsyncIterator[Resource]:
        """Iterate over all resources."""
        return iterate(
            lambda cursor: self._page("resources/list", cursor, ListResourcesResult), lambda page: page.resources
        )

    async def list_resource_templates(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Fetch one page of the resource templates."""
        return (await self._page("resources/templates/list", cursor, ListResourceTemplatesResult))[0]

    def resource_templates(self) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates."""
        return iterate(
            lambda cursor: self._page("resources/templates/list", cursor, ListResourceTemplatesResult),
            lambda page: page.resource_templates,
        )

    async def read_resource(self, uri: str, *, timeout: float | UnsetType | None = UNSET) -> ReadResourceResult:
        """Read a resource.

        Raises:
            ResourceNotFound: the server has none with this URI.
        """
        kept = self._cache.get("resources/read", uri)
        if isinstance(kept, ReadResourceResult):
            return kept
        params = ReadResourceRequestParams(uri=uri)
        result, rounds = await self._link.run(
            Calls.counted, "resources/read", params, ReadResourceResult, timeout=self._timeout(timeout)
        )
        if rounds == 0:
            self._cache.put("resources/read", uri, result)
        return result

    async def list_prompts(self, cursor: str | None = None) -> ListPromptsResult:
        """Fetch one page of the prompts."""
        return (await self._page("prompts/list", cursor, ListPromptsResult))[0]

    def prompts(self) -> AsyncIterator[Prompt]:
        """Iterate over all prompts."""
        return iterate(partial(self._page, "prompts/list", kind=ListPromptsResult), lambda page: page.prompts)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | UnsetType | None = UNSET
    ) -> GetPromptResult:
        """Fetch a prompt, filled in with arguments."""
        params = GetPromptRequestParams(name=name, arguments=dict(arguments) if arguments is not None else None)
        return await self._link.run(
            Calls.rounds, "prompts/get", params, GetPromptResult, timeout=self._timeout(timeout)
        )

    async def complete(
        self,
        of: str,
        argument: str,
        value: str,
        *,
        arguments: Mapping[str, str] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> CompleteResult:
        """Complete an argument. ``of``: a prompt's name, or a template's URI; ``arguments``: those already settled."""
        ref = ResourceTemplateReference(uri=of) if "://" in of else PromptReference(name=of)
        params = CompleteRequestParams(
            ref=ref,
            argument=CompletionArgument(name=argument, value=value),
            context=CompletionContext(arguments=dict(arguments)) if arguments is not None else None,
        )
        return await self._link.run(
            Calls.plain, "completion/complete", params, CompleteResult, timeout=self._timeout(timeout)
        )

    # --- the rest -----------------------------------------------------------------------------------------------

    async def ping(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Check that the server answers: ``ping``, or ``server/discover`` where that is gone (2026-07-28)."""
        await self._link.run(Calls.ping, self._timeout(timeout))

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Choose from which level on the server sends log messages.

        Raises:
            ConfigError: there is no such level.
        """
        if level not in LOGGING_LEVELS:
            raise ConfigError(f"there is no log level {level!r}; the levels are {', '.join(LOGGING_LEVELS)}")
        if self._link.calls.is_modern:
            self._session.set_log_level(level)
        else:
            await self._link.run(
                Calls.plain, "logging/setLevel", SetLevelRequestParams(level=level), EmptyResult, timeout=self.timeout
            )

    async def set_roots(self, roots: Roots) -> None:
        """Replace the roots and tell the server, where the revision has a way to."""
        self._answers.set_roots(roots)
        if not self._link.calls.is_modern:
            self._link.calls.notify("notifications/roots/list_changed", NotificationParams())

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Sequence[str] = ()
    ) -> Listening:
        """Hear of changes: of the lists named, and of the resources with these URIs.

        Use as ``async with client.listen(tools=True) as changes: async for change in changes: ...``.

        Raises:
            LocalProtocolError: nothing is named, or ``uris`` is one text and no list.
        """
        if isinstance(uris, str):
            raise LocalProtocolError(f"listen: uris= is a list, as in uris=[{uris!r}]")
        if not (tools or prompts or resources or uris):
            raise LocalProtocolError(
                "listen: say what to hear of: tools=True, prompts=True, resources=True or uris=[...]"
            )
        wanted = SubscriptionFilter(
            tools_list_changed=tools or None,
            prompts_list_changed=prompts or None,
            resources_list_changed=resources or None,
            resource_subscriptions=list(uris) or None,
        )
        return Listening(self._link.calls, self._notices, wanted)

    # --- inside -------------------------------------------------------------------------------------------------

    def _timeout(self, given: float | UnsetType | None) -> float | None:
        return self.timeout if isinstance(given, UnsetType) else _seconds(given)

    async def _page(
        self, method: str, cursor: str | None, kind: type[C], time: TimeLeft | None = None
    ) -> tuple[C, int]:
        """Return a page of a list and the bytes that came for it, within its own timeout or what is left of a call."""
        kept = self._cache.get(method, cursor or "")
        if isinstance(kept, kind):
            return kept, 0
        params, time = PaginatedParams(cursor=cursor), time or TimeLeft(self.timeout)
        page, size = await self._link.run(Calls.page, method, params, kind, timeout=time)
        self._cache.put(method, cursor or "", page)
        return page, size


def _seconds(given: float | None) -> float | None:
    if given is not None and not hasattr(given, "__float__"):
        raise ConfigError(f"timeout= is a number of seconds, or None for no limit; got {given!r}")
    return given


def _this_library() -> Implementation:
    from antiphon import __version__

    return Implementation(name="antiphon", version=__version__)
