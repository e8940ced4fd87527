"""The client's side of what a server sends: which asks are served, which notifications taken, what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import InvalidParams, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Answered, Event, Ignored, Notified, Replied, Request
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RequestParams, SamplingCapability
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.subscriptions import SubscriptionFilter
from tests.support.pair import CLIENT, OFFERS_ALL, Pair, decoded, error_of, frame

PLAIN = RequestParams()
SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
SAMPLE_PARAMS: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}


def receive(session: ClientSession, method: str, id: Any = 50, **params: Any) -> Event:
    """Let the server send a request written by hand."""
    return session.receive(frame(id=id, method=method, params=params))


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
    event = pair.client.handle_oversized(20_000_000, 16_777_216)
    assert isinstance(event, Replied)
    assert event.outgoing is outgoing
    assert "too large: 20000000 bytes" in (event.problem or "")
    assert pair.client.outgoing == {}


def test_a_large_frame_fails_no_call_where_it_may_have_been_for_another():
    """Nor a subscription, which is never answered by what it brings."""
    pair = Pair.opened(LATEST)
    pair.call()
    pair.call()
    assert isinstance(pair.client.handle_oversized(10**9, 10), Ignored)
    assert len(pair.client.outgoing) == 2
    listening = Pair.opened(LATEST)
    params = METHODS["subscriptions/listen"].params(notifications=SubscriptionFilter())
    listening.call("subscriptions/listen", params)
    assert isinstance(listening.client.handle_oversized(10**9, 10), Ignored)
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
