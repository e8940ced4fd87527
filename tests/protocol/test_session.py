"""What both sides share: malformed input, replies, notifications."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.errors import InvalidParams, LocalProtocolError, NotInRevision
from antiphon.protocol.events import Answered, Ignored, Replied, Request
from antiphon.protocol.session import ALLOWED_BEFORE_READY, TRANSITIONS, PeerSession, Phase, shorten_text
from antiphon.wire.common import NotificationParams, RequestMeta
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS, Revision
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from tests.support.pair import Pair, decoded, frame

OLDEST = LEGACY[0]
DONE = CallToolResult(content=[])

NOT_JSON = [b"", b" ", b"{", b"\xff", b'{"jsonrpc":"2.0","id":1', b"hello", b'{"a":1}{"b":2}', b"[1,", b"\x00"]
NOT_A_MESSAGE = [
    (b"null", None),
    (b"5", None),
    (b'"text"', None),
    (b"{}", None),
    (b'{"id":7}', 7),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7),
    (b'{"id":"a","method":"ping"}', "a"),
    (b'{"jsonrpc":"2.0","id":7,"method":5}', 7),
    (b'{"jsonrpc":"2.0","id":7}', 7),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":{"id":1},"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5_000), None),
]


def error_of(event: object) -> dict[str, Any]:
    """Return the error reply a session gave by itself."""
    assert isinstance(event, Answered), event
    return json.loads(event.reply)


@pytest.mark.requirement("base.jsonrpc")
@pytest.mark.parametrize("data", NOT_JSON)
def test_what_is_not_json_is_a_parse_error(data):
    """A frame that is not JSON is answered with -32700, without an id that could be read."""
    reply = error_of(Pair.opened(LATEST_LEGACY).server.receive(data))
    assert reply["error"]["code"] == -32700
    assert reply.get("id") is None


@pytest.mark.requirement("base.jsonrpc", "base.id-not-null", "base.id-type", "base.reply-same-id")
@pytest.mark.parametrize(("data", "id"), NOT_A_MESSAGE)
def test_what_is_no_message_is_an_invalid_request(data, id):
    """JSON that is no JSON-RPC message is answered with -32600, and with its id where that can be read."""
    reply = error_of(Pair.opened(LATEST_LEGACY).server.receive(data))
    assert reply["error"]["code"] == -32600
    assert reply.get("id") == id


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_unreadable_id_is_null_before_2025_11_25_and_absent_since(revision):
    """Where the id could not be read, the error has the member only in the older revisions."""
    pair = Pair.opened(revision)
    assert ("id" in error_of(pair.server.receive(b"nonsense"))) is (revision.name < "2025-11-25")


def test_before_anything_is_agreed_an_unreadable_id_is_null():
    """JSON-RPC 2.0 wants null, and no revision has said otherwise yet."""
    assert error_of(Pair(LATEST_LEGACY).server.receive(b"nonsense"))["id"] is None


def test_a_frame_nested_too_deep_is_an_invalid_request_with_its_id():
    """Depth is refused before anything is decoded, but the id is still found."""
    params = b'{"a":' * 200 + b"1" + b"}" * 200
    event = Pair.opened(LATEST_LEGACY).server.receive(b'{"jsonrpc":"2.0","id":3,"method":"ping","params":%b}' % params)
    reply = error_of(event)
    assert (reply["id"], reply["error"]["code"]) == (3, -32600)
    assert "deeper than 128" in reply["error"]["message"]


def test_a_frame_nested_beyond_any_recursion_is_refused():
    """Even a million brackets cost no stack."""
    for data in (b"[" * 1_000_000, b'{"id":' * 300_000, b'{"jsonrpc":"2.0","id":1,"method":' + b"[" * 500_000):
        assert error_of(Pair.opened(LATEST_LEGACY).server.receive(data))["error"]["code"] in (-32600, -32700)
    # A reply is never answered.
    reply = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 500_000
    assert isinstance(Pair.opened(LATEST_LEGACY).server.receive(reply), Ignored)


def test_an_oversized_frame_is_refused_and_names_the_limit():
    """Its bytes are gone, so the reply has no id; it says what the limit is."""
    reply = error_of(Pair.opened(LATEST_LEGACY).server.handle_oversized(20_000_000, 16_777_216))
    assert reply["error"]["code"] == -32600
    assert "16777216" in reply["error"]["message"]


def test_an_error_repeats_only_the_beginning_of_a_long_method():
    """A peer cannot make an error reply as large as its request."""
    reply = error_of(Pair.opened(LATEST_LEGACY).server.receive(frame(id=1, method="x" * 100_000)))
    assert len(json.dumps(reply)) < 300
    assert shorten_text("short") == "short"


@pytest.mark.requirement("base.id-type", "base.reply-same-id")
@pytest.mark.parametrize("id", [0, -1, 2**63, 10**40, "", "0", "a" * 1000, 'quote " and \\', "\u2028 \x00 é"])
def test_odd_ids_come_back_unchanged(id):
    """Every string and every integer is an id, however large, and is returned as it came."""
    reply = error_of(Pair.opened(LATEST_LEGACY).server.receive(frame(id=id, method="ping")))
    assert reply == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.requirement("base.id-type")
def test_a_number_and_the_text_of_it_are_different_ids():
    """1 and "1" may be live at the same time."""
    pair = Pair.opened(LATEST_LEGACY)
    first = pair.server.receive(frame(id=1, method="tools/list"))
    second = pair.server.receive(frame(id="1", method="tools/list"))
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert decoded(pair.server.reply(second, METHODS["tools/list"].result(tools=[])))["id"] == "1"
    assert pair.server.incoming == {1: first}


@pytest.mark.requirement("base.id-unique")
def test_a_second_request_under_a_live_id_is_refused_and_the_first_goes_on():
    """-32600 for the second; the first is answered as if nothing had happened."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    reply = error_of(pair.server.receive(frame(id=request.id, method="tools/list")))
    assert (reply["id"], reply["error"]["code"]) == (request.id, -32600)
    assert pair.reply(request, DONE).result is not None


@pytest.mark.requirement("base.no-reply-to-notification", "base.jsonrpc")
@pytest.mark.parametrize(
    "members",
    [
        {"method": "notifications/none/of/these"},
        {"method": "tools/list"},
        {"method": "notifications/progress", "params": {}},
        {"method": "notifications/progress", "params": []},
        {"method": "notifications/cancelled", "params": {"requestId": {}}},
        {"method": "notifications/message", "params": {"level": "info", "data": 1}},
        {"method": "initialize", "params": {}},
    ],
)
def test_a_notification_is_never_answered(members):
    """Unknown, unreadable or not the peer's to send: it is ignored, and said to be."""
    assert isinstance(Pair.opened(LATEST_LEGACY).server.receive(frame(**members)), Ignored)


def test_a_notification_whose_text_is_no_utf8_is_ignored():
    """Bytes that no decoder looked at before its params were read do no harm."""
    data = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"\xff","progressToken":{}}}'
    assert isinstance(Pair.opened(LATEST_LEGACY).server.receive(data), Ignored)


def test_a_request_whose_text_is_no_utf8_has_invalid_params():
    """The same bytes in a request are -32602, with its id."""
    data = b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"x":"\xff","name":{}}}'
    reply = error_of(Pair.opened(LATEST_LEGACY).server.receive(data))
    assert (reply["id"], reply["error"]["code"]) == (4, -32602)


@pytest.mark.parametrize("params", [None, []])
@pytest.mark.parametrize("revision", LEGACY)
def test_params_that_say_nothing_are_none(params, revision):
    """Some clients write null or an empty list where there are no params; what needs params still says so."""
    server = Pair.opened(revision).server
    assert isinstance(server.receive(frame(id=4, method="tools/list", params=params)), Request)
    reply = error_of(server.receive(frame(id=5, method="tools/call", params=params)))
    assert (reply["id"], reply["error"]["code"]) == (5, -32602)
    assert "name" in reply["error"]["message"]


# --- replies --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("base.error-code-message", "base.reply-result-or-error")
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_error_reply_has_code_message_and_data(revision):
    """What a handler raises as a PeerError arrives whole, and instead of a result."""
    pair = Pair.opened(revision)
    _, request = pair.call()
    replied = pair.reply(request, InvalidParams("the place", data={"at": [1, 2]}))
    assert replied.result is None
    assert replied.error is not None
    assert (replied.error.code, replied.error.message, replied.error.data) == (-32602, "the place", {"at": [1, 2]})


@pytest.mark.parametrize(
    "members",
    [
        {"error": {"code": "x", "message": "?"}},
        {"error": {"code": 1.5, "message": "?"}},
        {"error": {"message": "no code"}},
        {"error": {"code": 1, "message": None}},
        {"error": 5},
        {"error": []},
        {"result": {}, "jsonrpc": "1.0"},
    ],
)
def test_a_reply_that_cannot_be_read_is_told_to_whoever_waits(members):
    """It settles its request at once, instead of leaving it to its deadline; and it is not answered."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call()
    event = pair.client.receive(json.dumps({"jsonrpc": "2.0", "id": outgoing.id, **members}).encode())
    assert isinstance(event, Replied)
    assert (event.outgoing, event.result, event.error) == (outgoing, None, None)
    assert "The reply to tools/call cannot be read" in (event.problem or "")
    assert pair.client.outgoing == {}


def test_a_reply_whose_error_is_null_is_a_result():
    """As JSON-RPC 1.0 wrote it."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call()
    event = pair.client.receive(frame(id=outgoing.id, result={"content": []}, error=None))
    assert isinstance(event, Replied)
    assert decoded(bytes(event.result or b"")) == {"content": []}
    assert pair.client.outgoing == {}


def test_a_reply_nested_too_deep_is_told_to_whoever_waits():
    """A reply that is refused for its depth does not leave its request waiting for ever."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call()
    deep = b"[" * 300 + b"]" * 300
    event = pair.client.receive(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (outgoing.id, deep))
    assert isinstance(event, Replied)
    assert "deeper" in (event.problem or "")


def test_a_reply_that_has_both_is_an_error():
    """Where a peer sets result and error, the error stands."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call()
    event = pair.client.receive(frame(id=outgoing.id, result={}, error={"code": 1, "message": "no"}))
    assert isinstance(event, Replied)
    assert event.error is not None
    assert event.result is None


# --- what we send ---------------------------------------------------------------------------------------------------


def test_nothing_is_told_before_anything_is_agreed():
    """A notification needs a revision."""
    with pytest.raises(LocalProtocolError, match="before the handshake"):
        Pair(LATEST_LEGACY).server.notify(METHODS["notifications/tools/list_changed"], NotificationParams())


@pytest.mark.requirement("lifecycle.negotiated")
@pytest.mark.parametrize(
    ("side", "method", "revision"),
    [
        ("client", "notifications/tools/list_changed", LATEST_LEGACY),
        ("server", "notifications/roots/list_changed", LATEST_LEGACY),
        ("server", "notifications/elicitation/complete", LATEST),
        ("server", "notifications/elicitation/complete", OLDEST),
        ("client", "notifications/roots/list_changed", LATEST),
        ("client", "notifications/progress", LATEST),
        ("server", "notifications/initialized", LATEST_LEGACY),
        ("client", "ping", LATEST_LEGACY),
    ],
)
def test_what_is_not_ours_to_tell_is_refused_before_it_is_sent(side: str, method: str, revision: Revision):
    """Each side sends the notifications its revision gives it, and no others."""
    session: PeerSession = getattr(Pair.opened(revision), side)
    if side == "server" and revision.modern:
        session.revision = revision
    with pytest.raises(NotInRevision, match=method):
        session.notify(METHODS[method], NotificationParams())


def test_meta_in_the_params_gives_way_to_the_sessions_own():
    """Params that were received from elsewhere do not put a second _meta into the frame."""
    pair = Pair.opened(LATEST)
    params = CallToolRequestParams(name="t", meta=RequestMeta(progress_token="theirs", protocol_version="1999-01-01"))
    outgoing, request = pair.call(params=params)
    assert outgoing.data.count(b'"_meta"') == 1
    assert request.meta is not None
    assert request.meta.progress_token is None


def test_a_session_takes_no_requests_by_itself():
    """Which requests and notifications are served is for each side to say."""
    for data in (frame(id=1, method="ping"), frame(method="notifications/initialized")):
        with pytest.raises(AssertionError, match="each side defines"):
            PeerSession().receive(data)


def test_a_word_for_the_log_is_said_once() -> None:
    """In every session."""
    session = Pair(LATEST_LEGACY).server
    assert [session.first_time(topic) for topic in ("a", "b", "a")] == [True, True, False]


def test_what_a_revision_deprecates_is_said_once() -> None:
    """Sampling and roots at the newest revision; elsewhere there is nothing to say."""
    session = Pair(LATEST_LEGACY).server
    sampling, elicitation = METHODS["sampling/createMessage"], METHODS["elicitation/create"]
    assert "deprecated since" in (session.deprecation(sampling, LATEST) or "")
    assert session.deprecation(sampling, LATEST) is None
    assert session.deprecation(elicitation, LATEST) is None
    assert session.deprecation(METHODS["roots/list"], LATEST_LEGACY) is None


@pytest.mark.requirement("lifecycle.first")
def test_the_only_way_leads_from_new_over_answered_to_ready():
    """Two steps, each from one phase."""
    assert TRANSITIONS == {
        (Phase.NEW, "initialize"): Phase.ANSWERED,
        (Phase.ANSWERED, "notifications/initialized"): Phase.READY,
    }


def test_what_is_served_before_the_handshake_needs_none():
    """The handshake itself, a sign of life, and the question what the server speaks."""
    assert {"initialize", "ping", "server/discover"} == ALLOWED_BEFORE_READY
