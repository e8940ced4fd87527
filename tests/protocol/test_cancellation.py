"""Cancellation as the sessions see it: both ways, with asks, and in every order of arrival."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidParams
from antiphon.protocol.events import Cancelled, Ignored, Notified, Replied
from antiphon.wire.content import TextContent
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.subscriptions import SubscriptionFilter, SubscriptionsListenRequestParams
from antiphon.wire.tools import CallToolResult
from tests.support.pair import Pair, cancelled, decoded, frame

SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
ANSWER = CreateMessageResult(role="assistant", content=TextContent(text="yes"), model="m")
DONE = CallToolResult(content=[])


@pytest.mark.requirement("cancel.receiver", "cancel.modern-client", "cancel.in-progress")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_withdraws_its_request(revision):
    """The server is told which, and writes no reply to it any more."""
    pair = Pair.opened(revision)
    outgoing, request = pair.call()
    assert cancelled(pair.cancel(pair.client, outgoing, "enough")) is request
    assert pair.frames[-1][1]["params"] == {"requestId": outgoing.id, "reason": "enough"}
    assert pair.server.reply(request, DONE) is None
    pair.check_empty()


@pytest.mark.requirement("cancel.receiver", "cancel.in-progress")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_withdraws_its_ask(revision):
    """The call it belongs to goes on."""
    pair = Pair.opened(revision)
    _, request = pair.call()
    ask, arrived = pair.ask(request, "sampling/createMessage", SAMPLE)
    assert cancelled(pair.cancel(pair.server, ask)) is arrived
    assert pair.client.reply(arrived, ANSWER) is None
    assert request.children == set()
    assert pair.reply(request, DONE).error is None
    pair.check_empty()


@pytest.mark.requirement("cancel.late-reply", "cancel.race")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_reply_that_crosses_the_cancellation_is_ignored(revision):
    """The reply was on its way when the client gave up: nobody is woken by it."""
    pair = Pair.opened(revision)
    outgoing, request = pair.call()
    reply = pair.server.reply(request, DONE)
    notice = pair.client.cancel(outgoing.id)
    assert reply is not None
    assert notice is not None
    assert isinstance(pair.client.receive(reply), Ignored)
    assert isinstance(pair.to_server(notice), Ignored)
    pair.check_empty()


@pytest.mark.requirement("cancel.in-progress")
def test_what_has_been_answered_is_not_cancelled():
    """A notification that would name a request that has ended is not sent."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call()
    pair.reply(request, DONE)
    assert pair.client.cancel(outgoing.id) is None
    assert pair.client.cancel(4711) is None


@pytest.mark.requirement("cancel.same-direction")
def test_a_cancellation_concerns_the_other_sides_requests_only():
    """An id means a request that its sender made, even where the other side has one of the same number."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call()
    ask, arrived = pair.ask(request, "sampling/createMessage", SAMPLE)
    notice = frame(method="notifications/cancelled", params={"requestId": outgoing.id})
    event = pair.client.receive(notice)
    assert isinstance(event, Ignored) or cancelled(event) is arrived
    assert pair.server.incoming == {request.id: request}
    assert ask.id in pair.server.outgoing


@pytest.mark.requirement("cancel.invalid")
@pytest.mark.parametrize(
    "params", [{"requestId": 99}, {"requestId": None}, {}, None, {"requestId": 1.5}, {"requestId": [1]}, {"reason": 1}]
)
def test_a_cancellation_of_nothing_is_ignored(params):
    """Unknown, absent, or unreadable."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    members = {} if params is None else {"params": params}
    assert isinstance(pair.server.receive(frame(method="notifications/cancelled", **members)), Ignored)
    assert pair.server.incoming == {request.id: request}


@pytest.mark.requirement("cancel.invalid")
def test_a_second_cancellation_is_ignored():
    """The request is no longer there."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _ = pair.call()
    notice = frame(method="notifications/cancelled", params={"requestId": outgoing.id})
    assert isinstance(pair.server.receive(notice), Cancelled)
    assert isinstance(pair.server.receive(notice), Ignored)


@pytest.mark.requirement("cancel.not-initialize")
def test_initialize_is_never_cancelled():
    """Giving up on it sends nothing; a notice that names it has no effect."""
    pair = Pair(LATEST_LEGACY)
    opening = pair.client.initialize()
    pair.answered(opening)
    assert pair.client.cancel(opening.id) is None
    assert pair.client.outgoing == {}
    assert isinstance(
        pair.server.receive(frame(method="notifications/cancelled", params={"requestId": opening.id})), Ignored
    )


def test_a_probe_is_let_go_of_silently():
    """A server that has not answered it may know neither the method nor the notification."""
    pair = Pair(LATEST)
    probe = pair.client.probe()
    assert pair.client.cancel(probe.id) is None
    assert isinstance(pair.client.receive(frame(id=probe.id, error={"code": -32601, "message": "?"})), Ignored)


@pytest.mark.requirement("cancel.modern-client")
def test_a_later_discover_is_cancelled_like_any_request():
    """Once the server is known to be modern, it knows the notification as well."""
    pair = Pair.opened(LATEST)
    outgoing = pair.client.request(METHODS["server/discover"], METHODS["server/discover"].params())
    assert decoded(pair.client.cancel(outgoing.id))["params"] == {"requestId": outgoing.id}


def test_an_answer_to_an_ask_of_a_cancelled_call_settles_the_ask():
    """The call is gone, its ask is not yet: what comes for it is reported, and the tables are empty after."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call()
    ask, arrived = pair.ask(request, "sampling/createMessage", SAMPLE)
    data = pair.client.reply(arrived, ANSWER)
    pair.server.receive(pair.client.cancel(outgoing.id) or b"")
    event = pair.server.receive(data or b"")
    assert isinstance(event, Replied)
    assert event.outgoing is ask
    assert request.children == set()
    pair.check_empty()


# --- 2026-07-28: the server's one use of it -------------------------------------------------------------------------


def listen(pair: Pair):
    """Open a subscription."""
    params = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(tools_list_changed=True))
    return pair.call("subscriptions/listen", params)


@pytest.mark.requirement("cancel.modern-listen")
def test_a_server_ends_a_subscription_by_a_cancellation():
    """The client hears it as the end of its request."""
    pair = Pair.opened(LATEST)
    outgoing, request = listen(pair)
    event = pair.to_client(frame(method="notifications/cancelled", params={"requestId": request.id}))
    assert isinstance(event, Replied)
    assert event.outgoing is outgoing
    assert bytes(event.result or b"") == b"{}"
    assert pair.client.outgoing == {}


@pytest.mark.requirement("cancel.modern-listen", "cancel.invalid")
@pytest.mark.parametrize("id", [None, 4711, "1", "call"])
def test_a_modern_server_ends_nothing_else_by_it(id):
    """A call of ours goes on, whatever the server says."""
    pair = Pair.opened(LATEST)
    outgoing, _request = pair.call()
    named = outgoing.id if id == "call" else id
    event = pair.client.receive(frame(method="notifications/cancelled", params={"requestId": named}))
    assert isinstance(event, Ignored)
    assert pair.client.outgoing == {outgoing.id: outgoing}


def test_progress_on_the_way_when_a_call_is_cancelled_is_ignored():
    """It belongs to nothing any more."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call(wants_progress=True)
    first = pair.server.progress(request, 1, None, None)
    second = pair.server.progress(request, 2, None, None)
    assert isinstance(pair.client.receive(first or b""), Notified)
    pair.cancel(pair.client, outgoing)
    assert isinstance(pair.client.receive(second or b""), Ignored)


def test_a_handler_that_fails_while_it_cleans_up_sends_nothing():
    """An error after the cancellation is no reply."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call()
    pair.cancel(pair.client, outgoing)
    assert pair.server.reply_error(request, InvalidParams("in finally")) is None
