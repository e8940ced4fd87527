"""Mounting: a server's features, offered by another server in the same process, with no wire between them.

Owns the names of mounted features and which mounted server a request belongs to. The registries of the outer server
include those of the mounted one, so that a call finds its target in one look-up; the request is then served by the
mounted server's own handlers, through its own middleware. ``service`` enters and leaves its lifespan.

URIs are not changed: they are in results, links, texts and ``_meta``, where nobody could translate them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, ResourceNotFound
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Handled
from antiphon.server.core import Core
from antiphon.server.features.prompts import ServedPrompt
from antiphon.server.features.registry import Via
from antiphon.server.features.tools import ServedTool
from antiphon.wire.common import Wire
from antiphon.wire.prompts import Prompt
from antiphon.wire.tools import Tool

__all__ = ["SEPARATOR", "Behind", "Mount", "Mounts", "prefixed"]

SEPARATOR = "__"
"""Stands between a server's name and its tool's, as behind a gateway: ``shop__sell``."""

_PREFIX = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
"""A prefix neither holds two underscores in a row nor begins or ends with one, so that the first two separate."""

_MAX_NAME = 128
"""Most characters in the name of a tool (2025-11-25 server/tools, Tool Names)."""

Peer = Connection[ServerSession]


def prefixed(prefix: str, name: str) -> str:
    """Return the name of a tool or prompt of the server that is mounted, or configured, as ``prefix``."""
    return f"{prefix}{SEPARATOR}{name}"


class Behind(Protocol):
    """What serves the requests of a mounted server: its ``Handlers``."""

    @property
    def answering(self) -> bool:
        """Whether middleware may answer requests here, so that the registries do not say all there is."""
        ...

    def target(self, params: Any, request: Request, peer: Peer) -> Handled:
        """Return what serves a call, behind the middleware. ``params``: the request's, in this server's names."""
        ...

    def definition_of(self, name: str, principal: str | None) -> Tool | None:
        """Return the definition of a tool, be it one that middleware serves, as far as it is known."""
        ...

    async def answer(self, params: Any, request: Request, peer: Peer) -> Any:
        """Serve a request that is no call, through the middleware; return its result."""
        ...

    async def around(
        self, params: Any, request: Request, peer: Peer, last: Callable[[Collection[str]], Awaitable[Any]]
    ) -> Any:
        """Run the middleware around a subscription that the outer server keeps.

        ``last``: keeps it, without the URIs that it is given.
        """
        ...


class Mount:
    """One server on another.

    ``prefix``: what its tools and prompts are called by, ``None`` for their own names. ``core``: the mounted server.
    ``behind``: what serves its requests.
    """

    def __init__(self, prefix: str | None, core: Core, behind: Behind) -> None:
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            raise ConfigError(
                f"mount(prefix=) is made of letters, digits, hyphens and single underscores between them, as in "
                f'"shop"; got {prefix!r}'
            )
        self.prefix = prefix
        self.core = core
        self.behind = behind

    def name_of(self, name: str) -> str:
        """Return the name, on the outer server, of a tool or prompt of the mounted one."""
        return name if self.prefix is None else prefixed(self.prefix, name)

    def listed(self, item: Any) -> Any:
        """Return a tool or prompt of the mounted server's list as it is listed here; anything else as it is."""
        if self.prefix is None or not isinstance(item, Tool | Prompt):
            return item
        return replace(item, name=prefixed(self.prefix, item.name))

    def include_in(self, outer: Core) -> Callable[[], None]:
        """Find room for all features on the outer server; return what puts them there.

        Raises:
            ConfigError: a name or URI is taken there, or too long; the message names both servers.
        """
        there, here = outer.features, self.core.features
        includes = [
            here.tools.include_in(there.tools, server=here.name, rename=self._tool_name, make=self._tool),
            here.prompts.include_in(there.prompts, server=here.name, rename=self.name_of, make=self._prompt),
            here.resources.include_in(there.resources, server=here.name, rename=_same, make=self._readable),
            here.templates.include_in(there.templates, server=here.name, rename=_same, make=self._readable),
        ]

        def include() -> None:
            for each in includes:
                each()

        return include

    def _tool_name(self, name: str) -> str:
        made = self.name_of(name)
        if len(made) > _MAX_NAME:
            raise ConfigError(
                f"the name {made!r} of a tool of {self.core.name!r} has more than {_MAX_NAME} characters: mount the "
                "server with a shorter prefix"
            )
        return made

    def _tool(self, tool: ServedTool, name: str) -> ServedTool:
        listed = tool.mounted(name, Via(self, tool.name))
        if tool.via is None and tool.requires is not None and self.core.stands_for(tool.requires):
            # The mounted server's own model serves it, whatever the client offers.
            listed.requires = None
        return listed

    def _prompt(self, prompt: ServedPrompt, name: str) -> ServedPrompt:
        return prompt.mounted(name, Via(self, prompt.name))

    def _readable(self, item: Any, uri: str) -> Any:
        return item.mounted(Via(self, uri))


def _same(uri: str) -> str:
    return uri


class Mounts:
    """What is mounted on one server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.all: list[Mount] = []
        self.answering: list[Mount] = []
        """Those whose middleware may list and serve what no registry holds: they are asked."""

    def add(self, mount: Mount) -> None:
        """Add a mount."""
        self.all.append(mount)
        self._core.mounted.append(mount.core)
        self.refresh()

    def refresh(self) -> None:
        """Find out anew which of them answer by middleware."""
        self.answering = [mount for mount in self.all if mount.behind.answering]

    def by_name(self, name: str) -> Via | None:
        """Return which server may serve a tool or prompt that no registry holds, and its name there."""
        if not self.answering:
            return None
        prefix, mark, rest = name.partition(SEPARATOR)
        for mount in self.answering:
            if mark and mount.prefix == prefix:
                return Via(mount, rest)
        plain = next((mount for mount in self.answering if mount.prefix is None), None)
        return None if plain is None else Via(plain, name)

    # --- what no registry holds ---------------------------------------------------------------------------------

    def read(self, params: Any, request: Request, peer: Peer) -> Handled:
        """Return what reads a resource that no registry holds: the first mounted server that knows it."""
        mounts = list(self.answering)

        async def body(call: Any) -> Wire:
            for mount in mounts:
                try:
                    return await mount.behind.target(params, request, peer).body(call)
                except ResourceNotFound:
                    continue
            raise ResourceNotFound(f"Resource not found: {params.uri}", data={"uri": params.uri})

        return Handled(
            params.uri,
            body,
            lambda: b"".join(m.behind.target(params, request, peer).code() for m in mounts),
            repeats=True,
        )

    # --- subscriptions ------------------------------------------------------------------------------------------

    async def around(
        self, uris: Sequence[str], narrowed: Callable[[Sequence[str]], Any], request: Request, peer: Peer,
        last: Callable[[Collection[str]], Awaitable[Any]],
    ) -> Any:  # fmt: skip
        """Run the middleware of every mounted server that may have one of these URIs, one inside the other.

        ``narrowed``: returns the params of the request with only some of its URIs. ``last``: keeps the subscription,
        without the URIs that it is given: those that every server that was asked for them has taken out.
        """
        offered: set[str] = set()
        granted: set[str] = set()

        async def enter(rest: Sequence[_Asked]) -> Any:
            if not rest:
                return await last(offered - granted)
            asked, *others = rest
            has_passed = False

            async def onward(dropped: Collection[str]) -> Any:
                nonlocal has_passed
                has_passed = True
                granted.update(uri for uri in asked.uris if uri not in dropped)
                return await enter(others)

            offered.update(asked.uris)
            try:
                return await asked.mount.behind.around(narrowed(asked.uris), request, peer, onward)
            except ResourceNotFound:
                if asked.is_owner or has_passed:
                    raise
                # It is another's.
                return await enter(others)

        return await enter(self._asked(uris))

    def _asked(self, uris: Sequence[str]) -> Sequence[_Asked]:
        """Return who is asked for which URIs: the owner, or for one that no registry holds, all that may know it."""
        asked = [(_Asked(mount, [], True), _Asked(mount, [], False)) for mount in self.answering]
        for uri in uris:
            found = self._core.resource(uri)
            known = None if found is None or found.via is None else found.via.mount
            for owner, other in asked:
                if found is None:
                    other.uris.append(uri)
                elif owner.mount is known:
                    owner.uris.append(uri)
        return [each for pair in asked for each in pair if each.uris]


class _Asked(NamedTuple):
    """A mounted server that is asked whether these resources may be subscribed to."""

    mount: Mount
    uris: list[str]
    is_owner: bool
    """Whether it is known that they are its."""
