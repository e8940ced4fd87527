"""Messages of extensions: passed on between the clients of a gateway and the servers behind it, which alone know them.

A method of an extension names neither the extension nor the server. So a request goes to the server that declares an
extension whose name the method has; of several, to the one that has the tool, the prompt or the resource that the
request names. Owns this choice, and what is declared to clients on behalf of the servers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from antiphon.client.connection.targets import located, resolve
from antiphon.client.requests.calls import loose_origin
from antiphon.errors import InvalidParams, MethodNotFound, NotInRevision
from antiphon.gateway.asks import Answerers
from antiphon.gateway.catalogue import Catalogue
from antiphon.gateway.terms import Terms
from antiphon.server.middleware import ServerRequest
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.envelope import decode, encode
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Origin
from antiphon.wire.task import TASKS

__all__ = ["PassesOn", "Spoken", "addressed", "chosen", "declared_by", "note", "spoken_by", "without_ours"]

log = logging.getLogger("antiphon.gateway")

Spoken = Mapping[str, Sequence[str]]
"""By server: the extensions that it declares."""


class PassesOn:
    """What a server behind the gateway says to clients beyond the protocol. See ``client.Extension``.

    Args:
        answerers: know which requests are open.
    """

    def __init__(self, answerers: Answerers) -> None:
        self._requests = answerers.open
        declared = answerers.declared
        self.capabilities = ClientCapabilities(
            extensions=without_ours(declared.extensions), experimental=declared.experimental
        )
        """Those of the client, if asks are relayed to it."""

    async def requested(self, method: str, params: Received, origin: Origin) -> Received:
        """Have the client answer to whose request it belongs, if that speaks an extension."""
        request = self._requests.owner(origin)
        if request is None or not _speaks(request):
            raise MethodNotFound(f"Method not found: {method}")
        try:
            return await request.forward(method, params)
        except NotInRevision:
            raise MethodNotFound(f"Method not found: {method}: the client's revision has no such requests") from None

    def notified(self, method: str, params: Received) -> object:
        """Tell the clients whose requests are open, or else all."""
        if method in METHODS:
            # The end of a visit comes when it likes, mostly after the call that asked for it.
            return self._requests.clients.tell(method, params)
        return self._requests.notify(method, params)


def _speaks(request: ServerRequest) -> bool:
    offered = request.ctx.request.capabilities
    return bool(without_ours(offered.extensions) or offered.experimental)


def without_ours(extensions: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the extensions that are passed on without being known; ``None`` if there are none."""
    return {name: value for name, value in (extensions or {}).items() if name != TASKS} or None


def declared_by(client: Mapping[str, Any] | None, *, tasks: bool) -> dict[str, Any] | None:
    """Return what a request declares of its client's extensions; tasks only where they may come of it."""
    declared = without_ours(client)
    return {**(declared or {}), TASKS: {}} if tasks else declared


def spoken_by(server: str, extensions: Mapping[str, Any], experimental: Mapping[str, Any]) -> Spoken:
    """Return a server with what it declares; nothing if it declares nothing beyond the protocol."""
    names = [*(without_ours(extensions) or ()), *experimental]
    return {server: names} if names else {}


def addressed(method: str, spoken: Spoken) -> list[str]:
    """Return the servers that a message may be for: by the name of an extension, or else all that declare one."""
    by_name = [server for server, names in spoken.items() if any(_fits(method, name) for name in names)]
    return by_name or list(spoken)


def _fits(method: str, extension: str) -> bool:
    """Tell whether a method has the name of an extension: ``com.example/maps`` has ``maps/find``."""
    plain = method.removeprefix("notifications/")
    return any(
        plain == name or plain.startswith((f"{name}/", f"{name}."))
        for name in (extension, extension.rpartition("/")[2])
    )


def chosen(method: str, params: Raw, spoken: Spoken, catalogue: Catalogue) -> tuple[str, Raw]:
    """Return the server that a request is for, and its params in the names of that server.

    Raises:
        MethodNotFound: no server declares an extension.
        InvalidParams: several do, and the params name nothing of one of them.
    """
    servers = addressed(method, spoken)
    if not servers:
        raise MethodNotFound(f"Method not found: {method}: no server here declares an extension")
    members = decode(params, dict[str, Raw])
    named = _text(members.get("name"))
    owned = catalogue.find("tool", named) or catalogue.find("prompt", named) if named is not None else None
    if owned is not None and owned.server in servers:
        return owned.server, Raw(encode({**members, "name": owned.name}))
    uri = _text(members.get("uri"))
    reader = catalogue.reader(uri) if uri is not None else None
    if reader in servers:
        return reader, params
    if len(servers) > 1:
        several = " and ".join(map(repr, sorted(servers)[:10]))
        raise InvalidParams(f"{method} may be for {several}: name a tool, a prompt or a resource of one of them")
    return servers[0], params


def _text(member: Raw | None) -> str | None:
    value = decode(member, object) if member is not None else None
    return value if isinstance(value, str) else None


async def note(terms: Terms, target: Any, method: str) -> None:
    """Record a request before it is passed on. The client is trusted to make it, so nobody is asked."""
    log.info("%s is passed on", method)
    if terms.host is not None:
        await terms.host.audit.record(loose_origin(located(resolve(target))), method, "answered", "passed-on")
