"""What is tried over Streamable HTTP only: headers, statuses, sessions, other origins, documents about signing in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from yarl import URL

from antiphon.auth.challenge import oauth_challenge, read_challenges
from antiphon.auth.client.discovery import covers_server, resource_places
from antiphon.check.handshakes import UNKNOWN_REVISION
from antiphon.check.http_peer import HttpAnswer, HttpPeer
from antiphon.check.peer import CLIENT, Json
from antiphon.check.probes import NOTHING
from antiphon.machine.loopback import is_loopback
from antiphon.wire.revisions import LATEST, LEGACY, REVISIONS

STRANGER = "http://attacker.example"
_VERSIONED = next(one.order for one in LEGACY if one.order > next(each.order for each in LEGACY if each.batches))
"""The first revision whose requests name it in a header: the one after batches."""


async def try_web(peer: HttpPeer) -> None:
    """Run every probe of HTTP on an open session, and end it."""
    if peer.ended:
        return
    await _try_strangers(peer)
    if peer.revision.order >= _VERSIONED:
        await _try_wrong_version(peer)
    if peer.revision.modern:
        await _try_metadata_headers(peer)
        return
    await _try_notifications(peer)
    if peer.revision.order > 0:
        # HTTP+SSE, the transport of the oldest revision, has its own rules for GET and sessions.
        await _try_get(peer)
        await _try_session(peer)


def _make_opening(peer: HttpPeer) -> Json:
    if peer.revision.modern:
        return peer.make_request("server/discover")
    params = {"protocolVersion": peer.revision.name, "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": "opening", "method": "initialize", "params": params}


async def _open_aside(peer: HttpPeer, headers: Mapping[str, str | None]) -> HttpAnswer:
    """Open a session beside the one of the peer with other headers, and end it again."""
    opening = _make_opening(peer)
    answer = await peer.post_alone(opening, headers={"mcp-session-id": None, **headers})
    session = answer.headers.get("mcp-session-id", "")
    if session and session != peer.session_id:
        await peer.request("DELETE", {**peer.headers, "mcp-session-id": session})
    return answer


def _is_success(answer: HttpAnswer) -> bool:
    return 200 <= answer.status < 300


async def _try_strangers(peer: HttpPeer) -> None:
    is_local = is_loopback(URL(peer.url).host or "")
    answer = await _open_aside(peer, {"origin": STRANGER})
    if _is_success(answer):
        peer.report("http.origin" if is_local else "http.origin-open", f"POST with Origin: {STRANGER}", str(answer))
    if is_local and _is_success(answer := await _open_aside(peer, {"host": "attacker.example"})):
        peer.report("http.host", "POST with Host: attacker.example", str(answer))
    if _is_success(answer := await _open_aside(peer, {"content-type": "text/plain"})):
        peer.report("http.plain-text", "POST with Content-Type: text/plain", str(answer))
    answer = await peer.post_alone(b"{broken", headers={"mcp-method": "ping"} if peer.revision.modern else {})
    if _is_success(answer):
        peer.report("http.garbage", "POST of a broken body", str(answer))
    elif answer.status >= 500:
        peer.report("http.server-error", "POST of a broken body", str(answer))


async def _try_wrong_version(peer: HttpPeer) -> None:
    request = peer.make_request("server/discover" if peer.revision.modern else "ping")
    answer = await peer.post_alone(request, headers={"mcp-protocol-version": UNKNOWN_REVISION})
    if _is_success(answer):
        peer.report("http.version-header", f"POST with MCP-Protocol-Version: {UNKNOWN_REVISION}", str(answer))


async def _try_metadata_headers(peer: HttpPeer) -> None:
    discover = peer.make_request("server/discover")
    older = REVISIONS[LATEST.order - 1].name
    for rule, name, value in (
        ("headers.method", "mcp-method", "ping"),
        ("headers.missing", "mcp-method", None),
        ("headers.version", "mcp-protocol-version", older),
    ):
        answer = await peer.post_alone(discover, headers={name: value})
        if _is_success(answer):
            peer.report(rule, f"POST with {name}: {value or '(none)'}", str(answer))
    named = {"prompts": ("prompts/get", "name"), "resources": ("resources/read", "uri")}
    for capability, (method, member) in named.items():
        if capability in peer.capabilities:
            request = peer.make_request(method, {member: f"antiphon-check://{NOTHING}"})
            answer = await peer.post_alone(request, headers={"mcp-name": "antiphon-check://another"})
            if _is_success(answer):
                peer.report("headers.name", f"POST {method} with another mcp-name", str(answer))
    answer = await peer.post_alone(peer.make_request(f"antiphon-check/{NOTHING}"))
    if _is_success(answer):
        peer.report("headers.unknown-method", "POST of an unknown method", str(answer))


async def _try_notifications(peer: HttpPeer) -> None:
    message = {
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": NOTHING, "reason": "no reason"},
    }  # fmt: skip
    answer = await peer.post_alone(message)
    if _is_success(answer) and (answer.status != 202 or answer.text.strip()):
        peer.report("http.accepted", "POST of a notification", str(answer))
    elif answer.status >= 500:
        peer.report("http.server-error", "POST of a notification", str(answer))


async def _try_get(peer: HttpPeer) -> None:
    headers = {**peer.headers_for(None), "accept": "text/event-stream"}
    answer = await peer.request("GET", headers, is_done=lambda: True)
    is_stream = _is_success(answer) and answer.kind == "text/event-stream"
    if answer.status and answer.status not in (401, 403, 405, 429) and not is_stream:
        peer.report("http.get", "GET", str(answer))
    if answer.status >= 500:
        return
    answer = await peer.request("GET", {**headers, "last-event-id": NOTHING}, is_done=lambda: True)
    if answer.status >= 500 and answer.status != 501:
        peer.report("http.resume", f"GET with Last-Event-ID: {NOTHING}", str(answer))


async def _try_session(peer: HttpPeer) -> None:
    if not peer.session_id:
        return
    other = await peer.post_alone(_make_opening(peer), headers={"mcp-session-id": None})
    if (second := other.headers.get("mcp-session-id", "")) == peer.session_id:
        peer.report("http.session-shared", "initialize: Mcp-Session-Id of two sessions", second)
    elif second:
        await peer.request("DELETE", {**peer.headers, "mcp-session-id": second})
    if len(peer.session_id) < 16 or peer.session_id.isdecimal():
        peer.report("http.session-guess", "initialize: Mcp-Session-Id", peer.session_id)
    ping = peer.make_request("ping")
    if _is_success(answer := await peer.post_alone(ping, headers={"mcp-session-id": None})):
        peer.report("http.session-missing", "POST without Mcp-Session-Id", str(answer))
    deleted = await peer.request("DELETE", peer.headers_for(None))
    if _is_success(deleted):
        answer = await peer.post_alone(ping)
        if answer.status and answer.status != 404:
            peer.report("http.session-ended", "POST after DELETE", str(answer))
        peer.session_id = ""
    elif deleted.status != 405:
        peer.report("http.delete", "DELETE", str(deleted))


async def try_signing_in(peer: HttpPeer) -> None:
    """Examine what a server that answers 401 says of signing in; nothing is fetched from another host."""
    refused = peer.last
    bogus = await _open_aside(peer, {"authorization": f"Bearer {NOTHING}"})
    if _is_success(bogus):
        peer.report("auth.any-token", f"POST with Authorization: Bearer {NOTHING}", str(bogus))
    challenge = oauth_challenge(read_challenges([refused.headers.get("www-authenticate", "")]))
    hint = None if challenge is None else challenge.resource_metadata
    url = URL(peer.url)
    for place in resource_places(url, hint):
        if (at := URL(place)).origin() != url.origin():
            peer.report("auth.elsewhere", "WWW-Authenticate: resource_metadata", place)
            return
        answer = await peer.request("GET", {"accept": "application/json"}, url=str(at), is_message=False)
        if answer.status == 200:
            _examine_metadata(peer, f"GET {at.path}", answer.body)
            return
    is_new = peer.revision.order >= _VERSIONED
    peer.report("auth.challenge" if is_new else "auth.undescribed", "POST: WWW-Authenticate", str(refused))


def _examine_metadata(peer: HttpPeer, place: str, body: bytes) -> None:
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        peer.report("auth.metadata", place, body)
        return
    found = cast("dict[str, Any]", found)
    if not isinstance(resource := found.get("resource"), str):
        peer.report("auth.resource", f"{place}: resource", resource)
    elif not covers_server(resource, URL(peer.url)):
        peer.report("auth.other-resource", f"{place}: resource", resource)
    servers: object = found.get("authorization_servers")
    texts = cast("list[object]", servers) if isinstance(servers, list) else []
    if not texts or not all(isinstance(one, str) for one in texts):
        peer.report("auth.servers", f"{place}: authorization_servers", cast("object", servers))
    for one in texts:
        if isinstance(one, str) and one.startswith("http://") and not is_loopback(URL(one).host or ""):
            peer.report("auth.plain-http", f"{place}: authorization_servers", one)
