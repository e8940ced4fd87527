"""Messages of extensions, which a gateway passes on between its clients and servers without knowing the extension.

A method of an extension names neither the extension nor the server. So a request goes to the server that declares an
extension with the method's name; if there are several, to the one with the tool, prompt or resource that the request
names. Owns this choice, and what is declared to clients on behalf of the servers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from antiphon.client.connection.targets import describe_location, locate_target
from antiphon.client.requests.request_calls import loose_origin
from antiphon.errors import InvalidParams, MethodNotFound, NotInRevision
from antiphon.gateway.relayed_asks import Answerers
from antiphon.gateway.server_catalogue import ServerCatalogue
from antiphon.gateway.terms import GatewayTerms
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Origin
from antiphon.wire.skills import SKILLS
from antiphon.wire.task import TASKS

log = logging.getLogger("antiphon.gateway")

Spoken = Mapping[str, Sequence[str]]
"""The extensions that each server declares, by the name of the server."""


class PassesOn:
    """Passes messages of extensions from one server on to the clients. See ``client.Extension``."""

    def __init__(self, answerers: Answerers) -> None:
        self._requests = answerers.open
        declared = answerers.declared
        self.capabilities = ClientCapabilities(
            extensions=without_ours(declared.extensions), experimental=declared.experimental
        )
        """The client's extensions, if asks are relayed to it."""

    async def requested(self, method: str, params: Received, origin: Origin) -> Received:
        """Have the client answer whose request this belongs to, if it declares an extension."""
        request = self._requests.owner(origin)
        offered = ClientCapabilities() if request is None else request.ctx.request.capabilities
        if request is None or not (without_ours(offered.extensions) or offered.experimental):
            raise MethodNotFound(f"Method not found: {method}")
        try:
            return await request.forward(method, params)
        except NotInRevision:
            raise MethodNotFound(f"Method not found: {method}: the client's revision has no such requests") from None

    def notified(self, method: str, params: Received) -> object:
        """Pass a notification on to the clients with open requests, or to all clients if no request is open."""
        if method in METHODS:
            # The end of a URL elicitation is reported at any time, mostly after the call that asked for it.
            return self._requests.clients.tell(method, params)
        return self._requests.notify(method, params)


def without_ours(extensions: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the extensions that this library does not implement; ``None`` if there are none."""
    return {name: value for name, value in (extensions or {}).items() if name not in (TASKS, SKILLS)} or None


def choose_extensions(client: Mapping[str, Any] | None, *, tasks: bool) -> dict[str, Any] | None:
    """Return the extensions to declare in a request for a client. ``tasks``: whether the call may become a task."""
    declared = without_ours(client)
    return {**(declared or {}), TASKS: {}} if tasks else declared


def find_server_extensions(server: str, extensions: Mapping[str, Any], experimental: Mapping[str, Any]) -> Spoken:
    """Return a server with the extensions that it declares; an empty mapping if it declares none."""
    names = [*(without_ours(extensions) or ()), *experimental]
    return {server: names} if names else {}


def list_addressed_servers(method: str, spoken: Spoken) -> list[str]:
    """Return the servers a message may be for: those whose extension has its name, else all that declare any."""
    by_name = [server for server, names in spoken.items() if any(_fits_extension(method, name) for name in names)]
    return by_name or list(spoken)


def _fits_extension(method: str, extension: str) -> bool:
    """Return whether a method has the name of an extension: ``com.example/maps`` has ``maps/find``."""
    plain = method.removeprefix("notifications/")
    return any(
        plain == name or plain.startswith((f"{name}/", f"{name}."))
        for name in (extension, extension.rpartition("/")[2])
    )


def choose_server(method: str, params: Raw, spoken: Spoken, catalogue: ServerCatalogue) -> tuple[str, Raw]:
    """Return the server that a request is for, and its params in the names of that server.

    Raises ``MethodNotFound`` if no server declares an extension, and ``InvalidParams`` if several do, and the params
    name no tool, prompt or resource of any of them.
    """
    servers = list_addressed_servers(method, spoken)
    if not servers:
        raise MethodNotFound(f"Method not found: {method}: no server here declares an extension")
    members = decode_wire(params, dict[str, Raw])
    named = _decode_text(members.get("name"))
    owned = catalogue.find("tool", named) or catalogue.find("prompt", named) if named is not None else None
    if owned is not None and owned.server in servers:
        return owned.server, Raw(encode_value({**members, "name": owned.name}))
    uri = _decode_text(members.get("uri"))
    reader = catalogue.reader(uri) if uri is not None else None
    if reader in servers:
        return reader, params
    if len(servers) > 1:
        several = " and ".join(map(repr, sorted(servers)[:10]))
        raise InvalidParams(f"{method} may be for {several}: name a tool, a prompt or a resource of one of them")
    return servers[0], params


def _decode_text(member: Raw | None) -> str | None:
    value = decode_wire(member, object) if member is not None else None
    return value if isinstance(value, str) else None


async def note_request(terms: GatewayTerms, target: Any, method: str) -> None:
    """Record a request before it is passed on. The client may make any request of an extension: nobody is asked."""
    log.info("%s is passed on", method)
    if terms.host is not None:
        await terms.host.audit.record(
            loose_origin(describe_location(locate_target(target))), method, "answered", "passed-on"
        )
