"""The client's side: opening in either era, and what its requests carry."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import LocalProtocolError, MethodNotFound, NotInRevision, PeerError, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.protocol.session import Phase
from antiphon.wire.common import ClientCapabilities, RequestParams
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult, ListChangedCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS
from antiphon.wire.tools import CallToolRequestParams
from tests.support import mcp_schema
from tests.support.pair import CLIENT, OFFERS_ALL, SERVER, Pair, decoded, frame

PLAIN = RequestParams()
CALL = CallToolRequestParams(name="t")
VERSION = "io.modelcontextprotocol/protocolVersion"


def discovered(*versions: str, info: Any = None) -> DiscoverResult:
    """Make what a server says to the probe."""
    claim = {"io.modelcontextprotocol/serverInfo": info} if info is not None else None
    return DiscoverResult(supported_versions=versions, capabilities=ServerCapabilities(), meta=claim)


def chosen(version: str) -> InitializeResult:
    """Make what a server says to initialize."""
    return InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=SERVER)


# --- opening --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("lifecycle.client-initiates", "lifecycle.version-sent")
@pytest.mark.parametrize("revision", LEGACY)
def test_initialize_says_who_we_are_and_what_we_can(revision):
    """In the words of the revision that is offered."""
    message = decoded(ClientSession(CLIENT, OFFERS_ALL).initialize(revision).data)
    assert message["method"] == "initialize"
    assert mcp_schema.problems(revision.name, "InitializeRequest/properties/params", message["params"]) == []
    assert message["params"]["protocolVersion"] == revision.name
    assert message["params"]["clientInfo"] == {"name": "pair-client", "version": "1"}
    assert ("elicitation" in message["params"]["capabilities"]) is (revision.name >= "2025-06-18")


@pytest.mark.requirement("lifecycle.version-sent")
def test_initialize_offers_the_newest_legacy_revision():
    """By default."""
    message = decoded(ClientSession(CLIENT, OFFERS_ALL).initialize().data)
    assert message["params"]["protocolVersion"] == LATEST_LEGACY.name


@pytest.mark.requirement("lifecycle.initialized-sent")
@pytest.mark.parametrize("revision", LEGACY)
def test_the_handshake_is_completed_by_a_notification(revision):
    """And the session is open."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.initialize(revision)
    assert decoded(session.handle_initialized(chosen(revision.name), LEGACY)) == {
        "jsonrpc": "2.0",
        "method": "notifications/initialized",
    }
    assert (session.phase, session.revision, session.server_info) == (Phase.READY, revision, SERVER)


@pytest.mark.requirement("lifecycle.version-disconnect")
@pytest.mark.parametrize("version", ["2026-07-28", "1.0", "", "2024-11-05"])
def test_a_version_we_do_not_allow_is_refused(version):
    """The error names both sides; the session stays closed."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.initialize(LATEST_LEGACY)
    with pytest.raises(RemoteProtocolError, match="2025-11-25"):
        session.handle_initialized(chosen(version), (LATEST_LEGACY,))
    assert session.phase is Phase.NEW


def test_initialize_is_sent_once():
    """While it is out, and after it was answered; one that failed may be tried again."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    opening = session.initialize()
    with pytest.raises(LocalProtocolError, match="once"):
        session.initialize()
    session.receive(frame(id=opening.id, error={"code": -32602, "message": "Unsupported protocol version"}))
    session.initialize(LEGACY[0])
    with pytest.raises(LocalProtocolError, match="once"):
        Pair.opened(LATEST_LEGACY).client.initialize()


@pytest.mark.requirement("lifecycle.client-waits")
def test_nothing_else_is_sent_before_the_session_is_open():
    """Neither before the first word nor while it is out."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.initialize()
    with pytest.raises(LocalProtocolError, match="before the session is open"):
        session.request(METHODS["tools/list"], METHODS["tools/list"].params())
    with pytest.raises(LocalProtocolError, match="before the handshake"):
        session.notify(
            METHODS["notifications/roots/list_changed"], METHODS["notifications/roots/list_changed"].params()
        )


@pytest.mark.requirement("base.meta-sent")
def test_the_probe_is_a_modern_request():
    """With the metadata every one has."""
    message = decoded(ClientSession(CLIENT, OFFERS_ALL).probe().data)
    assert mcp_schema.problems("2026-07-28", "DiscoverRequest", message) == []
    assert message["params"]["_meta"][VERSION] == "2026-07-28"


@pytest.mark.parametrize(
    ("versions", "allowed", "agreed"),
    [
        (["2026-07-28"], REVISIONS, LATEST),
        (["2025-11-25", "2026-07-28", "2099-01-01"], REVISIONS, LATEST),
        (["2026-07-28", "2025-11-25"], LEGACY, None),
        (["2099-01-01", "2025-06-18"], REVISIONS, None),
        (["2026-07-28", "2026-07-28"], (LATEST,), LATEST),
    ],
)
def test_the_newest_revision_both_speak_is_agreed_on(versions, allowed, agreed):
    """A legacy one takes a handshake."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    assert session.handle_discovery(discovered(*versions), tuple(allowed)) is agreed
    assert session.phase is (Phase.READY if agreed else Phase.NEW)


@pytest.mark.parametrize("versions", [[], ["2099-01-01"], ["2026-07-28 "]])
def test_no_common_revision_is_an_error_that_names_both(versions):
    """There is nothing to fall back to."""
    with pytest.raises(RemoteProtocolError, match=r"No common protocol revision.*2026-07-28"):
        ClientSession(CLIENT, OFFERS_ALL).handle_discovery(discovered(*versions), REVISIONS)


@pytest.mark.requirement("base.info-is-display")
@pytest.mark.parametrize("claim", [None, 5, {}, {"name": 1, "version": "x"}, {"name": "ok", "version": "1"}])
def test_who_the_server_says_it_is_changes_nothing(claim):
    """A claim that cannot be read is no claim; either way the session is open."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.handle_discovery(discovered("2026-07-28", info=claim), REVISIONS)
    assert session.phase is Phase.READY
    assert (session.server_info is not None) is (claim == {"name": "ok", "version": "1"})


@pytest.mark.requirement("versioning.fallback")
@pytest.mark.parametrize(
    ("code", "modern"),
    [
        (-32022, True),
        (-32021, True),
        (-32020, True),
        (-32023, False),
        (-32019, False),
        (-32601, False),
        (-32602, False),
        (-32600, False),
        (-32000, False),
        (0, False),
        (404, False),
    ],
)
def test_only_modern_errors_tell_a_modern_server(code, modern):
    """Any other code is a legacy server's way of not knowing the method."""
    assert is_modern_error(PeerError("?", code=code)) is modern


# --- our requests ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("base.meta-sent", "base.stateless")
def test_every_modern_request_brings_everything_with_it():
    """Revision, capabilities and who we are; nothing a legacy request has to carry."""
    modern = decoded(Pair.opened(LATEST).client.request(METHODS["tools/call"], CALL).data)
    assert mcp_schema.problems("2026-07-28", "CallToolRequest", modern) == []
    assert set(modern["params"]["_meta"]) == {
        VERSION,
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
    }
    legacy = decoded(Pair.opened(LATEST_LEGACY).client.request(METHODS["tools/call"], CALL).data)
    assert legacy["params"] == {"name": "t"}


@pytest.mark.requirement("base.meta-sent")
def test_a_client_without_capabilities_still_says_so():
    """The member is required."""
    pair = Pair.opened(LATEST, offers=ClientCapabilities())
    message = decoded(pair.client.request(METHODS["tools/call"], CALL).data)
    assert message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_callers_own_metadata_travels(revision):
    """Beside the session's, which it cannot replace; no member is there twice."""
    own = {"com.example/a": [1], "traceparent": "00-1-2-03", "progressToken": "mine", VERSION: "1999-01-01"}
    outgoing = Pair.opened(revision).client.request(METHODS["tools/call"], CALL, wants_progress=True, meta=own)
    sent = decoded(outgoing.data)["params"]["_meta"]
    assert sent["com.example/a"] == [1]
    assert sent["traceparent"] == "00-1-2-03"
    assert sent["progressToken"] == outgoing.id
    assert sent.get(VERSION) == (revision.name if revision.modern else None)
    assert outgoing.data.count(VERSION.encode()) == revision.modern
    assert outgoing.data.count(b'"progressToken"') == 1


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
def test_metadata_that_is_empty_leaves_no_trace(meta):
    """Not even an empty object."""
    message = decoded(Pair.opened(LATEST_LEGACY).client.request(METHODS["tools/call"], CALL, meta=meta).data)
    assert message["params"] == {"name": "t"}


def test_the_log_level_travels_from_now_on():
    """On modern requests; ``None`` takes it back."""
    pair = Pair.opened(LATEST)
    levels = []
    for level in ("debug", None):
        pair.client.set_log_level(level)
        sent = decoded(pair.client.request(METHODS["tools/call"], CALL).data)["params"]["_meta"]
        levels.append(sent.get("io.modelcontextprotocol/logLevel"))
    assert levels == ["debug", None]


def test_a_log_level_chosen_before_opening_is_kept():
    """It is on the probe and on what follows."""
    pair = Pair(LATEST)
    pair.client.set_log_level("info")
    pair.open()
    _, request = pair.call()
    assert request.meta is not None
    assert request.meta.log_level == "info"


@pytest.mark.requirement("lifecycle.negotiated")
@pytest.mark.parametrize(
    ("method", "revision"),
    [
        ("ping", LATEST),
        ("logging/setLevel", LATEST),
        ("server/discover", LATEST_LEGACY),
        ("sampling/createMessage", LATEST_LEGACY),
        ("initialize", LATEST),
        ("roots/list", LATEST_LEGACY),
        ("subscriptions/listen", LATEST_LEGACY),
    ],
)
def test_what_the_revision_does_not_have_is_not_sent(method, revision):
    """The error names the method and the revision."""
    with pytest.raises(NotInRevision, match=f"{revision.name}.*{method}"):
        Pair.opened(revision).client.request(METHODS[method], PLAIN)


@pytest.mark.requirement("lifecycle.negotiated")
def test_what_the_server_did_not_declare_is_not_sent():
    """An error as the server would have given, without asking it."""
    pair = Pair.opened(LATEST_LEGACY, serves=ServerCapabilities(tools=ListChangedCapability()))
    with pytest.raises(MethodNotFound, match="prompts"):
        pair.client.request(METHODS["prompts/list"], METHODS["prompts/list"].params())
    assert pair.client.outgoing == {}
