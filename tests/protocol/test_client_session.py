"""The client's side: opening in either era, requests, and which asks of the server are served."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    NotInRevision,
    PeerError,
    RemoteProtocolError,
)
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.protocol.events import Answered, Event, Ignored, Notified, Replied, Request
from antiphon.protocol.states import Phase
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RequestParams, SamplingCapability
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult, ListChangedCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.tools import CallToolRequestParams
from tests.support import mcp_schema
from tests.support.pair import CLIENT, OFFERS_ALL, SERVER, Pair, decoded, error_of, frame

PLAIN = RequestParams()
CALL = CallToolRequestParams(name="t")
SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
SAMPLE_PARAMS: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}
VERSION = "io.modelcontextprotocol/protocolVersion"


def discovered(*versions: str, info: Any = None) -> DiscoverResult:
    """Make what a server says to the probe."""
    claim = {"io.modelcontextprotocol/serverInfo": info} if info is not None else None
    return DiscoverResult(supported_versions=versions, capabilities=ServerCapabilities(), meta=claim)


def chosen(version: str) -> InitializeResult:
    """Make what a server says to initialize."""
    return InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=SERVER)


def receive(session: ClientSession, method: str, id: Any = 50, **params: Any) -> Event:
    """Let the server send a request written by hand."""
    return session.receive(frame(id=id, method=method, params=params))


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
    assert decoded(session.initialized(chosen(revision.name), LEGACY)) == {
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
        session.initialized(chosen(version), (LATEST_LEGACY,))
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
    assert session.discovered(discovered(*versions), tuple(allowed)) is agreed
    assert session.phase is (Phase.READY if agreed else Phase.NEW)


@pytest.mark.parametrize("versions", [[], ["2099-01-01"], ["2026-07-28 "]])
def test_no_common_revision_is_an_error_that_names_both(versions):
    """There is nothing to fall back to."""
    with pytest.raises(RemoteProtocolError, match=r"No common protocol revision.*2026-07-28"):
        ClientSession(CLIENT, OFFERS_ALL).discovered(discovered(*versions), REVISIONS)


@pytest.mark.requirement("base.info-is-display")
@pytest.mark.parametrize("claim", [None, 5, {}, {"name": 1, "version": "x"}, {"name": "ok", "version": "1"}])
def test_who_the_server_says_it_is_changes_nothing(claim):
    """A claim that cannot be read is no claim; either way the session is open."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.discovered(discovered("2026-07-28", info=claim), REVISIONS)
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


# --- what the server asks -------------------------------------------------------------------------------------------


def in_call(**options: Any) -> Pair:
    """Open a pair with a call of the client's in flight."""
    pair = Pair.opened(LATEST_LEGACY, **options)
    pair.call()
    return pair


def test_an_ask_within_a_call_is_served():
    """With the revision and the capabilities that were agreed."""
    event = receive(in_call().client, "sampling/createMessage", **SAMPLE_PARAMS)
    assert isinstance(event, Request)
    assert event.params.max_tokens == 5
    assert (event.revision, event.capabilities) == (LATEST_LEGACY, OFFERS_ALL)


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
def test_an_ask_outside_of_any_request_is_refused(method):
    """2025-11-25 client/sampling: they belong to a request of the client's."""
    params = (
        SAMPLE_PARAMS
        if method.startswith("sampling")
        else {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    )
    error = error_of(receive(Pair.opened(LATEST_LEGACY).client, method, **params))
    assert error["code"] == -32602
    assert isinstance(receive(in_call().client, method, **params), Request)


@pytest.mark.requirement("ping.prompt")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_ping_and_roots_are_answered_at_any_time(revision):
    """They need no request of ours."""
    pair = Pair.opened(revision)
    event = pair.to_client(pair.server.ask(METHODS["ping"], PLAIN, None).data)
    assert isinstance(event, Answered)
    assert decoded(event.reply)["result"] == {}
    _, arrived = pair.ask(None, "roots/list", PLAIN)
    assert arrived.method.name == "roots/list"


@pytest.mark.requirement("roots.unsupported", "lifecycle.negotiated")
@pytest.mark.parametrize("params", [SAMPLE_PARAMS, {}])
@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list"])
def test_what_we_do_not_offer_is_not_found(method, params):
    """-32601, whatever the params are."""
    error = error_of(receive(in_call(offers=ClientCapabilities()).client, method, **params))
    assert error["code"] == -32601


@pytest.mark.requirement("sampling.tools-error", "elicitation.mode-error")
@pytest.mark.parametrize(
    ("offers", "method", "params"),
    [
        (SamplingCapability(), "sampling/createMessage", {**SAMPLE_PARAMS, "tools": []}),
        (SamplingCapability(), "sampling/createMessage", {**SAMPLE_PARAMS, "toolChoice": {"mode": "none"}}),
        (
            ElicitationCapability(form={}),
            "elicitation/create",
            {"message": "?", "mode": "url", "url": "a:b", "elicitationId": "1"},
        ),
        (
            ElicitationCapability(url={}),
            "elicitation/create",
            {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        ),
    ],
)
def test_what_we_offer_only_in_part_is_invalid(offers, method, params):
    """-32602 for tools, a tool choice, or a mode that was not declared."""
    name = "sampling" if isinstance(offers, SamplingCapability) else "elicitation"
    pair = in_call(offers=ClientCapabilities(**{name: offers}))
    assert error_of(receive(pair.client, method, **params))["code"] == -32602


@pytest.mark.requirement("elicitation.mode-default", "elicitation.empty")
def test_an_elicitation_without_a_mode_is_a_form():
    """And an empty capability offers forms."""
    pair = in_call(offers=ClientCapabilities(elicitation=ElicitationCapability()))
    event = receive(
        pair.client, "elicitation/create", message="?", requestedSchema={"type": "object", "properties": {}}
    )
    assert isinstance(event, Request)
    assert event.params.mode == "form"


@pytest.mark.requirement("base.jsonrpc")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such", {}, -32601),
        ("tools/call", {"name": "t"}, -32601),
        ("initialize", {}, -32601),
        ("notifications/message", {}, -32601),
        ("sampling/createMessage", {}, -32602),
        ("sampling/createMessage", {"messages": [], "maxTokens": "5"}, -32602),
    ],
)
def test_bad_requests_of_a_server_are_refused(method, params, code):
    """Like those of a client."""
    assert error_of(receive(in_call().client, method, **params))["code"] == code


def test_an_ask_before_the_handshake_is_complete_is_refused():
    """Except for a ping."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.initialize()
    assert error_of(receive(session, "roots/list"))["code"] == -32600
    assert isinstance(receive(session, "ping"), Answered)


@pytest.mark.parametrize("revision", LEGACY[:2])
def test_an_ask_of_a_newer_revision_is_not_found(revision):
    """Elicitation came later."""
    pair = Pair.opened(revision)
    pair.call()
    assert error_of(receive(pair.client, "elicitation/create", message="?"))["code"] == -32601


@pytest.mark.requirement("transports.no-client-responses")
@pytest.mark.parametrize(
    "data",
    [
        frame(id=1, method="sampling/createMessage", params=SAMPLE_PARAMS),
        frame(id=1, method="ping"),
        frame(id=1, method="no/such"),
        frame(id=None, method="ping"),
        b"nonsense",
        b"[]",
        b"[1]",
        b'{"id":3}',
        b"{",
        b"\xff",
        b"[" * 500,
    ],
)
def test_a_modern_client_answers_nothing(data):
    """A stray request or a broken frame is dropped; nothing is written, nothing begins."""
    pair = Pair.opened(LATEST)
    pair.call()
    assert isinstance(pair.client.receive(data), Ignored)
    assert pair.client.incoming == {}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST])
def test_a_reply_that_was_too_large_fails_its_call(revision):
    """Where only one request can have been meant; nothing is written."""
    pair = Pair.opened(revision)
    outgoing, _ = pair.call()
    event = pair.client.oversized(20_000_000, 16_777_216)
    assert isinstance(event, Replied)
    assert event.outgoing is outgoing
    assert "too large: 20000000 bytes" in (event.problem or "")
    assert pair.client.outgoing == {}


def test_a_large_frame_fails_no_call_where_it_may_have_been_for_another():
    """Nor a subscription, which is never answered by what it brings."""
    pair = Pair.opened(LATEST)
    pair.call()
    pair.call()
    assert isinstance(pair.client.oversized(10**9, 10), Ignored)
    assert len(pair.client.outgoing) == 2
    listening = Pair.opened(LATEST)
    params = METHODS["subscriptions/listen"].params(notifications=SubscriptionFilter())
    listening.call("subscriptions/listen", params)
    assert isinstance(listening.client.oversized(10**9, 10), Ignored)
    assert len(listening.client.outgoing) == 1


@pytest.mark.requirement("mrtr.undeclared")
def test_an_input_request_may_ask_only_for_what_we_declared():
    """More is the server's error, and nothing of it is answered."""
    pair = Pair.opened(LATEST, offers=ClientCapabilities(elicitation=ElicitationCapability(form={})))
    form = ElicitRequestParams(message="?", requested_schema={"type": "object", "properties": {}})
    pair.client.check_input_request(METHODS["elicitation/create"], form)
    with pytest.raises(RemoteProtocolError, match="sampling/createMessage"):
        pair.client.check_input_request(METHODS["sampling/createMessage"], SAMPLE)


# --- what the server tells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "revision", "taken"),
    [
        ("notifications/tools/list_changed", LATEST_LEGACY, True),
        ("notifications/message", LATEST, True),
        ("notifications/elicitation/complete", LATEST_LEGACY, True),
        ("notifications/elicitation/complete", LATEST, False),
        ("notifications/elicitation/complete", LEGACY[2], False),
        ("notifications/subscriptions/acknowledged", LATEST, True),
        ("notifications/subscriptions/acknowledged", LATEST_LEGACY, False),
        ("notifications/roots/list_changed", LATEST_LEGACY, False),
        ("notifications/initialized", LATEST_LEGACY, False),
    ],
)
def test_a_notification_is_taken_where_the_server_may_send_it(method, revision, taken):
    """By the agreed revision."""
    params = {"level": "info", "data": 1, "elicitationId": "1", "notifications": {}}
    event = Pair.opened(revision).client.receive(frame(method=method, params=params))
    assert isinstance(event, Notified if taken else Ignored)


def test_a_log_message_may_come_before_the_handshake_is_complete():
    """A server may log at any time."""
    session = ClientSession(CLIENT, OFFERS_ALL)
    session.initialize()
    assert isinstance(
        session.receive(frame(method="notifications/message", params={"level": "info", "data": 1})), Notified
    )


def test_an_answer_to_an_ask_may_be_refused_by_a_rejection():
    """The error travels as any other."""
    pair = in_call()
    request = receive(pair.client, "sampling/createMessage", **SAMPLE_PARAMS)
    assert isinstance(request, Request)
    reply = decoded(pair.client.reply_error(request, InvalidParams("no")))
    assert reply == {"jsonrpc": "2.0", "id": 50, "error": {"code": -32602, "message": "no"}}
