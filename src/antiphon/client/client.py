"""``Client``: a connection to one server, with typed calls and the answers to what the server asks.

Owns the life of the connection and the public calls. ``connection.targets`` resolves what to connect to, ``tool_calls``
adds consent and output checks to a tool call, ``answers.answerers`` answers asks, and ``rounds.loop`` repeats a call
with answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl as tls
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Never, Self, TypeVar, cast

from msgspec import UNSET, Raw, UnsetType

from antiphon.auth.client.oauth import Auth
from antiphon.channel import Channel
from antiphon.client.answers.answerers import Answers, Elicitor, Extension, OnRound, Roots, Sampler
from antiphon.client.by_hand import Rounds
from antiphon.client.client_middleware import ClientMiddleware, ClientMiddlewareStack, ClientRequest
from antiphon.client.connection.targets import Target, locate_target, with_options
from antiphon.client.known_tools import KnownTools, iterate_pages
from antiphon.client.link import LinkSettings, LinkWithMiddleware, ServerLink, choose_allowed_revisions
from antiphon.client.notifications import Cache, ClientNotices, Listening, OnLog
from antiphon.client.remote_skill import RemoteSkill
from antiphon.client.requests.attempts import BecameTask
from antiphon.client.requests.request_calls import Calls
from antiphon.client.rounds.loop import DEFAULT_LIMITS, RoundLimits
from antiphon.client.task import TaskHandle
from antiphon.client.tool_calls import Confirmer, Confirming, ToolCalls, usual_consent
from antiphon.errors import AntiphonError, CallTimeout, ConfigError, LocalProtocolError, SkillInvalid
from antiphon.machine.asyncio_tasks import find_loop
from antiphon.machine.call_time import TimeLeft
from antiphon.machine.other_frameworks import check_argument_types, check_options, explain_other_names
from antiphon.protocol.server_offer import declares_extension
from antiphon.wire import common, completion
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS, unknown_request
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt
from antiphon.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from antiphon.wire.skills import SKILLS, GetSkillRequestParams, GetSkillResult, ListSkillsResult, Skill
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.task import CreateTaskResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

OnProgress = Callable[[float, float | None, str | None], object]
"""Called with the progress, the total and the message, the last two ``None`` if not given; may be async."""

C = TypeVar("C", bound=common.CacheableResult)


@explain_other_names
class Client:
    """A client of one server. Use it as ``async with Client(target) as client``.

    Args:
        target: what to connect to: a ``Server``, the path of a Python script, a command line (text or a list of words),
            a URL (``http``, ``https``, ``ws``, ``wss``), or an entry of an ``mcpServers`` configuration.
        sampling: answers requests for a completion: an async function ``(params, origin)``, or a ``Host``. By default
            the client does not offer sampling.
        elicitation: answers questions to the user: an async function ``(params, origin)``, or ``Host.elicit``. By
            default the client does not offer elicitation.
        roots: paths or ``file://`` URIs of the folders the server may work in. By default the client offers no roots.
        confirm: asked before each tool call: an async function ``(params, origin)``, or a ``Host``. By default tools
            are called without asking.
        revision: ``"auto"``, the default, for the newest revision both sides speak, or the name of one.
        timeout: seconds for each call, not counting time spent on answering asks; 60 by default, ``None`` for no limit.
        limits: how many questions the server may ask during one call; by default 100, in at most 64 rounds.
        answer_timeout: seconds an answerer may take for one ask; no limit by default.
        on_round: called with each round (2026-07-28) before any of its asks is answered; an exception from it ends the
            call.
        info: name and version sent to the server; by default those of this library.
        log_level: least severe level of log messages to ask the server for; by default the server chooses.
        on_log: called with each log message of the server; by default they are dropped.
        errlog: called with each line that a child process writes to its standard error.
        inherit_env: pass the whole environment to a child process; by default only a safe part of it.
        headers: HTTP headers sent with every request; only for a URL; none by default.
        ssl: TLS settings; ``False`` accepts any certificate; only for a URL; by default the system's certificates
            count.
        proxy: URL of an HTTP proxy; only for a URL; by default the one that the environment names.
        auth: access to the server; only for a URL: a token, an async function that returns one, or ``OAuth(...)``,
            which signs in when the server asks for it. Time a person takes to sign in does not count.
        wrap: called with the new channel; returns the channel to use, for example one that records.
        middleware: functions ``async (request, call_next) -> result`` around every request, the first outermost: those
            that this client sends, and the asks of the server that it answers. Each may change, answer or refuse it.
        extension: what the client speaks beyond the protocol: capabilities, and messages of methods that no revision
            has.

    Raises:
        ConfigError: an argument cannot be used; the message names it.
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
        info: common.Implementation | None = None,
        log_level: common.LoggingLevel | None = None,
        on_log: OnLog | None = None,
        errlog: Callable[[str], object] | None = None,
        inherit_env: bool = False,
        headers: Mapping[str, str] | None = None,
        ssl: tls.SSLContext | bool | None = None,
        proxy: str | None = None,
        auth: Auth | None = None,
        wrap: Callable[[Channel], Channel] | None = None,
        middleware: Sequence[ClientMiddleware] = (),
        extension: Extension | None = None,
        **_unknown: Never,
    ) -> None:
        from antiphon import __version__

        check_options("Client()", _unknown, Client.__init__)
        check_argument_types(Client, locals())
        self.timeout = timeout
        self._log_level: common.LoggingLevel | None = log_level
        self._answers = Answers(
            sampling, elicitation, roots, on_round=on_round, timeout=answer_timeout, extension=extension
        )
        is_bare = isinstance(middleware, list | tuple) and not middleware
        self._middleware = stack = None if is_bare else ClientMiddlewareStack(middleware)
        if stack is not None:
            self._answers.around = stack.answered
        self._limits, self._notices = limits, ClientNotices(on_log, extension)
        self._cache = self._notices.cache = Cache(lambda: asyncio.get_running_loop().time())
        consent = usual_consent(confirm, answer_timeout, target)
        known = KnownTools(keeps_definitions=bool(consent.deciders))
        settings = LinkSettings(
            where=with_options(locate_target(target), headers, ssl, proxy, auth),
            allowed=choose_allowed_revisions(revision), answers=self._answers, limits=limits,
            info=info or common.Implementation(name="antiphon", version=__version__),
            log_level=log_level, timeout=timeout, notices=self._notices,
            tools=known, errlog=errlog, inherit_env=inherit_env, wrap=wrap,
        )  # fmt: skip
        self._link = ServerLink(settings) if stack is None else LinkWithMiddleware(settings, stack)
        self._tool_calls = ToolCalls(self._link, self._cache, known, consent, self._tools_within, stack)
        self.confirmers = consent.confirmers
        """What is asked before each call of a tool: ``confirm``, and what a gateway in this process asks."""
        self.rounds = Rounds(self._link, self._tool_calls, self._timeout)
        """The same calls, one round at a time, for code that looks at each round before answering it."""

    # --- life ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the server, agree on a revision and open the session.

        Raises:
            ConfigError: the target cannot be started, or the server does not speak the chosen revision.
            ConnectionClosed: the server ended; with the exit code and the end of its stderr if it was a child process.
            RemoteProtocolError: no revision is spoken by both sides.
            PeerError: the server, or a proxy in front of it, refused.
            CallTimeout: the server did not answer within ``timeout``.
        """
        if self._link.is_open:
            raise LocalProtocolError("This client is connected already")
        find_loop()
        self._cache.clear()
        await self._link.open()
        try:
            if self._log_level is not None and self.server_capabilities.logging is not None:
                with self._link.tolerate_refused_level():
                    await self.set_log_level(self._log_level)
        except BaseException:
            # ``__aexit__`` does not run when ``__aenter__`` raises, so close here.
            await self._link.close()
            raise

    async def close(self) -> None:
        """End the session and, if it is a child process, the server. May be called twice, from any task."""
        await self._link.close()

    # --- what the server says about itself ----------------------------------------------------------------------

    @property
    def revision(self) -> str:
        """The protocol revision agreed on."""
        agreed = self._link.session.revision
        if agreed is None:
            raise LocalProtocolError("No revision was agreed yet: use the client inside `async with`")
        return agreed.name

    @property
    def server_info(self) -> common.Implementation | None:
        """Name and version as the server declares them; not verified."""
        return self._link.session.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._link.session.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's own instructions for a model that uses it, if it gave any."""
        return self._link.session.instructions

    @property
    def is_open(self) -> bool:
        """Whether it is connected, and the connection has not ended."""
        return self._link.is_usable

    @property
    def is_answering(self) -> bool:
        """Whether a request of the server waits for its answer."""
        return self.is_open and bool(self._link.calls.peer.session.incoming)

    # --- tools --------------------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | Raw | None = None,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: OnProgress | None = None,
        meta: dict[str, Any] | None = None,
        confirm: Confirmer | Confirming | None = None,
        **_unknown: Never,
    ) -> CallToolResult:
        """Call a tool. A tool that failed says so in ``is_error`` of its result; only a protocol error raises.

        If the client was given ``confirm``, it is asked first and sees these arguments. If the server makes the call a
        task, the task is followed to its end, without a limit unless ``timeout`` is given here, and its messages are
        reported as progress.

        Args:
            name: name of the tool.
            arguments: the tool's arguments by name, or as undecoded JSON (``msgspec.Raw``); none by default.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
            progress: called with each progress report: ``(progress, total, message)``; may be async.
            meta: further members of the request's ``_meta``.
            confirm: is asked about this call first, as the client's own ``confirm`` is; one that is asked anyway is not
                asked twice.

        Raises:
            Rejected: ``confirm`` refused; nothing was sent.
            PeerError: the server refused the call (``InvalidParams``: no such tool).
            CallTimeout: the deadline passed; the server was told to stop.
            ResultInvalid: the structured content does not fit the tool's output schema.
            ConnectionClosed: the connection ended during the call.
        """
        if _unknown:
            check_options("client.call_tool()", _unknown, self.call_tool)
        params = CallToolRequestParams.of(name, arguments if arguments is not None else {})
        time = TimeLeft(self._timeout(timeout))
        # The client's default timeout is for calls that somebody waits for; a task may take as long as the server lets
        # it.
        follow = partial(self._follow, None if isinstance(timeout, UnsetType) else timeout, progress, confirm)
        try:
            return await self._tool_calls.call(
                Calls.rounds, params, time, progress, meta, follow=follow, confirm=confirm
            )
        except BecameTask as became:
            return await self._tool_calls.checked(name, await follow(params, became.task), time)

    async def start_task(
        self,
        name: str,
        arguments: Mapping[str, Any] | Raw | None = None,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: OnProgress | None = None,
        meta: dict[str, Any] | None = None,
    ) -> TaskHandle:
        """Call a tool, and return once the server has made the call a task.

        Keep the handle's ``id``: with it ``task`` picks the task up again, in any process. If the server has answered
        at once, the handle has the result and no id.

        Args:
            name: name of the tool.
            arguments: the tool's arguments by name, or as undecoded JSON (``msgspec.Raw``); none by default.
            timeout: seconds until the task is made, or ``None`` for no limit; by default the client's ``timeout``.
            progress: called with each progress report before the task is made; may be async.
            meta: further members of the request's ``_meta``.

        Raises:
            What ``call_tool`` raises.
        """
        params = CallToolRequestParams.of(name, arguments if arguments is not None else {})
        time = TimeLeft(self._timeout(timeout))
        begun: CallToolResult | CreateTaskResult
        try:
            begun = await self._tool_calls.call(Calls.rounds, params, time, progress, meta)
        except BecameTask as became:
            begun = became.task
        return self._handle(params, begun)

    def task(self, id: str, *, tool: str = "", started: float | None = None) -> TaskHandle:
        """Pick up a task by its id, in this process or another one than it was started in.

        Args:
            id: ``TaskHandle.id``.
            tool: name of the tool that was called, shown to those who answer the task's asks; by default not shown.
            started: when the tool was called, in seconds since the epoch, shown to them, too; by default unknown.
        """
        return self._handle(CallToolRequestParams.of(tool), id, started)

    def _handle(
        self,
        params: CallToolRequestParams,
        begun: CreateTaskResult | CallToolResult | str,
        started: float | None = None,
        confirm: Confirmer | Confirming | None = None,
    ) -> TaskHandle:
        return TaskHandle(
            self._link, self._notices, params, self._limits, begun, self.timeout,
            started=started, examine=partial(self._tool_calls.pass_later, params, confirm),
        )  # fmt: skip

    async def _follow(
        self,
        timeout: float | None,
        progress: OnProgress | None,
        confirm: Confirmer | Confirming | None,
        params: CallToolRequestParams,
        task: CreateTaskResult,
    ) -> CallToolResult:
        handle = self._handle(params, task, confirm=confirm)
        try:
            async with TimeLeft(timeout).limit("tools/call"):
                return await handle.shown(progress)
        except (CallTimeout, asyncio.CancelledError):
            # Nobody waits for the result any more.
            with contextlib.suppress(AntiphonError):
                await handle.cancel()
            raise

    async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
        """Fetch one page of the list of tools.

        Args:
            cursor: where the page begins: ``next_cursor`` of the page before; by default the first page.
        """
        return (await self._list_tools(cursor))[0]

    def tools(self) -> AsyncIterator[Tool]:
        """Iterate over all tools."""
        return self._tools_within(None)

    def _tools_within(self, time: TimeLeft | None) -> AsyncIterator[Tool]:
        return iterate_pages(partial(self._list_tools, time=time), lambda page: page.tools)

    async def _list_tools(self, cursor: str | None, time: TimeLeft | None = None) -> tuple[ListToolsResult, int]:
        page, size = await self._page("tools/list", cursor, ListToolsResult, time)
        return self._tool_calls.learn(page), size

    # --- resources, prompts, completion -------------------------------------------------------------------------

    async def list_resources(self, cursor: str | None = None) -> ListResourcesResult:
        """Fetch one page of the list of resources.

        Args:
            cursor: where the page begins: ``next_cursor`` of the page before; by default the first page.
        """
        return (await self._page("resources/list", cursor, ListResourcesResult))[0]

    def resources(self) -> AsyncIterator[Resource]:
        """Iterate over all resources."""
        return iterate_pages(
            partial(self._page, "resources/list", kind=ListResourcesResult), lambda page: page.resources
        )

    async def list_resource_templates(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Fetch one page of the list of resource templates.

        Args:
            cursor: where the page begins: ``next_cursor`` of the page before; by default the first page.
        """
        return (await self._page("resources/templates/list", cursor, ListResourceTemplatesResult))[0]

    def resource_templates(self) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates."""
        pages = partial(self._page, "resources/templates/list", kind=ListResourceTemplatesResult)
        return iterate_pages(pages, lambda page: page.resource_templates)

    async def read_resource(self, uri: str, *, timeout: float | UnsetType | None = UNSET) -> ReadResourceResult:
        """Read a resource, from the cache if the server said how long its contents may be kept.

        Args:
            uri: URI of the resource.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.

        Raises:
            ResourceNotFound: the server has no resource with this URI.
        """
        kept = self._cache.get("resources/read", uri)
        if isinstance(kept, ReadResourceResult):
            return kept
        params = ReadResourceRequestParams(uri=uri)
        result, rounds = await self._read_uncached(params, timeout)
        if rounds == 0:
            self._cache.put("resources/read", uri, result)
        return result

    async def _read_uncached(
        self, params: ReadResourceRequestParams, timeout: float | UnsetType | None = UNSET
    ) -> tuple[ReadResourceResult, int]:
        return await self._link.run(
            Calls.counted, "resources/read", params, ReadResourceResult, timeout=TimeLeft(self._timeout(timeout))
        )

    async def list_skills(self, cursor: str | None = None) -> ListSkillsResult:
        """Fetch one page of the list of skills (extension, from 2026-07-28).

        Args:
            cursor: where the page begins: ``next_cursor`` of the page before; by default the first page.

        Raises:
            MethodNotFound: the server has no skills; nothing was sent.
            NotInRevision: the revision has none.
        """
        return (await self._page("skills/list", cursor, ListSkillsResult))[0]

    async def skills(self) -> AsyncIterator[RemoteSkill]:
        """Iterate over the skills that the server lists; none of their files is fetched. It may have more than these.

        A server without skills, or of an earlier revision, has an empty list.
        """
        agreed = self._link.session.revision
        if agreed is None or not agreed.modern or not declares_extension(self.server_capabilities, SKILLS):
            return
        pages = partial(self._page, "skills/list", kind=ListSkillsResult)
        async for entry in iterate_pages(pages, lambda page: page.skills):
            yield self._make_skill(entry)

    async def skill(self, uri: str) -> RemoteSkill:
        """Fetch the present entry of a skill, listed or not; none of its files is fetched.

        Args:
            uri: URI of its ``SKILL.md``.

        Raises:
            InvalidParams: the server has no such skill.
            MethodNotFound: the server has no skills; nothing was sent.
            NotInRevision: the revision has none.
            SkillInvalid: the entry is that of another skill.
        """
        params = GetSkillRequestParams(uri=uri)
        result = await self._link.run(Calls.plain, "skills/get", params, GetSkillResult, timeout=TimeLeft(self.timeout))
        if result.skill.uri != uri:
            raise SkillInvalid(f"The server's entry for {uri} is that of {result.skill.uri}")
        return self._make_skill(result.skill)

    def _make_skill(self, entry: Skill) -> RemoteSkill:
        # Not from the cache: a file that differs from its entry is mostly one that was cached before it changed.
        async def fetch(uri: str) -> ReadResourceResult:
            return (await self._read_uncached(ReadResourceRequestParams(uri=uri)))[0]

        return RemoteSkill(entry, fetch)

    async def list_prompts(self, cursor: str | None = None) -> ListPromptsResult:
        """Fetch one page of the list of prompts.

        Args:
            cursor: where the page begins: ``next_cursor`` of the page before; by default the first page.
        """
        return (await self._page("prompts/list", cursor, ListPromptsResult))[0]

    def prompts(self) -> AsyncIterator[Prompt]:
        """Iterate over all prompts."""
        return iterate_pages(partial(self._page, "prompts/list", kind=ListPromptsResult), lambda page: page.prompts)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | UnsetType | None = UNSET
    ) -> GetPromptResult:
        """Fetch a prompt, filled in with arguments.

        Args:
            name: name of the prompt.
            arguments: the prompt's arguments by name, each as text; none by default.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.

        Raises:
            ConfigError: an argument is no text; nothing was sent.
            InvalidParams: the server has no such prompt, or an argument is missing.
        """
        params = GetPromptRequestParams(name=name, arguments=_copy_texts(arguments))
        return await self._link.run(
            Calls.rounds, "prompts/get", params, GetPromptResult, timeout=TimeLeft(self._timeout(timeout))
        )

    async def complete(
        self,
        of: str,
        argument: str,
        value: str,
        *,
        arguments: Mapping[str, str] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> completion.CompleteResult:
        """Ask the server for values that complete an argument (server/utilities/completion).

        Args:
            of: name of a prompt, or URI template of a resource template.
            argument: name of the argument being typed.
            value: what has been typed of it.
            arguments: values of other arguments that are already known, by name (from 2025-06-18).
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
        """
        ref = completion.ResourceTemplateReference(uri=of) if "://" in of else completion.PromptReference(name=of)
        params = completion.CompleteRequestParams(
            ref=ref,
            argument=completion.CompletionArgument(name=argument, value=value),
            context=completion.CompletionContext(arguments=_copy_texts(arguments)) if arguments is not None else None,
        )
        return await self._link.run(
            Calls.plain,
            "completion/complete",
            params,
            completion.CompleteResult,
            timeout=TimeLeft(self._timeout(timeout)),
        )

    async def forward(
        self,
        method: str,
        params: Any,
        original: Received,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: OnProgress | None = None,
        meta: dict[str, Any] | None = None,
        log_level: common.LoggingLevel | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> Received:
        """Repeat a request of another client, for a proxy, with the members that this library does not know.

        Unknown members of the params are sent, unknown members of the result are returned, and a method that no
        revision has is requested unchanged. Tools are called with consent, and their results checked, as by
        ``call_tool``; the cache is neither read nor written.

        Args:
            method: name of the method.
            params: its params as they are to be sent, of the method's type in ``antiphon.types``.
            original: the params as the other client sent them.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
            progress: called with each progress report: ``(progress, total, message)``; may be async.
            meta: further members of the request's ``_meta``.
            log_level: least severe level of log messages wanted during this call (2026-07-28); by default the client's.
            extensions: extensions that the request declares beside the client's own, with their settings (2026-07-28).

        Returns:
            The result, decoded and as it came, without members that are about this connection only. The result of
            ``tools/call`` may be the handle of a task (``CreateTaskResult``), if ``extensions`` declares tasks.

        Raises:
            MethodNotFound: the server does not offer it; nothing was sent.
            Rejected: ``confirm`` refused; nothing was sent.
            PeerError: the server refused the request.
        """
        spec = METHODS.get(method) or unknown_request(method)
        time = TimeLeft(self._timeout(timeout))

        def forward(request: ClientRequest) -> Awaitable[Received]:
            def make(params: Any = request.params) -> Awaitable[Received]:
                sent = original if params is request.params else original.changed(params)
                return self._link.run(
                    Calls.forward, spec, params, original=sent, timeout=time, progress=progress,
                    meta=request.meta, log_level=log_level, extensions=extensions,
                )  # fmt: skip

            if isinstance(request.params, CallToolRequestParams):
                return self._tool_calls.allowed(request.params, make, time, Received.of)
            return make()

        request = ClientRequest(method, params, meta=meta)
        done = await (
            forward(request) if self._middleware is None else _pass_request(self._middleware, request, forward)
        )
        return done.changed(self._tool_calls.learn(done.read)) if isinstance(done.read, ListToolsResult) else done

    def notify(self, method: str, params: Received) -> None:
        """Send a notification unchanged: one of another client, for a proxy, or one of an extension.

        Nothing is sent if the server's revision has no such notification of a client.

        Args:
            method: name of the method.
            params: its params.
        """
        self._link.calls.pass_on(method, params)

    # --- session ------------------------------------------------------------------------------------------------

    async def ping(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Check that the server answers: by ``ping``, or by ``server/discover`` at 2026-07-28, which has no ``ping``.

        Args:
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
        """
        await self._link.run(Calls.ping, timeout=TimeLeft(self._timeout(timeout)))

    async def set_log_level(self, level: common.LoggingLevel) -> None:
        """Choose which log messages the server sends.

        Args:
            level: least severe level to send, such as ``"warning"``.

        Raises:
            ConfigError: there is no such level.
        """
        if level not in common.LOGGING_LEVELS:
            raise ConfigError(f"there is no log level {level!r}; the levels are {', '.join(common.LOGGING_LEVELS)}")
        if self._link.calls.is_modern:
            self._link.session.set_log_level(level)
        else:
            params, time = SetLevelRequestParams(level=level), TimeLeft(self.timeout)
            await self._link.run(Calls.plain, "logging/setLevel", params, common.EmptyResult, timeout=time)

    async def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and tell the server where the revision has a notification for it (up to 2025-11-25).

        Args:
            roots: paths or ``file://`` URIs of the folders the server may work in.
        """
        self._answers.set_roots(roots)
        if not self._link.calls.is_modern:
            self._link.calls.notify("notifications/roots/list_changed", common.NotificationParams())

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Sequence[str] = ()
    ) -> Listening:
        """Subscribe to changes of the named lists, and of the resources with these URIs.

        Use as ``async with client.listen(tools=True) as changes: async for change in changes: ...``.

        Args:
            tools: report changes of the list of tools.
            prompts: report changes of the list of prompts.
            resources: report changes of the list of resources.
            uris: URIs of the resources whose changes to report.

        Raises:
            LocalProtocolError: nothing is named, or ``uris`` is a string instead of a list.
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
        return Listening(self._link.calls, self._notices, wanted, self._middleware)

    # --- internals ----------------------------------------------------------------------------------------------

    def _timeout(self, given: float | UnsetType | None) -> float | None:
        if given is not None and not hasattr(given, "__float__") and given is not UNSET:
            raise ConfigError(f"timeout= is a number of seconds, or None for no limit; got {given!r}")
        return self.timeout if isinstance(given, UnsetType) else given

    async def _page(
        self, method: str, cursor: str | None, kind: type[C], time: TimeLeft | None = None
    ) -> tuple[C, int]:
        """Return one page of a list and the number of bytes received for it (0 if it was cached)."""
        place = "" if cursor is None else f"/{cursor}"  # an empty cursor is one, too
        kept = self._cache.get(method, place)
        if isinstance(kept, kind):
            return kept, 0
        params, time = common.PaginatedParams(cursor=cursor), time or TimeLeft(self.timeout)
        page, size = await self._link.run(Calls.page, method, params, kind, timeout=time)
        self._cache.put(method, place, page)
        return page, size


def _copy_texts(arguments: Mapping[str, str] | None) -> dict[str, str] | None:
    """Copy arguments that are text on the wire, whatever type the prompt's function takes."""
    for name, value in (arguments or {}).items():
        if not isinstance(cast("object", value), str):
            raise ConfigError(f'argument "{name}" is sent as text: give str(...) of it, not {value!r}')
    return None if arguments is None else dict(arguments)


async def _pass_request(
    middleware: ClientMiddlewareStack, request: ClientRequest, forward: Callable[[ClientRequest], Awaitable[Received]]
) -> Received:
    """Pass a request through the middleware, which sees results decoded, and return its result with all members."""
    passed: list[Received] = []

    async def last(request: ClientRequest) -> Any:
        passed[:] = [await forward(request)]
        return passed[0].read

    result = await middleware.run(request, last)
    return passed[0].changed(result) if passed else Received.of(result)
