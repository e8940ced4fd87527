"""How a session begins, and whether the server speaks a revision at all."""

from __future__ import annotations

from typing import cast

from antiphon.check.http_peer import HttpPeer
from antiphon.check.message_rules import find_result_faults
from antiphon.check.peer import CLIENT, Json, RawPeer
from antiphon.wire.common import PROTOCOL_VERSION
from antiphon.wire.revisions import REVISIONS

UNKNOWN_REVISION = "1999-12-31"
"""A revision that never was."""


async def open_session(peer: RawPeer, *, is_first: bool) -> bool:
    """Open a session, and return whether the server speaks the revision of the peer.

    ``is_first``: silence is a fault, because the server has answered nothing yet.
    """
    if peer.revision.modern:
        return await _discover(peer, is_first=is_first)
    params = {"protocolVersion": peer.revision.name, "capabilities": peer.declares, "clientInfo": CLIENT}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    reply = await peer.ask_for(request, quiet=True)
    if reply is None:
        _report_silence(peer, "initialize", is_first=is_first)
        return False
    result = reply.get("result")
    if not isinstance(result, dict):
        return False
    peer.opening = cast("Json", result)
    if isinstance(peer, HttpPeer):
        _take_session_id(peer)
    speaks = peer.opening.get("protocolVersion") == peer.revision.name
    if not isinstance(version := peer.opening.get("protocolVersion"), str):
        peer.report("handshake.version-missing", "initialize: protocolVersion", version)
    if speaks:
        _examine_opening(peer, "initialize")
        info: object = peer.opening.get("serverInfo")
        members = cast("Json", info) if isinstance(info, dict) else {}
        if not all(isinstance(members.get(name), str) for name in ("name", "version")):
            peer.report("handshake.server-info", "initialize: serverInfo", info)
    if speaks:
        await peer.notify("notifications/initialized")
    return speaks


def _report_silence(peer: RawPeer, method: str, *, is_first: bool) -> None:
    if is_first and not peer.ended.startswith("redirected"):
        peer.report("handshake.none", method, peer.ended or f"no reply within {peer.wait:g} s")


def _take_session_id(peer: HttpPeer) -> None:
    peer.session_id = peer.last.headers.get("mcp-session-id", "")
    if not all("\x21" <= char <= "\x7e" for char in peer.session_id):
        peer.report("http.session-id", "initialize: Mcp-Session-Id", repr(peer.session_id))
        peer.ended = "its session id cannot be sent"


async def _discover(peer: RawPeer, *, is_first: bool) -> bool:
    reply = await peer.ask_for(peer.make_request("server/discover"), quiet=True)
    if reply is None:
        _report_silence(peer, "server/discover", is_first=is_first)
        return False
    result = reply.get("result")
    if not isinstance(result, dict):
        return False
    peer.opening = cast("Json", result)
    versions = peer.opening.get("supportedVersions")
    if not isinstance(versions, list) or not all(isinstance(one, str) for one in cast("list[object]", versions)):
        peer.report("discover.versions", "server/discover: supportedVersions", cast("object", versions))
    elif peer.revision.name not in versions:
        return False
    for rule, seen in find_result_faults("server/discover", peer.opening, modern=True):
        peer.report(rule, "server/discover", seen)
    _examine_opening(peer, "server/discover")
    return True


def _examine_opening(peer: RawPeer, method: str) -> None:
    opening = peer.opening
    if not isinstance(opening.get("capabilities"), dict):
        peer.report("handshake.capabilities", f"{method}: capabilities", opening.get("capabilities"))
    if not isinstance(opening.get("instructions", ""), str):
        peer.report("handshake.instructions", f"{method}: instructions", opening["instructions"])
    for name, declared in peer.capabilities.items():
        if not isinstance(declared, dict):
            peer.report("handshake.capability", f"{method}: capabilities.{name}", declared)


async def try_unknown_revision(peer: RawPeer) -> None:
    """Ask for a revision that never was, on a connection of its own."""
    if peer.revision.modern:
        request = peer.make_request("server/discover")
        request["params"]["_meta"] = {**request["params"]["_meta"], PROTOCOL_VERSION: UNKNOWN_REVISION}
        reply = await peer.ask_for(request, place="server/discover of an unknown revision")
        error = None if reply is None else reply.get("error", {"code": None})
        if isinstance(error, dict) and cast("Json", error).get("code") not in (-32022, -32020, 0):
            peer.report("discover.unsupported", "server/discover of an unknown revision", reply)
        return
    params = {"protocolVersion": UNKNOWN_REVISION, "capabilities": {}, "clientInfo": CLIENT}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    reply = await peer.ask_for(request, place="initialize with an unknown revision")
    if reply is None or not isinstance(reply.get("result"), dict):
        if reply is not None:
            peer.report("handshake.refused", "initialize with an unknown revision", reply)
        return
    version = reply["result"].get("protocolVersion")
    if version == UNKNOWN_REVISION:
        peer.report("handshake.version", "initialize: protocolVersion", f"{version!r}, which never was")
    elif version not in {one.name for one in REVISIONS}:
        peer.report("handshake.version-unknown", "initialize: protocolVersion", f"{version!r} is no revision")
