"""``Core``: what the calls of one server share while it serves.

Handlers, rounds and asks hold this object instead of the ``Server``, so that they need not import it. Owns answers to
what a call needs to know about its server; ``service`` does the serving.

Owns also the server's own model, for clients without sampling; ``asks.tool_loop`` decides when it is used: never after
the client refused.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Literal, Protocol, cast, runtime_checkable

from msgspec import Raw

from antiphon import errors
from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, ConfigError, SamplingFailed, SamplingUnavailable
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import declares_capability
from antiphon.protocol.server_session import ServerSession
from antiphon.server.decorators import Features
from antiphon.server.features.prompts import Completions
from antiphon.server.features.resources import ServedResource, ServedTemplate
from antiphon.server.features.tools import Requirement
from antiphon.server.features.uri_template import normalize_uri
from antiphon.server.rate_limits import Rate, RateLimiter
from antiphon.wire.common import CacheScope, ClientCapabilities
from antiphon.wire.envelope import encode_value
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability, ServerCapabilities, TasksCapability
from antiphon.wire.lossless import Received
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, text_answer
from antiphon.wire.skills import DIRECTORY_READ, SKILLS
from antiphon.wire.task import TASKS
from antiphon.wire.tools import Tool

log = logging.getLogger("antiphon.server")

Completion = str | CreateMessageResult


@runtime_checkable
class Completes(Protocol):
    """An object with a ``complete`` method, such as every provider of ``antiphon.host``."""

    async def complete(self, params: CreateMessageRequestParams) -> Completion:
        """Return a completion; a string is a text answer.

        Args:
            params: the request.
        """
        ...


SamplingFallback = Completes | Callable[[CreateMessageRequestParams], Awaitable[Completion]]
"""The server's own model: an async function of the request's params, or an object with ``complete(params)``."""


class Fallback:
    """The server's own model. Raises ``ConfigError`` for anything that cannot be one."""

    __slots__ = ("_complete", "_takes_tools")

    def __init__(self, given: SamplingFallback) -> None:
        self._takes_tools = bool(getattr(given, "tools", True))
        complete = given.complete if isinstance(given, Completes) else given
        try:
            inspect.signature(complete).bind(None)
        except (TypeError, ValueError):
            raise ConfigError(
                "sampling_fallback= must be an async function of one argument, the params of the request, or an object "
                f"with complete(params), such as a provider of antiphon.host; got {given!r}"
            ) from None
        self._complete = complete

    def stands_for(self, needed: str) -> bool:
        """Return whether this model can replace a client capability, such as ``sampling.tools``."""
        return needed == "sampling" or (needed == "sampling.tools" and self._takes_tools)

    async def complete(self, params: CreateMessageRequestParams, timeout: float | None) -> CreateMessageResult:
        """Complete one request, within ``timeout`` seconds."""
        if params.tools and not self._takes_tools:
            raise SamplingUnavailable("Neither the client nor the server's own model takes tools in sampling")
        clock = asyncio.timeout(timeout)
        try:
            async with clock:
                answer = await self._complete(params)
        except Exception as error:
            if clock.expired():
                raise CallTimeout(f"The server's own model did not answer within {timeout:g} s") from None
            log.exception("sampling_fallback failed")
            raise SamplingFailed(f"The server's own model failed: {type(error).__name__}") from error
        if isinstance(answer, str):
            return text_answer(answer)
        if not isinstance(cast("object", answer), CreateMessageResult):
            raise SamplingFailed(f"The server's own model gave a {type(answer).__name__}: give text or a result")
        return answer


Declared = Literal["tools", "prompts", "resources", "completions"]
"""A kind of features that a server may declare before it has one."""


class Extension(Protocol):
    """An extension of the protocol. Its requests pass the middleware, which answers them."""

    def capabilities(self, principal: str | None, client: ClientCapabilities | None) -> ServerCapabilities:
        """Return what is declared beside the server's own: ``extensions`` and ``experimental`` of the result.

        Args:
            principal: the client's verified principal; ``None`` if it has none.
            client: what the client declares.
        """
        ...

    def notified(self, client: object, method: str, params: Received) -> object:
        """Handle a notification of a client: one that no revision has, or that its roots have changed.

        Args:
            client: identifies the connection, as ``ServerRequest.client`` does.
            method: name of the method.
            params: its params, as they came.

        Returns:
            A coroutine, which is then run, or anything else.
        """


@dataclass(eq=False)
class Core:
    """One server, as seen by its calls."""

    features: Features
    """What it offers; the author's ``Server`` itself."""
    completions: Completions
    """The arguments that can be completed."""
    _: KW_ONLY
    fallback: Fallback | None = None
    """The server's own model, for clients without sampling."""
    tool_rate: InitVar[Rate | None] = None
    """How often one client may call tools; ``None`` for no limit."""
    code_version: str | None = None
    """Must be the same for a call to continue in another process; by default the handler's code."""
    error_details: bool = False
    """Whether clients learn the text of unexpected exceptions of tools."""
    declares: Collection[Declared] = ()
    """The kinds of features that are declared though there may be none."""
    cache_ttl: float | None = None
    cache_scope: CacheScope = "private"
    state: Any = None
    """What the lifespan yielded, while the server is open."""
    mounted: list[Core] = field(default_factory=list["Core"])
    """The servers that are mounted on this one."""
    find_tool: Callable[[str, str | None], Tool | None] | None = None
    """Finds the definition of a tool that middleware serves."""
    definition_of: Callable[[str, str | None], Tool | None] = lambda name, principal: None
    """Finds the definition of any tool that is served here, also by mounted servers; set by the service."""
    extension: Extension | None = None
    """The extension of the protocol, if there is one."""
    _by_normal: tuple[int, dict[str, ServedResource]] = -1, {}
    _by_scheme: tuple[int, dict[str, list[ServedTemplate]]] = -1, {}
    """The version of the resource templates, and the templates by the schemes of their URIs."""

    def __post_init__(self, tool_rate: Rate | None) -> None:
        self.name = self.features.name
        self._limiter = RateLimiter(tool_rate, time.monotonic) if tool_rate is not None else None

    # --- features -----------------------------------------------------------------------------------------------

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of what the server declares, and of what was added to it so far."""
        features, declares = self.features, self.declared()
        has_tools = "tools" in declares or len(features.tools) > 0
        has_prompts = "prompts" in declares or len(features.prompts) > 0
        has_resources = "resources" in declares or len(features.resources) + len(features.templates) > 0
        by_call = any(tool.task in ("allowed", "required") for tool in features.tools)
        has_tasks = any(tool.task != "never" for tool in features.tools)
        has_skills = len(features.served_skills) > 0
        return ServerCapabilities(
            tasks=TasksCapability(cancel={}, requests={"tools": {"call": {}}}) if by_call else None,
            tools=ListChangedCapability(list_changed=True) if has_tools else None,
            prompts=ListChangedCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if "completions" in declares or self.completes() else None,
            logging={},
            extensions={
                **({TASKS: {}} if has_tasks else {}),
                **({SKILLS: {DIRECTORY_READ: True}} if has_skills else {}),
            }
            or None,
        )

    def declared(self) -> frozenset[Declared]:
        """Return what is declared though there may be none: here, and by mounted servers."""
        return frozenset(self.declares).union(*(core.declared() for core in self.mounted))

    def completes(self) -> bool:
        """Return whether arguments are completed: here, or by mounted servers."""
        return len(self.completions) > 0 or any(core.completes() for core in self.mounted)

    def has(self, method: str, name: str) -> bool:
        """Return whether a tool or a prompt of this name exists; ``method`` says which of the two."""
        return name in (self.features.tools if method == "tools/call" else self.features.prompts)

    def give_cache_hints(self, seconds: float | None, *, is_private: bool) -> Mapping[str, Any]:
        """Return the members of a result that say how long a client may keep it; none unless the author said so.

        ``seconds``: for this result, if its feature says so; ``is_private``: whether other callers may get another.
        """
        seconds = self.cache_ttl if seconds is None else seconds
        if seconds is None:
            return {}
        return {"ttl_ms": round(seconds * 1000), "cache_scope": "private" if is_private else self.cache_scope}

    # --- permissions --------------------------------------------------------------------------------------------

    def tool_wait(self, peer: Connection[ServerSession]) -> float:
        """Take a token from a peer's tool rate; return the seconds to wait for it."""
        return 0.0 if self._limiter is None else self._limiter.take(peer.principal or id(peer))

    def share_rate(self) -> RateLimiter | None:
        """Count the calls of tools for other processes from now on, and return the counter; ``None`` without a rate."""
        if self._limiter is not None:
            self._limiter.share()
        return self._limiter

    def forget(self, peer: Connection[ServerSession]) -> None:
        """Drop the rate-limit state of a peer that has left."""
        if self._limiter is not None:
            self._limiter.forget(id(peer))
        for core in self.mounted:
            core.forget(peer)

    def can_serve(self, needed: Requirement, request: Request) -> bool:
        """Return whether a tool's requirement is met by the client, or by the server's own model."""
        return self.stands_for(needed) or declares_capability(request.capabilities, needed)

    def stands_for(self, needed: Requirement) -> bool:
        """Return whether the server's own model can replace a client capability."""
        return self.fallback is not None and self.fallback.stands_for(needed)

    # --- resources by URI ---------------------------------------------------------------------------------------

    def resource(self, uri: str) -> ServedResource | ServedTemplate | None:
        """Return what serves a URI: a fixed resource, else the first template that matches."""
        resources = self.features.resources
        fixed = resources.get(uri)
        if fixed is None:
            # The URI may be that of a resource in another spelling.
            if self._by_normal[0] != resources.version:
                self._by_normal = resources.version, {normalize_uri(each.uri): each for each in resources}
            fixed = self._by_normal[1].get(normalize_uri(uri))
        if fixed is not None:
            return fixed
        for template in self._templates_of(uri.partition(":")[0].lower()):
            if template.match(uri) is not None:
                return template
        return None

    def owner_of(self, uri: str) -> tuple[Core, ServedResource | ServedTemplate]:
        """Return what serves a URI, and its server: this one or a mounted one; ``ResourceNotFound`` if none does."""
        found = self.resource(uri)
        if found is None:
            raise errors.ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        return (self, found) if found.via is None else found.via.mount.core.owner_of(uri)

    def _templates_of(self, scheme: str) -> Sequence[ServedTemplate]:
        """Return the templates of a scheme, in order, so that templates of other mounted servers are not tried."""
        templates = self.features.templates
        if self._by_scheme[0] != templates.version:
            found: dict[str, list[ServedTemplate]] = {}
            version = templates.version
            for template in templates:
                found.setdefault(template.uri_template.partition(":")[0].lower(), []).append(template)
            self._by_scheme = version, found
        return self._by_scheme[1].get(scheme, ())

    # --- error texts --------------------------------------------------------------------------------------------

    def failure_text(self, name: str, error: Exception) -> str:
        """Describe a failure to a client; of an unexpected one only the type, unless ``error_details`` is on."""
        if isinstance(error, errors.PeerError):
            return error.message
        if isinstance(error, errors.ToolError):
            return str(error)
        if isinstance(error, errors.ProtocolError | errors.CallTimeout | errors.SamplingFailed):
            # Our own text about an ask that could not be sent or was not answered; it contains no data of the author.
            return f"{name}: {error}"
        log.error("tool %r failed", name, exc_info=error)
        kind = type(error).__name__
        if self.error_details:
            return f"{name} failed: {kind}: {error}"
        if isinstance(error, errors.ResultInvalid) and error.mismatch:
            return f"{name} failed: its result does not fit its output schema: {error.mismatch}"
        return f"{name} failed: {kind}"

    def code_of(self, digest: Callable[[], bytes]) -> bytes:
        """Return what must be equal where a call continues: the author's ``code_version``, or else this digest."""
        return digest() if self.code_version is None else self.code_version.encode()

    @staticmethod
    def arguments_of(request: Request) -> bytes | Raw:
        """Return the arguments of a request as JSON, empty if it has none. Not copied, since they may be megabytes."""
        arguments = getattr(request.params, "arguments", None)
        if isinstance(arguments, dict):
            return encode_value(cast("dict[str, Any]", arguments))
        return arguments or b""
