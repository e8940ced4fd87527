"""No bytes make a session raise, and nothing that is owed an answer goes without."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Answered, Event, Ignored, Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.protocol.session import PeerSession
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, REVISIONS, Revision
from tests.support.pair import CLIENT, EVERYTHING, OFFERS_ALL, SERVER, Pair, flat

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
IDS = st.integers(-3, 9) | st.sampled_from(["a", "1", ""])
META = st.fixed_dictionaries(
    {},
    optional={
        VERSION: st.sampled_from([each.name for each in REVISIONS] + ["2099-01-01", ""]) | ANYTHING,
        CAPABILITIES: st.just({}) | ANYTHING,
        "io.modelcontextprotocol/clientInfo": st.just({"name": "c", "version": "1"}) | ANYTHING,
        "io.modelcontextprotocol/logLevel": st.sampled_from(["debug", "loud"]) | ANYTHING,
        "progressToken": IDS | ANYTHING,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": META | ANYTHING,
        "name": st.text(max_size=3) | ANYTHING,
        "arguments": ANYTHING,
        "uri": ANYTHING,
        "requestId": IDS | ANYTHING,
        "progressToken": IDS | ANYTHING,
        "progress": st.integers(0, 5) | ANYTHING,
        "level": st.just("info") | ANYTHING,
        "protocolVersion": st.just("2025-03-26") | ANYTHING,
        "capabilities": st.just({}) | ANYTHING,
        "clientInfo": st.just({"name": "c", "version": "1"}) | ANYTHING,
        "messages": ANYTHING,
        "maxTokens": st.just(1) | ANYTHING,
        "requestState": ANYTHING,
        "inputResponses": ANYTHING,
    },
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": IDS | ANYTHING,
        "method": st.sampled_from(sorted(METHODS)) | ANYTHING,
        "params": PARAMS | ANYTHING,
        "result": ANYTHING,
        "error": st.just({"code": 1, "message": "m"}) | ANYTHING,
    },
)
FRAMES = (
    MESSAGES.map(json.dumps).map(str.encode)
    | st.lists(MESSAGES, max_size=4).map(json.dumps).map(str.encode)
    | ANYTHING.map(json.dumps).map(str.encode)
    | st.binary(max_size=40)
)
STATES = st.sampled_from([None, *REVISIONS])


def session(side: str, revision: Revision | None) -> PeerSession:
    """Make a session in one of its states, with a request of its own in flight where it can have one."""
    if revision is None:
        return ServerSession(ServerOffer(SERVER, EVERYTHING)) if side == "server" else ClientSession(CLIENT, OFFERS_ALL)
    pair = Pair.opened(revision)
    pair.call()
    return pair.server if side == "server" else pair.client


def is_good_request(message: Any) -> bool:
    """Tell whether JSON-RPC owes this message a reply."""
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and type(message.get("id")) in (int, str)
        and isinstance(message.get("params", {}), dict | list)
        # With one of them it may be a reply to a request of ours, which fails at once.
        and not {"result", "error"} & message.keys()
    )


@given(side=st.sampled_from(["client", "server"]), revision=STATES, frames=st.lists(FRAMES, max_size=5))
@settings(max_examples=200, deadline=None)
def test_no_frame_makes_a_session_raise(side, revision, frames):
    """Each becomes one event, and every answer is JSON with the version of JSON-RPC."""
    subject = session(side, revision)
    for data in frames:
        event = subject.receive(data)
        for part in flat(event):
            if isinstance(part, Answered):
                assert json.loads(part.reply)["jsonrpc"] == "2.0"


@given(data=st.binary(max_size=300), cut=st.integers(0, 300), revision=STATES)
@settings(max_examples=200, deadline=None)
def test_no_damage_to_a_good_frame_makes_a_session_raise(data, cut, revision):
    """Bytes in its midst, and any end cut off."""
    subject = session("server", revision)
    good = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":3}}}'
    subject.receive(good[:cut] + data + good[cut:])
    subject.receive(good[:cut])


@given(side=st.sampled_from(["client", "server"]), revision=STATES, message=MESSAGES)
@settings(max_examples=200, deadline=None)
def test_every_good_request_is_answered_or_served(side, revision, message):
    """With its own id; by a modern client not at all."""
    subject = session(side, revision)
    event: Event = subject.receive(json.dumps(message).encode())
    if not is_good_request(message):
        return
    if side == "client" and revision is LATEST:
        assert isinstance(event, Ignored)
    elif isinstance(event, Request):
        assert (event.id, type(event.id)) == (message["id"], type(message["id"]))
        assert subject.incoming[event.id] is event
    else:
        assert isinstance(event, Answered)
        assert json.loads(event.reply)["id"] == message["id"]


@given(messages=st.lists(MESSAGES | ANYTHING, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_batch_is_as_many_events_as_messages(messages):
    """None is lost, whatever is in it."""
    subject = session("server", next(each for each in REVISIONS if each.batches))
    event = subject.receive(json.dumps(messages).encode())
    assert len(list(flat(event))) == len(messages)


@given(first=META, second=META)
@settings(max_examples=200, deadline=None)
def test_no_modern_request_changes_how_the_next_is_served(first, second):
    """A request is served by what is in it, and by nothing that came before."""

    def outcome(session_: ServerSession) -> tuple[str, Any]:
        data = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": second}}).encode()
        event = session_.receive(data)
        if isinstance(event, Request):
            return "served", (event.revision, event.capabilities, event.meta)
        assert isinstance(event, Answered)
        return "refused", json.loads(event.reply)["error"]

    alone, after = ServerSession(ServerOffer(SERVER, EVERYTHING)), ServerSession(ServerOffer(SERVER, EVERYTHING))
    before = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "_meta": first}}
    after.receive(json.dumps(before).encode())
    assert outcome(alone) == outcome(after)


def test_the_states_cover_both_eras():
    """So that nothing above is vacuous."""
    assert {each.modern for each in REVISIONS} == {True, False}
    assert session("client", LATEST_LEGACY).outgoing != {}
