"""``Core``: what the calls of one server share while it serves.

Handlers, rounds and asks hold this object instead of the ``Server``, so that they need not import it. Owns answers to
what a call needs to know about its server; ``service`` does the serving.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any, Literal

from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, PeerError, ProtocolError, ResourceNotFound, SamplingFailed, ToolError
from antiphon.protocol.capabilities import declares
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.decorators import Features
from antiphon.server.fallback import Fallback
from antiphon.server.features.completion import Completions
from antiphon.server.features.tools import Requirement
from antiphon.server.limits import Rate, RateLimiter
from antiphon.wire.envelope import encode
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.resources import ReadResourceResult

__all__ = ["Core", "Declared"]

log = logging.getLogger("antiphon.server")

Declared = Literal["tools", "prompts", "resources", "completions"]
"""A kind of features that a server may declare before it has one."""


class Core:
    """One server, as seen by its calls.

    ``features``: what it offers; the author's ``Server`` itself.
    ``completions``: the arguments that can be completed.
    ``fallback``: the server's own model, for clients without sampling.
    ``tool_rate``: how often one client may call tools; ``None`` for no limit.
    ``code_version``: must be the same for a call to continue in another process; by default the handler's code.
    ``error_details``: whether clients learn the text of unexpected exceptions of tools.
    ``declares``: the kinds of features that are declared though there may be none.
    """

    __slots__ = (
        "_declares",
        "_error_details",
        "_limiter",
        "code_version",
        "completions",
        "fallback",
        "features",
        "name",
        "state",
    )

    def __init__(
        self,
        features: Features,
        completions: Completions,
        *,
        fallback: Fallback | None = None,
        tool_rate: Rate | None = None,
        code_version: str | None = None,
        error_details: bool = False,
        declares: Collection[Declared] = (),
    ) -> None:
        self.name = features.name
        self.features = features
        self.completions = completions
        self.fallback = fallback
        self.code_version = code_version
        self.state: Any = None
        """What the lifespan yielded, while the server is open."""
        self._declares = frozenset(declares)
        self._error_details = error_details
        self._limiter = RateLimiter(tool_rate, time.monotonic) if tool_rate is not None else None

    # --- features -----------------------------------------------------------------------------------------------

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of what the server declares, and of what was added to it so far."""
        features, declares = self.features, self._declares
        has_tools = "tools" in declares or len(features.tools) > 0
        has_prompts = "prompts" in declares or len(features.prompts) > 0
        has_resources = "resources" in declares or len(features.resources) + len(features.templates) > 0
        return ServerCapabilities(
            tools=ListChangedCapability(list_changed=True) if has_tools else None,
            prompts=ListChangedCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if "completions" in declares or len(self.completions) else None,
            logging={},
        )

    def has(self, method: str, name: str) -> bool:
        """Tell whether a tool or a prompt of this name exists; ``method`` says which of the two."""
        return name in (self.features.tools if method == "tools/call" else self.features.prompts)

    # --- permissions --------------------------------------------------------------------------------------------

    def tool_wait(self, peer: Connection[ServerSession]) -> float:
        """Take a token from a peer's tool rate; return the seconds to wait for it."""
        if self._limiter is None:
            return 0.0
        return self._limiter.take(peer.principal or id(peer))

    def forget(self, peer: Connection[ServerSession]) -> None:
        """Drop the rate-limit state of a peer that has left."""
        if self._limiter is not None:
            self._limiter.forget(id(peer))

    def can_serve(self, needed: Requirement, request: Request) -> bool:
        """Tell whether a tool's requirement is met by the client, or by the server's own model."""
        if self.fallback is not None and self.fallback.stands_for(needed):
            return True
        return declares(request.capabilities, needed)

    # --- resources by URI ---------------------------------------------------------------------------------------

    async def read_resource(self, uri: str, context: Any) -> ReadResourceResult:
        """Read a resource: a fixed one, else the first template that matches. ``context`` is the reader's ``Context``.

        Raises:
            ResourceNotFound: nothing serves this URI.
        """
        fixed = self.features.resources.get(uri)
        if fixed is not None:
            return await fixed.read(uri, context)
        for template in self.features.templates:
            variables = template.match(uri)
            if variables is not None:
                return await template.read(uri, context)
        raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})

    def scopes_of_resource(self, uri: str) -> tuple[str, ...]:
        """Return what a token has to allow for a URI; nothing for one that nobody serves."""
        fixed = self.features.resources.get(uri)
        if fixed is not None:
            return fixed.scopes
        fitting = (template for template in self.features.templates if template.match(uri) is not None)
        found = next(fitting, None)
        return found.scopes if found is not None else ()

    def code_of_resource(self, uri: str) -> bytes:
        """Return the digest of the code that serves a URI; empty if none does."""
        fixed = self.features.resources.get(uri)
        fitting = (template for template in self.features.templates if template.match(uri) is not None)
        found = fixed or next(fitting, None)
        return found.code if found is not None else b""

    # --- error texts --------------------------------------------------------------------------------------------

    def failure_text(self, name: str, error: Exception) -> str:
        """Describe a failure of the tool ``name`` for a client or a model.

        An exception that is not meant for others is logged, and only its type is sent, unless ``error_details`` is on.
        """
        if isinstance(error, PeerError):
            return error.message
        if isinstance(error, ToolError):
            return str(error)
        if isinstance(error, ProtocolError | CallTimeout | SamplingFailed):
            # Our own text about an ask that could not be sent or was not answered; it contains nothing of
            # the author's.
            return f"{name}: {error}"
        log.error("tool %r failed", name, exc_info=error)
        kind = type(error).__name__
        return f"{name} failed: {kind}: {error}" if self._error_details else f"{name} failed: {kind}"

    @staticmethod
    def arguments_of(request: Request) -> bytes | Raw:
        """Return the arguments of a request as JSON, empty if it has none. Not copied, since they may be megabytes."""
        arguments = getattr(request.params, "arguments", None)
        if isinstance(arguments, dict):
            return encode(arguments)
        return arguments or b""
