"""The servers behind a gateway as its review page shows them, and the tools that a person has switched off there.

Implements ``host.review.definitions.Servers``, which the page reads, so that the page does not depend on gateways.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from antiphon.client.connection.targets import describe_location, locate_target
from antiphon.errors import ConfigError
from antiphon.gateway.group import PrincipalGroup
from antiphon.gateway.server_catalogue import Exposure, ServerCatalogue
from antiphon.gateway.upstream import Upstream
from antiphon.host.host import Host
from antiphon.host.review.definitions import ShownServer, ShownTool
from antiphon.host.review_page import PageReviewer
from antiphon.host.store.memory_store import MemoryStore
from antiphon.wire.apps import find_app_uri, list_app_origins
from antiphon.wire.origin import describe_target

log = logging.getLogger("antiphon.gateway")


class ShownServers:
    """Implements ``host.review.definitions.Servers`` for the groups of a gateway; ``host`` is ``None`` without one."""

    def __init__(self, host: Host | None, exposure: Exposure, groups: Callable[[], Iterable[PrincipalGroup]]) -> None:
        # Without a host nothing is stored: what is switched off stays hidden until the gateway ends.
        self._store = MemoryStore() if host is None else host.store
        self._exposure = exposure
        self._groups = groups
        if host is not None and isinstance(host.reviewer, PageReviewer):
            host.reviewer.servers = self

    async def recall(self) -> None:
        """Hide the tools that were switched off before."""
        try:
            rows = await self._store.definitions()
        except Exception as error:
            # Such tools are only shown by mistake: the host reads the store itself, and refuses their calls.
            log.warning("the tools that are switched off are not known: %s", type(error).__name__)
            return
        self._hide(frozenset((row.identity, row.tool) for row in rows if row.off is not None))

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        """See ``Servers.upstreams``: one entry for each server of each group."""
        return [
            self._server(upstream, group.catalogue) for group in self._groups() for upstream in group.upstreams.values()
        ]

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        """See ``Servers.switch_tool``. Other processes refuse the tool at once, but hide it only when they start."""
        await self._store.switch_tool(identity, tool, off=None if on else time.time(), by=by)
        key = {(identity, tool)}
        self._hide(self._exposure.off - key if on else self._exposure.off | key)

    def _hide(self, off: frozenset[tuple[str, str]]) -> None:
        if off != self._exposure.off:
            self._exposure.off = off
            for group in self._groups():
                group.renew("tools")

    def _server(self, upstream: Upstream, catalogue: ServerCatalogue) -> ShownServer:
        called = catalogue.names_of(upstream.name)
        try:
            target = describe_target(describe_location(locate_target(upstream.target)))
        except ConfigError:
            target = upstream.name
        off = self._exposure.off
        return ShownServer(
            name=upstream.name,
            identity=upstream.identity,
            target=target,
            state=upstream.state,
            since=upstream.since,
            process=upstream.process if upstream.state in ("starting", "running") else None,
            # Only the first line: the others repeat the end of the standard error.
            error=upstream.error.partition("\n")[0] if upstream.error else None,
            heard=tuple(upstream.heard),
            tools=tuple(
                ShownTool(
                    tool=tool,
                    called=called.get(tool.name),
                    is_off=(upstream.identity, tool.name) in off,
                    origins=list_app_origins(find_app_uri(tool), upstream.offer.resources),
                )
                for tool in upstream.offer.tools
            ),
            conflicts=(
                *(str(one) for one in catalogue.conflicts if one.second.server == upstream.name),
                *(str(one) for one in catalogue.overlaps if one.first.server == upstream.name),
            ),
        )
