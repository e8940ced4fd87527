"""What a server sends besides its replies: log messages and asks, each behind its gate."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import LocalProtocolError, MissingCapability, NotInRevision
from antiphon.protocol.events import Notified, Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.wire.common import LOGGING_LEVELS as LEVELS
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RequestParams, SamplingCapability
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.lifecycle import ListChangedCapability, ServerCapabilities
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolResult, Tool
from tests.support.pair import EVERYTHING, OFFERS_ALL, SERVER, Pair, decoded, frame

PING = RequestParams()
MESSAGES = [SamplingMessage(role="user", content=TextContent(text="hi"))]
SAMPLE = CreateMessageRequestParams(messages=MESSAGES, max_tokens=5)
TOOLS = [Tool(name="t", input_schema={"type": "object"})]
ONLY_TOOLS = ServerCapabilities(tools=ListChangedCapability())
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}, "roots": {}},
    "clientInfo": {"name": "c", "version": "1"},
}
MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
}


# --- log messages ---------------------------------------------------------------------------------------------------


def message(level: Any) -> LoggingMessageNotificationParams:
    """Make a log message."""
    return LoggingMessageNotificationParams(level=level, data={"x": 1}, logger="l")


@pytest.mark.requirement("logging.level")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_client_gets_what_is_loud_enough(revision):
    """Everything until it sets a level, and from then on that level and above."""
    pair = Pair.opened(revision)
    for level in LEVELS:
        assert isinstance(pair.to_client(pair.server.log(message(level)) or b""), Notified)
    pair.server.log_level = "error"
    sent = [level for level in LEVELS if pair.server.log(message(level)) is not None]
    assert sent == ["error", "critical", "alert", "emergency"]


@pytest.mark.requirement("logging.modern-opt-in")
def test_a_modern_client_gets_what_its_request_asks_for():
    """Nothing without a ``logLevel``, whatever another request said."""
    pair = Pair.opened(LATEST)
    _, silent = pair.call()
    pair.client.set_log_level("warning")
    _, curious = pair.call()
    assert [level for level in LEVELS if pair.server.log(message(level), silent) is not None] == []
    sent = [level for level in LEVELS if pair.server.log(message(level), curious) is not None]
    assert sent == ["warning", "error", "critical", "alert", "emergency"]
    assert isinstance(pair.to_client(pair.server.log(message("error"), curious) or b""), Notified)


@pytest.mark.requirement("logging.modern-scoped")
def test_a_modern_request_that_has_ended_gets_no_log_messages():
    """They belong before its reply."""
    pair = Pair.opened(LATEST)
    pair.client.set_log_level("debug")
    _, request = pair.call()
    pair.reply(request, CallToolResult(content=[]))
    assert pair.server.log(message("error"), request) is None


@pytest.mark.requirement("logging.declared")
def test_a_server_that_did_not_declare_logging_sends_none():
    """In either era."""
    for revision in (LATEST, LATEST_LEGACY):
        pair = Pair.opened(revision, serves=ONLY_TOOLS)
        pair.client.set_log_level("debug")
        _, request = pair.call()
        assert pair.server.log(message("error"), request) is None


# --- asks -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("lifecycle.server-waits")
def test_before_initialized_a_server_asks_nothing_but_pings():
    """And before the handshake not even that."""
    session = ServerSession(ServerOffer(SERVER, EVERYTHING))
    with pytest.raises(LocalProtocolError, match="before the handshake"):
        session.ask(METHODS["ping"], PING, None)
    session.receive(frame(id=1, method="initialize", params=HELLO))
    assert decoded(session.ask(METHODS["ping"], PING, None).data)["method"] == "ping"
    request = session.receive(frame(id=2, method="tools/call", params={"name": "t"}))
    assert isinstance(request, Request)
    for method, params, parent in (("roots/list", PING, None), ("sampling/createMessage", SAMPLE, request)):
        with pytest.raises(LocalProtocolError, match="before the handshake is complete"):
            session.ask(METHODS[method], params, parent)


@pytest.mark.requirement("sampling.declared", "sampling.tools", "elicitation.mode", "lifecycle.negotiated")
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST])
@pytest.mark.parametrize(
    ("offers", "method", "params", "missing"),
    [
        (ClientCapabilities(), "sampling/createMessage", SAMPLE, {"sampling": {}}),
        (
            ClientCapabilities(sampling=SamplingCapability()),
            "sampling/createMessage",
            CreateMessageRequestParams(messages=MESSAGES, max_tokens=1, tools=TOOLS),
            {"sampling": {"tools": {}}},
        ),
        (
            ClientCapabilities(elicitation=ElicitationCapability(form={})),
            "elicitation/create",
            ElicitRequestParams(message="?", mode="url", url="https://example.org", elicitation_id="1"),
            {"elicitation": {"url": {}}},
        ),
        (ClientCapabilities(), "roots/list", PING, {"roots": {}}),
    ],
)
def test_what_the_client_did_not_declare_is_not_asked(revision, offers, method, params, missing):
    """The error says what is missing, in the shape of capabilities; nothing is sent."""
    pair = Pair.opened(revision, offers=offers)
    _, request = pair.call()
    with pytest.raises(MissingCapability) as caught:
        pair.server.check_ask(METHODS[method], params, request)
    assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": missing})
    if not revision.modern:
        with pytest.raises(MissingCapability):
            pair.server.ask(METHODS[method], params, request)
    assert pair.server.outgoing == {}


@pytest.mark.requirement("base.missing-capability")
def test_a_missing_capability_is_told_to_a_modern_client():
    """-32021 with what is required."""
    pair = Pair.opened(LATEST, offers=ClientCapabilities())
    _, request = pair.call()
    with pytest.raises(MissingCapability) as caught:
        pair.server.check_ask(METHODS["sampling/createMessage"], SAMPLE, request)
    replied = pair.reply(request, caught.value)
    assert replied.error is not None
    assert (replied.error.code, replied.error.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})


@pytest.mark.requirement("transports.no-server-requests")
def test_a_modern_client_is_never_sent_a_request():
    """Neither within a request of its own, nor on a channel that a legacy client opened."""
    modern = Pair.opened(LATEST)
    _, request = modern.call()
    shared = Pair.opened(LATEST_LEGACY)
    stranger = shared.server.receive(frame(id="m", method="tools/call", params={"name": "t", "_meta": MODERN}))
    assert isinstance(stranger, Request)
    for session, parent in ((modern.server, request), (shared.server, stranger)):
        with pytest.raises(NotInRevision):
            session.ask(METHODS["sampling/createMessage"], SAMPLE, parent)
        assert session.outgoing == {}


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
def test_an_ask_belongs_to_a_request_of_the_clients(method):
    """A server never sends one outside of it; roots and pings are free."""
    pair = Pair.opened(LATEST_LEGACY)
    params = SAMPLE if method.startswith("sampling") else ElicitRequestParams(message="?", requested_schema={})
    with pytest.raises(LocalProtocolError, match="must belong"):
        pair.server.ask(METHODS[method], params, None)
    assert pair.server.ask(METHODS["roots/list"], PING, None).parent is None


def test_an_ask_of_a_request_that_has_ended_is_refused():
    """After its reply and after its cancellation."""
    pair = Pair.opened(LATEST_LEGACY)
    _, answered = pair.call()
    pair.reply(answered, CallToolResult(content=[]))
    outgoing, withdrawn = pair.call()
    pair.cancel(pair.client, outgoing)
    for request in (answered, withdrawn):
        with pytest.raises(LocalProtocolError, match="has ended"):
            pair.server.ask(METHODS["sampling/createMessage"], SAMPLE, request)


@pytest.mark.requirement("lifecycle.negotiated")
@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[1]])
def test_an_ask_that_the_revision_does_not_have_is_refused(revision):
    """Elicitation is younger; the error names the revision, and nothing is sent."""
    pair = Pair.opened(revision)
    _, request = pair.call()
    params = ElicitRequestParams(message="?", requested_schema={"type": "object", "properties": {}})
    for refuse in (pair.server.ask, pair.server.check_ask):
        with pytest.raises(NotInRevision, match=revision.name):
            refuse(METHODS["elicitation/create"], params, request)


def test_an_ask_that_the_revision_cannot_carry_is_refused():
    """Tools in sampling came with 2025-11-25."""
    pair = Pair.opened(LEGACY[2])
    _, request = pair.call()
    params = CreateMessageRequestParams(messages=MESSAGES, max_tokens=1, tools=TOOLS)
    with pytest.raises(NotInRevision):
        pair.server.check_ask(METHODS["sampling/createMessage"], params, request)
    assert pair.server.outgoing == {}


def test_what_a_legacy_client_declared_is_known():
    """From the handshake."""
    assert ServerSession(ServerOffer(SERVER, EVERYTHING)).client_capabilities is None
    assert Pair.opened(LATEST_LEGACY).server.client_capabilities == OFFERS_ALL
