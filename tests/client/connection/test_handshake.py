"""How the era of a server is found, and the revision agreed on."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from aiohttp import web

from antiphon import Client, Server
from antiphon.client.link import choose_allowed_revisions
from antiphon.errors import ConfigError, PeerError, RemoteProtocolError, UnsupportedVersion
from antiphon.server.serving.network import server_app
from tests.support.asgi import running
from tests.support.raw_server import RawServer
from tests.support.web import result, serving

ECHO = """
import sys, json
for line in sys.stdin:
    m = json.loads(line)
    {body}
"""

LEGACY = """
    if m["method"] == "initialize":
        r = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""

UNKNOWN = {"code": -32601, "message": "no such method"}


def program(body: str) -> list[str]:
    """Make the command line of a small server."""
    return [sys.executable, "-c", ECHO.replace("{body}", body.strip())]


def test_an_unknown_revision_lists_the_known_ones() -> None:
    """At construction."""
    with pytest.raises(ConfigError, match=r"2024-11-05.*2026-07-28"):
        choose_allowed_revisions("2023-01-01")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_every_revision_can_be_chosen(revision: str) -> None:
    """And is then spoken."""
    async with Client(Server("s"), revision=revision) as client:
        assert client.revision == revision


async def test_the_newest_common_revision_is_found() -> None:
    """Without a choice."""
    async with Client(Server("s", version="3")) as client:
        assert client.revision == "2026-07-28"
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("s", "3")


@pytest.mark.parametrize(
    "to_probe",
    [
        (
            'if m["method"] == "server/discover": print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": -32601, "message": "what?"}}), flush=True)'
        ),
        (
            'if m["method"] == "server/discover": print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": 7, "message": "no"}}), flush=True)'
        ),
        'if m["method"] == "server/discover": sys.exit(3)',
        (
            'if m["method"] == "server/discover": print("I do not understand", flush=True); '
            'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": -32602, "message": "?"}}), flush=True)'
        ),
    ],
)
async def test_a_legacy_server_is_found_whatever_it_does_with_the_probe(to_probe: str) -> None:
    """Any error, and even its death, means the handshake."""
    async with Client(program(to_probe + "\n" + LEGACY)) as client:
        assert client.revision == "2024-11-05"


async def test_a_silent_server_is_a_legacy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while."""
    monkeypatch.setattr("antiphon.client.link.PROBE_TIMEOUT", 0.05)
    async with Client(program(LEGACY)) as client:
        assert client.revision == "2024-11-05"


async def test_a_revision_the_server_does_not_choose_is_an_error() -> None:
    """It is not spoken by accident."""
    with pytest.raises(RemoteProtocolError, match="2024-11-05"):
        await Client(program(LEGACY), revision="2025-06-18").connect()


async def test_a_modern_revision_is_not_forced_on_a_legacy_server() -> None:
    """The error says what it wants."""
    refuse = (
        'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "?"}}), flush=True)'
    )
    with pytest.raises(ConfigError, match="handshake"):
        await Client(program(refuse), revision="2026-07-28").connect()


def refusing(data: Any) -> RawServer:
    """Make a server that refuses the revision of the probe."""
    server = RawServer()

    def refuse(message: dict[str, Any]) -> None:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        server.send({"id": message["id"], "error": error})

    server.replies["server/discover"] = refuse
    return server


async def test_a_server_that_names_an_earlier_revision_gets_its_handshake() -> None:
    """It knows the probe, and speaks nothing that new."""
    async with Client(refusing({"supported": ["2025-06-18", "2025-11-25"], "requested": "2026-07-28"})) as client:
        assert client.revision == "2025-11-25"


async def test_a_server_that_names_the_very_revision_is_asked_once_more() -> None:
    """It may have come to its senses."""
    server = refusing({"supported": ["2026-07-28"], "requested": "2026-07-28"})
    refuse = server.replies["server/discover"]

    def refuse_once(message: dict[str, Any]) -> None:
        del server.replies["server/discover"]
        refuse(message)

    server.replies["server/discover"] = refuse_once
    async with Client(server) as client:
        assert client.revision == "2026-07-28"


async def test_a_server_that_goes_on_refusing_is_left() -> None:
    """After the second time, whatever it names."""
    server = refusing({"supported": ["2026-07-28"]})
    with pytest.raises(UnsupportedVersion):
        await Client(server).connect()
    assert [message["method"] for message in server.received] == ["server/discover"] * 2


@pytest.mark.parametrize("data", [{"supported": ["2027-01-01"]}, {"supported": 3}, {}, None, ["2025-11-25"]])
async def test_a_server_that_names_none_of_ours_is_not_tried_again(data: Any) -> None:
    """Its own words are the reason."""
    with pytest.raises(UnsupportedVersion):
        await Client(refusing(data)).connect()


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_every_revision_of_streamable_http_can_be_chosen(revision: str) -> None:
    """At one address."""
    async with running(Server("s").asgi()) as place, Client(f"http://{place}/mcp", revision=revision) as client:
        assert client.revision == revision


async def test_the_newest_revision_is_found_over_http() -> None:
    """By the probe, without a handshake."""
    async with running(Server("s").asgi()) as place, Client(f"http://{place}/mcp") as client:
        assert client.revision == "2026-07-28"


async def test_a_server_of_the_first_revision_is_found_by_its_url_alone() -> None:
    """It knows no POST there: the ladder goes down to HTTP+SSE."""
    async with running(server_app(Server("s")._service, "sse", {})) as place, Client(f"http://{place}/sse") as client:
        assert client.revision < "2026-07-28"
        assert client.server_info is not None
        assert client.server_info.name == "s"


async def test_a_refusal_is_told_in_its_own_words() -> None:
    """What the older transport says of an address that never had it would hide the reason."""

    async def answers(_request: Any, _seen: Any) -> Any:
        return web.Response(status=404, text="no such shop")

    async with serving(answers) as site:
        with pytest.raises(PeerError, match="no such shop"):
            await Client(site.url).connect()


@pytest.mark.parametrize("revision", ["auto", "2025-11-25"])
async def test_a_server_that_closes_each_connection_on_its_second_request_is_used(revision: str) -> None:
    """Its connections are not kept, so that no call meets one that is about to close."""
    met: set[object] = set()
    opened = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }

    async def answers(request: Any, seen: Any) -> Any:
        if request.transport in met:
            request.transport.abort()
        met.add(request.transport)
        if seen.method != "POST" or "id" not in seen.body:
            return web.Response(status=202 if seen.method == "POST" else 405)
        if seen.body["method"] == "server/discover":
            return web.Response(status=400)
        return result(seen.body["id"], opened if seen.body["method"] == "initialize" else {"content": []})

    async with serving(answers) as site, Client(site.url, revision=revision) as client:
        for _ in range(3):
            await client.call_tool("t")


@pytest.mark.parametrize("how", ["closes", 429, 502, 503, 504])
async def test_a_modern_server_that_fails_once_is_no_legacy_one(how: Any) -> None:
    """It is probed again, since it would refuse the handshake."""
    probes = 0

    async def answers(request: Any, seen: Any) -> Any:
        nonlocal probes
        if seen.body["method"] != "server/discover":
            return web.json_response({"jsonrpc": "2.0", "id": seen.body["id"], "error": UNKNOWN}, status=404)
        probes += 1
        if probes == 1 and how == "closes":
            request.transport.abort()
        if probes == 1:
            return web.Response(status=503 if how == "closes" else how)
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
        return result(seen.body["id"], {**found, "resultType": "complete"})

    async with serving(answers) as site, Client(site.url) as client:
        assert client.revision == "2026-07-28"


async def test_a_server_that_goes_on_failing_is_not_said_to_speak_another_revision() -> None:
    """Its own words are shown."""

    async def answers(_request: Any, _seen: Any) -> Any:
        return web.Response(status=503, text="we move house")

    async with serving(answers) as site:
        with pytest.raises(PeerError, match="we move house"):
            await Client(site.url, revision="2026-07-28").connect()


async def test_a_legacy_server_over_http_is_found() -> None:
    """It answers the probe with an error, and the handshake."""

    async def answers(_request: Any, seen: Any) -> Any:
        if seen.method != "POST":
            return web.Response(status=405)
        if seen.body.get("method") == "initialize":
            said = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
            return result(seen.body["id"], said)
        return web.Response(status=400 if "id" in seen.body else 202)

    async with serving(answers) as site, Client(site.url) as client:
        assert client.revision == "2025-06-18"
