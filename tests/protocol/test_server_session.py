"""The server's side: handshake, discovery, eras, gates, log messages and asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.protocol.events import Answered, Event, Ignored, Notified, Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.protocol.session import Phase
from antiphon.wire.common import ClientCapabilities, SamplingCapability
from antiphon.wire.lifecycle import ListChangedCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS, Revision
from antiphon.wire.tools import CallToolResult
from tests.support import mcp_schema
from tests.support.pair import EVERYTHING, SERVER, Pair, decoded, error_of, frame

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
ONLY_TOOLS = ServerCapabilities(tools=ListChangedCapability())


def fresh(speaks: tuple[Revision, ...] = REVISIONS, serves: ServerCapabilities = EVERYTHING) -> ServerSession:
    """Make a server that nobody has spoken to."""
    return ServerSession(ServerOffer(SERVER, serves, None, speaks))


def meta(**changes: Any) -> dict[str, Any]:
    """Make modern metadata with other values; ``None`` leaves a member out."""
    merged = {**META, **{f"io.modelcontextprotocol/{name}": value for name, value in changes.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def send(session: ServerSession, method: str, id: Any = 1, **params: Any) -> Event:
    """Send a request written by hand."""
    return session.receive(frame(id=id, method=method, params=params))


def result_of(event: Event) -> dict[str, Any]:
    """Return the result of a reply the session gave by itself."""
    assert isinstance(event, Answered), event
    return json.loads(event.reply)["result"]


# --- the handshake --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("lifecycle.first", "lifecycle.server-responds", "lifecycle.version-same")
@pytest.mark.parametrize("revision", LEGACY)
def test_the_handshake_agrees_on_the_revision_that_was_asked_for(revision):
    """NEW, then ANSWERED, then READY; the reply fits the revision's own schema."""
    session = fresh()
    result = result_of(send(session, "initialize", **{**HELLO, "protocolVersion": revision.name}))
    assert mcp_schema.problems(revision.name, "InitializeResult", result) == []
    assert result["protocolVersion"] == revision.name
    assert result["serverInfo"] == {"name": "pair-server", "version": "2"}
    assert (session.phase, session.revision) == (Phase.ANSWERED, revision)
    assert isinstance(session.receive(frame(method="notifications/initialized")), Notified)
    assert session.phase is Phase.READY


@pytest.mark.requirement("lifecycle.version-other")
@pytest.mark.parametrize("requested", ["2026-07-28", "1.0", "", "2099-01-01", "2025-11-25 "])
def test_an_unknown_or_modern_version_gets_the_newest_legacy_one(requested):
    """A handshake can only agree on a revision that has one."""
    result = result_of(send(fresh(), "initialize", **{**HELLO, "protocolVersion": requested}))
    assert result["protocolVersion"] == LATEST_LEGACY.name


@pytest.mark.requirement("lifecycle.version-other")
def test_a_server_that_speaks_less_answers_with_the_newest_it_speaks():
    """What it does not speak it never agrees to."""
    result = result_of(send(fresh((LEGACY[0], LEGACY[1], LATEST)), "initialize", **HELLO))
    assert result["protocolVersion"] == LEGACY[1].name


@pytest.mark.requirement("versioning.initialize-names")
def test_a_modern_server_names_its_versions_in_the_error_to_initialize():
    """A legacy client has nothing else to show its user."""
    error = error_of(send(fresh((LATEST,)), "initialize", **HELLO))
    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


def test_a_second_initialize_is_refused():
    """And changes nothing of what was agreed."""
    pair = Pair.opened(LEGACY[0])
    error = error_of(send(pair.server, "initialize", id=9, **HELLO))
    assert error["code"] == -32600
    assert pair.server.revision is LEGACY[0]


@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities", "clientInfo"])
def test_an_initialize_that_lacks_something_has_invalid_params(missing):
    """The message names the place, and a good one may still follow."""
    session = fresh()
    params = {name: value for name, value in HELLO.items() if name != missing}
    error = error_of(send(session, "initialize", **params))
    assert error["code"] == -32602
    assert missing in error["message"]
    assert result_of(send(session, "initialize", **HELLO))


@pytest.mark.requirement("lifecycle.first")
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.kind == "request"] + ["no/such"])
def test_before_initialize_only_three_methods_are_served(method):
    """Everything else is -32600, whatever its params are, and nothing of it begins."""
    session = fresh()
    event = session.receive(frame(id=1, method=method))
    if method == "ping":
        assert result_of(event) == {}
    elif method in {"initialize", "server/discover"}:
        assert error_of(event)["code"] == -32602
    else:
        assert error_of(event)["code"] == -32600
        assert method in error_of(event)["message"]
    assert session.incoming == {}


def test_an_answered_initialize_is_enough_to_be_served():
    """Over HTTP the initialized notification races the first request."""
    session = fresh()
    send(session, "initialize", **HELLO)
    assert isinstance(send(session, "tools/list", id=2), Request)


@pytest.mark.requirement("lifecycle.first")
def test_initialized_counts_once_and_in_its_place():
    """Before the handshake and after it, it has no effect."""
    session = fresh()
    notice = frame(method="notifications/initialized")
    assert isinstance(session.receive(notice), Ignored)
    send(session, "initialize", **HELLO)
    assert isinstance(session.receive(notice), Notified)
    assert isinstance(session.receive(notice), Ignored)


@pytest.mark.requirement("ping.prompt")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_ping_is_answered_at_once_in_every_phase(revision):
    """By the session itself, with an empty result."""
    session = fresh()
    assert result_of(send(session, "ping")) == {}
    send(session, "initialize", **{**HELLO, "protocolVersion": revision.name})
    assert result_of(send(session, "ping", id=2)) == {}


@pytest.mark.parametrize("speaks", [(LEGACY[0],), (LEGACY[1], LATEST), (LEGACY[2], LEGACY[0])])
def test_a_ping_before_the_handshake_is_answered_whatever_the_server_speaks(speaks):
    """Not every server speaks the newest legacy revision."""
    assert result_of(send(fresh(speaks), "ping")) == {}


# --- the two eras ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("versioning.discover", "base.result-type", "base.server-info")
def test_discover_says_what_is_spoken_and_offered():
    """Newest first, legacy revisions included; answered by the session itself, without a handshake."""
    result = result_of(send(fresh(), "server/discover", _meta=meta()))
    assert mcp_schema.problems("2026-07-28", "DiscoverResult", result) == []
    assert result["supportedVersions"] == [each.name for each in reversed(REVISIONS)]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "pair-server"
    assert (result["resultType"], result["cacheScope"]) == ("complete", "public")


def test_what_is_supported_is_listed_newest_first_whatever_the_order_given():
    """The order of the option does not matter."""
    result = result_of(send(fresh((LATEST, LEGACY[0], LEGACY[2])), "server/discover", _meta=meta()))
    assert result["supportedVersions"] == [LATEST.name, LEGACY[2].name, LEGACY[0].name]


@pytest.mark.requirement("versioning.era", "base.stateless")
def test_a_modern_request_needs_no_handshake_and_leaves_none():
    """Revision, capabilities and log level come from the request, and from no other."""
    session = fresh()
    first = send(session, "tools/list", id=1, _meta=meta(clientCapabilities={"sampling": {}}, logLevel="info"))
    second = send(session, "tools/list", id=2, _meta=meta())
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert first.capabilities == ClientCapabilities(sampling=SamplingCapability())
    assert second.capabilities == ClientCapabilities()
    assert second.meta is not None
    assert second.meta.log_level is None
    assert (session.revision, session.phase) == (None, Phase.NEW)
    assert error_of(send(session, "tools/list", id=3))["code"] == -32600


@pytest.mark.requirement("versioning.era", "base.stateless")
def test_both_eras_may_share_a_channel():
    """A modern request in the midst of a legacy session is served by its own rules, and the session goes on."""
    pair = Pair.opened(LEGACY[1], offers=ClientCapabilities())
    modern = send(pair.server, "tools/call", id="m", name="t", _meta=meta(clientCapabilities={"roots": {}}))
    legacy = send(pair.server, "tools/call", id="l", name="t")
    assert isinstance(modern, Request)
    assert isinstance(legacy, Request)
    assert (modern.revision, legacy.revision) == (LATEST, LEGACY[1])
    assert legacy.capabilities == ClientCapabilities()
    done = CallToolResult(content=[])
    assert "resultType" in decoded(pair.server.reply(modern, done))["result"]
    assert "resultType" not in decoded(pair.server.reply(legacy, done))["result"]


@pytest.mark.requirement("versioning.unsupported")
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "no/such/method", "initialize", "ping"])
@pytest.mark.parametrize("requested", ["2027-01-01", "1900-01-01", "2025-11-25", "DRAFT", ""])
def test_an_unsupported_version_is_said_first(method, requested):
    """-32022 with what is supported, before anything else that is wrong; a legacy name is no modern version."""
    error = error_of(send(fresh(), method, _meta=meta(protocolVersion=requested)))
    assert error["code"] == -32022
    assert error["data"] == {"supported": [each.name for each in reversed(REVISIONS)], "requested": requested}


@pytest.mark.requirement("versioning.unsupported")
def test_an_unsupported_version_is_said_before_bad_params():
    """The params of a revision we do not know may have another shape."""
    error = error_of(send(fresh(), "tools/call", name={"new": "shape"}, _meta=meta(protocolVersion="2027-01-01")))
    assert error["code"] == -32022


@pytest.mark.requirement("base.meta-required")
@pytest.mark.parametrize(
    ("method", "metadata"),
    [
        ("tools/list", meta(clientCapabilities=None)),
        ("server/discover", meta(clientCapabilities=None)),
        ("server/discover", meta(protocolVersion=None)),
        ("server/discover", {}),
        ("tools/list", meta(protocolVersion=None)),
        ("tools/list", {"io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}}),
        ("tools/list", meta(protocolVersion=5)),
        ("tools/list", meta(clientCapabilities=[1])),
        ("tools/list", meta(clientInfo={"name": "no version"})),
        ("tools/list", meta(progressToken=[])),
    ],
)
def test_a_broken_modern_request_has_invalid_params(method, metadata):
    """What it lacks or cannot be read is -32602, not a missing handshake; without ``progressToken`` under a prefix."""
    event = send(fresh(), method, _meta=metadata)
    if "io.modelcontextprotocol/progressToken" in metadata:
        assert isinstance(event, Request)
    else:
        assert error_of(event)["code"] == -32602


@pytest.mark.requirement("logging.invalid-level")
def test_an_unknown_log_level_has_invalid_params():
    """In a modern request's metadata, and in ``logging/setLevel``."""
    assert error_of(send(fresh(), "tools/list", _meta=meta(logLevel="loud")))["code"] == -32602
    assert error_of(send(Pair.opened(LATEST_LEGACY).server, "logging/setLevel", id=9, level="loud"))["code"] == -32602


@pytest.mark.requirement("base.meta-required")
@pytest.mark.parametrize("method", ["tools/list", "ping", "no/such", "server/discover"])
def test_a_modern_only_server_wants_metadata_on_every_request(method):
    """There is no handshake to wait for."""
    error = error_of(send(fresh((LATEST,)), method))
    assert error["code"] == -32602
    assert "protocolVersion" in error["message"]


@pytest.mark.requirement("base.jsonrpc")
@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such"]
)
@pytest.mark.parametrize("params", [{}, {"level": 5, "uri": []}])
def test_what_the_modern_revision_dropped_is_not_found(method, params):
    """-32601, also where the params would not fit."""
    error = error_of(send(fresh(), method, _meta=meta(), **params))
    assert error["code"] == -32601
    assert method in error["message"]


def test_an_error_to_a_modern_client_has_no_null_id():
    """It has seen none of the revisions that want one."""
    session = fresh()
    send(session, "server/discover", _meta=meta())
    event = session.receive(b"nonsense")
    assert isinstance(event, Answered)
    assert "id" not in json.loads(event.reply)


# --- methods and capabilities ---------------------------------------------------------------------------------------


@pytest.mark.requirement("base.jsonrpc", "lifecycle.negotiated")
@pytest.mark.parametrize("params", [{}, {"name": 5}])
@pytest.mark.parametrize(
    "method",
    [
        "no/such",
        "prompts/get",
        "resources/read",
        "logging/setLevel",
        "server/discover2",
        "subscriptions/listen",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
        "notifications/initialized",
    ],
)
def test_what_is_not_served_is_not_found(method, params):
    """-32601 for the unknown, the undeclared, the other side's and other revisions' methods, whatever the params."""
    pair = Pair.opened(LATEST_LEGACY, serves=ONLY_TOOLS)
    error = error_of(send(pair.server, method, id=9, **params))
    assert error["code"] == -32601
    assert pair.server.incoming == {}


def test_a_notification_sent_as_a_request_is_not_found():
    """With metadata of its own kind it must not be mistaken for a request's."""
    for name in (name for name, row in METHODS.items() if row.kind == "notification"):
        params = {"_meta": {"a": 1}, "progressToken": 1, "progress": 1, "level": "info", "data": 1, "uri": "a:b"}
        assert error_of(send(Pair.opened(LATEST_LEGACY).server, name, id=9, **params))["code"] == -32601


@pytest.mark.requirement("base.jsonrpc")
@pytest.mark.parametrize(
    "params", [{}, {"name": 5}, {"name": "t", "_meta": 5}, {"name": "t", "_meta": {"progressToken": 1.5}}]
)
def test_params_that_do_not_fit_are_invalid(params):
    """-32602, and the message names the place."""
    error = error_of(send(Pair.opened(LATEST_LEGACY).server, "tools/call", id=9, **params))
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: ")


def test_params_that_are_a_list_are_invalid():
    """MCP has named params only."""
    event = Pair.opened(LATEST_LEGACY).server.receive(frame(id=9, method="tools/call", params=["t"]))
    assert error_of(event)["code"] == -32602


@pytest.mark.parametrize(
    ("method", "revision", "served"),
    [
        ("notifications/roots/list_changed", LATEST_LEGACY, Notified),
        ("notifications/tools/list_changed", LATEST_LEGACY, Ignored),
        ("notifications/message", LATEST_LEGACY, Ignored),
        ("notifications/roots/list_changed", LATEST, Ignored),
    ],
)
def test_only_the_clients_notifications_are_taken(method, revision, served):
    """Of the agreed revision; a modern client has none of these."""
    params = {"level": "info", "data": 1}
    assert isinstance(Pair.opened(revision).server.receive(frame(method=method, params=params)), served)
