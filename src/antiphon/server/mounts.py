"""Mounting: a server's features, offered by another server in the same process, with no wire between them.

Owns the names of mounted features and which mounted server a request belongs to. The registries of the outer server
include those of the mounted one, so that a call finds its target in one look-up; the request is then served by the
mounted server's own handlers, through its own middleware. ``service`` enters and leaves its lifespan.

URIs are not changed: results, links, texts and ``_meta`` contain them, where they cannot be translated.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol

from msgspec import Struct
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

SEPARATOR = "__"
"""Separates the prefix of a server from the name of its tool, as behind a gateway: ``shop__sell``."""

_PREFIX = r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*"
"""A prefix has no two underscores in a row, and none at its ends, so that the first two end it."""

_MAX_NAME = 128
"""Most characters in the name of a tool (2025-11-25 server/tools, Tool Names)."""

Peer = Connection[ServerSession]


def prefix_name(prefix: str, name: str) -> str:
    """Return the name of a tool or prompt of the server that is mounted, or configured, as ``prefix``."""
    return f"{prefix}{SEPARATOR}{name}"


class Behind(Protocol):
    """What serves the requests of a mounted server: its ``Handlers``."""

    @property
    def answering(self) -> bool:
        """Whether middleware may answer requests here, so that the registries may lack features."""
        ...

    def target(self, params: Any, request: Request, peer: Peer) -> Handled:
        """Return the handler of a call, behind the middleware. ``params``: the request's, with this server's names."""
        ...

    def definition_of(self, name: str, principal: str | None) -> Tool | None:
        """Return the definition of a tool, also of one that middleware serves; ``None`` if it is not known."""
        ...

    async def answer(self, params: Any, request: Request, peer: Peer) -> Any:
        """Serve a request that is no call, through the middleware; return its result."""
        ...

    async def around(
        self, params: Any, request: Request, peer: Peer, last: Callable[[Collection[str]], Awaitable[Any]]
    ) -> Any:
        """Run the middleware around a subscription of the outer server; ``last`` keeps it without the removed URIs."""
        ...


class Mount:
    """One server on another.

    ``prefix``: comes before the names of its tools and prompts; ``None`` leaves them as they are. ``core``: the mounted
        server. ``behind``: serves its requests.
    """

    def __init__(self, prefix: str | None, core: Core, behind: Behind) -> None:
        if prefix is not None and not re.fullmatch(_PREFIX, prefix):
            raise ConfigError(
                f"mount(prefix=) is made of letters, digits, hyphens and single underscores between them, as in "
                f'"shop"; got {prefix!r}'
            )
        self.prefix = prefix
        self.core = core
        self.behind = behind

    def name_of(self, name: str) -> str:
        """Return the name, on the outer server, of a tool or prompt of the mounted one."""
        return name if self.prefix is None else prefix_name(self.prefix, name)

    def listed(self, item: Any) -> Any:
        """Return a tool or prompt of the mounted server's list as it is listed here; any other item unchanged."""
        if self.prefix is None or not isinstance(item, Tool | Prompt):
            return item
        return replace(item, name=prefix_name(self.prefix, item.name))

    def include_in(self, outer: Core) -> Callable[[], None]:
        """Check that all names and URIs are free in the outer server; return a function that adds the features."""
        there, here = outer.features, self.core.features
        includes = [
            here.tools.include_in(there.tools, server=here.name, rename=self._tool_name, make=self._tool),
            here.prompts.include_in(there.prompts, server=here.name, rename=self.name_of, make=self._prompt),
            here.resources.include_in(there.resources, server=here.name, rename=str, make=self._readable),
            here.templates.include_in(there.templates, server=here.name, rename=str, make=self._readable),
            here.served_skills.include_in(there.served_skills, server=here.name, rename=str, make=self._skill),
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
        listed = tool.mounted(Via(self, tool.name))
        listed.name = name
        if tool.via is None and tool.requires is not None and self.core.stands_for(tool.requires):
            # The mounted server's own model serves it, whatever the client offers.
            listed.requires = None
        return listed

    def _prompt(self, prompt: ServedPrompt, name: str) -> ServedPrompt:
        listed = prompt.mounted(Via(self, prompt.name))
        listed.name = name
        return listed

    def _readable(self, item: Any, uri: str) -> Any:
        return item.mounted(Via(self, uri))

    def _skill(self, skill: Any, uri: str) -> Any:
        return replace(skill, via=Via(self, uri))


class Mounts:
    """The servers that are mounted on one server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.all: list[Mount] = []
        self.answering: list[Mount] = []
        """The mounts whose middleware may list and serve features that no registry holds, so that they are asked."""

    def add(self, mount: Mount) -> None:
        """Add a mount."""
        self.all.append(mount)
        self._core.mounted.append(mount.core)

    def refresh(self) -> None:
        """Find out again which of them may answer by middleware."""
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

        ``narrowed``: returns the params of the request with only some of its URIs. ``last``: called with the URIs that
            no asked server has granted; keeps the subscription without them.
        """
        offered: set[str] = set()
        granted: set[str] = set()

        async def enter(rest: Sequence[_AskedMount]) -> Any:
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
                # Another server may have it.
                return await enter(others)

        return await enter(self._ask_mounted(uris))

    def _ask_mounted(self, uris: Sequence[str]) -> Sequence[_AskedMount]:
        """Return which servers are asked for which URIs: the owner, or if no registry has a URI, all that may."""
        asked = [(_AskedMount(mount, [], True), _AskedMount(mount, [], False)) for mount in self.answering]
        for uri in uris:
            found = self._core.resource(uri)
            known = None if found is None or found.via is None else found.via.mount
            for owner, other in asked:
                if found is None:
                    other.uris.append(uri)
                elif owner.mount is known:
                    owner.uris.append(uri)
        return [each for pair in asked for each in pair if each.uris]


class _AskedMount(Struct, frozen=True):
    """A mounted server, and the URIs that it is asked to allow a subscription to."""

    mount: Mount
    uris: list[str]
    is_owner: bool
    """Whether the URIs are known to belong to it."""
