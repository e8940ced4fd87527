"""What a server offers: what follows from its capabilities, and how it grows while clients are connected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import DecodeError, Raw

from antiphon.errors import InvalidParams, LocalProtocolError, NotInRevision, UnsupportedVersion
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import ModernResults, ServerOffer
from antiphon.wire.common import SERVER_INFO, EmptyResult, Implementation, Wire
from antiphon.wire.content import TextContent
from antiphon.wire.lifecycle import ListChangedCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.tools import CallToolResult, ListToolsResult
from tests.support.pair import SERVER, Pair, decoded

INFO = Implementation(name="s", version="1")
TOOLS = ServerCapabilities(tools=ListChangedCapability())


def test_what_is_served_follows_from_the_capabilities():
    """For each revision by itself."""
    offer = ServerOffer(INFO, TOOLS)
    assert "tools/call" in offer.servable[LATEST.name]
    assert "initialize" not in offer.servable[LATEST.name]
    assert "prompts/get" not in offer.servable[LATEST_LEGACY.name]


def test_a_newer_offer_that_has_all_of_the_older_is_taken_as_it_is():
    """So that all sessions share it."""
    newer = ServerOffer(INFO, TOOLS)
    assert ServerOffer(INFO, ServerCapabilities()).widen_offer(newer) is newer


def test_what_was_declared_stays_declared():
    """A client may rely on it, though nothing may be left."""
    both = ServerOffer(INFO, TOOLS).widen_offer(ServerOffer(INFO, ServerCapabilities(logging={})))
    assert both.capabilities == ServerCapabilities(tools=ListChangedCapability(), logging={})
    assert "tools/call" in both.servable[LATEST.name]


def test_a_server_of_one_era_has_no_revision_of_the_other():
    """And says which it has, the newest first."""
    legacy = ServerOffer(INFO, TOOLS, None, LEGACY)
    assert (legacy.modern, legacy.newest_legacy) == ({}, LATEST_LEGACY)
    with pytest.raises(UnsupportedVersion) as caught:
        legacy.modern_revision("x")
    assert caught.value.data == {"supported": [each.name for each in reversed(LEGACY)], "requested": "x"}
    assert ServerOffer(INFO, TOOLS, None, (LATEST,)).newest_legacy is None


def test_a_handshake_agrees_on_what_was_requested_or_on_the_newest():
    """Also where a modern revision was requested, which has no handshake."""
    offer = ServerOffer(INFO, TOOLS)
    assert offer.legacy_revision(LEGACY[0].name) is LEGACY[0]
    assert offer.legacy_revision("1999-01-01") is offer.legacy_revision(LATEST.name) is LATEST_LEGACY


def test_a_modern_server_agrees_to_no_handshake():
    """Its error says which revisions it speaks."""
    with pytest.raises(UnsupportedVersion) as caught:
        ServerOffer(INFO, TOOLS, None, (LATEST,)).legacy_revision(LATEST_LEGACY.name)
    assert caught.value.data == {"supported": [LATEST.name], "requested": LATEST_LEGACY.name}


def test_a_request_names_its_revision():
    """By text; everything else is no revision at all."""
    offer = ServerOffer(INFO, TOOLS)
    assert offer.modern_revision(LATEST.name) is LATEST
    with pytest.raises(InvalidParams, match="a string"):
        offer.modern_revision(3)


def test_discovery_tells_all_of_it():
    """What a client may keep for an hour."""
    said = ServerOffer(INFO, TOOLS, "be kind").handle_discovery()
    assert (said.capabilities, said.instructions, said.ttl_ms) == (TOOLS, "be kind", 3_600_000)


US = {"name": "pair-server", "version": "2"}
ROUND = InputRequiredResult(
    input_requests={"r": InputRequest(method="roots/list", params=Raw(b"{}"))}, request_state="sealed"
)


def request_for(method: str) -> Request:
    """Make a modern request, as a session would."""
    return Request(1, METHODS[method], None, Raw(b"{}"), LATEST, meta=None, capabilities=None)


def encoded(result: Wire | Raw, method: str = "tools/call") -> dict[str, Any]:
    """Encode a result, and read it back; no member may be there twice."""
    pairs: list[list[str]] = []
    data = ModernResults(SERVER).encode(request_for(method), result)
    value = json.loads(data, object_pairs_hook=lambda found: pairs.append([key for key, _ in found]) or dict(found))
    assert all(len(keys) == len(set(keys)) for keys in pairs), data
    return value


@pytest.mark.requirement("base.result-type", "base.server-info")
@pytest.mark.parametrize(
    "result",
    [
        CallToolResult(content=[TextContent(text="x")]),
        CallToolResult(content=[], meta={"a/b": 1}),
        CallToolResult(content=[], result_type="complete"),
        EmptyResult(),
        Raw(b"{}"),
        Raw(b' { "content" : [] } '),
        Raw(b'{"_meta":{"a/b":1},"content":[]}'),
        Raw(b'{"content":[],"resultType":"complete"}'),
    ],
)
def test_every_result_says_that_it_is_complete_and_whose_it_is(result):
    """Typed or encoded, with or without members of its own."""
    value = encoded(result)
    assert value["resultType"] == "complete"
    assert value["_meta"][SERVER_INFO] == US


def test_a_results_own_meta_stays():
    """Beside ours, and before ours: who relays a result names the server it came from."""
    other = {"name": "upstream", "version": "9"}
    assert encoded(CallToolResult(content=[], meta={"a/b": 1}))["_meta"] == {"a/b": 1, SERVER_INFO: US}
    assert encoded(CallToolResult(content=[], meta={SERVER_INFO: other}))["_meta"] == {SERVER_INFO: other}
    relayed = json.dumps({"resultType": "x", "_meta": {SERVER_INFO: other}}).encode()
    assert encoded(Raw(relayed)) == {"resultType": "x", "_meta": {SERVER_INFO: other}}


@pytest.mark.requirement("base.result-type", "base.server-info")
def test_a_round_says_what_it_is_once():
    """``input_required``, with the asks, the state and who asks."""
    value = encoded(ROUND)
    assert value == {
        "resultType": "input_required",
        "_meta": {SERVER_INFO: US},
        "inputRequests": {"r": {"method": "roots/list", "params": {}}},
        "requestState": "sealed",
    }
    tagged = encoded(InputRequiredResult(request_state="s", meta={"a/b": 1}))
    assert tagged["_meta"] == {"a/b": 1, SERVER_INFO: US}


@pytest.mark.requirement("mrtr.supported")
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.kind == "request"])
def test_only_three_requests_may_be_answered_with_a_round(method):
    """prompts/get, resources/read and tools/call."""
    if method in {"prompts/get", "resources/read", "tools/call"}:
        assert encoded(ROUND, method)["resultType"] == "input_required"
    else:
        with pytest.raises(LocalProtocolError, match=method):
            encoded(ROUND, method)


@pytest.mark.requirement("mrtr.not-empty")
def test_a_round_that_asks_for_nothing_is_refused():
    """It needs asks, a state, or both."""
    for empty in (InputRequiredResult(), InputRequiredResult(input_requests={})):
        with pytest.raises(LocalProtocolError, match="must have"):
            encoded(empty)


@pytest.mark.parametrize("raw", [b"null", b"[]", b"5", b"{"])
def test_what_is_no_object_is_no_result(raw):
    """An error for our caller, never a broken frame."""
    with pytest.raises(DecodeError):
        encoded(Raw(raw))


@pytest.mark.parametrize("revision", LEGACY)
def test_legacy_results_carry_none_of_it(revision):
    """Neither a type nor a name, and rounds not at all."""
    pair = Pair.opened(revision)
    _, request = pair.call("tools/list")
    listed = ListToolsResult(tools=[], ttl_ms=5, cache_scope="public", result_type="complete")
    assert decoded(pair.server.reply(request, listed))["result"] == {"tools": []}


def test_a_legacy_request_is_not_answered_with_a_round():
    """Its revision has no such thing."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    with pytest.raises(NotInRevision):
        pair.server.reply(request, ROUND)
