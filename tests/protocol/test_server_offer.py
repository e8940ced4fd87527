"""What a server offers: what follows from its capabilities, and how it grows while clients are connected."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidParams, UnsupportedVersion
from antiphon.protocol.server_offer import Offer
from antiphon.wire.common import Implementation
from antiphon.wire.lifecycle import ListChangedCapability, ServerCapabilities
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY

INFO = Implementation(name="s", version="1")
TOOLS = ServerCapabilities(tools=ListChangedCapability())


def test_what_is_served_follows_from_the_capabilities():
    """For each revision by itself."""
    offer = Offer(INFO, TOOLS)
    assert "tools/call" in offer.servable[LATEST.name]
    assert "initialize" not in offer.servable[LATEST.name]
    assert "prompts/get" not in offer.servable[LATEST_LEGACY.name]


def test_a_newer_offer_that_has_all_of_the_older_is_taken_as_it_is():
    """So that all sessions share it."""
    newer = Offer(INFO, TOOLS)
    assert Offer(INFO, ServerCapabilities()).widened(newer) is newer


def test_what_was_declared_stays_declared():
    """A client may rely on it, though nothing may be left."""
    both = Offer(INFO, TOOLS).widened(Offer(INFO, ServerCapabilities(logging={})))
    assert both.capabilities == ServerCapabilities(tools=ListChangedCapability(), logging={})
    assert "tools/call" in both.servable[LATEST.name]


def test_a_server_of_one_era_has_no_revision_of_the_other():
    """And says which it has, the newest first."""
    legacy = Offer(INFO, TOOLS, None, LEGACY)
    assert (legacy.modern, legacy.newest_legacy) == ({}, LATEST_LEGACY)
    with pytest.raises(UnsupportedVersion) as caught:
        legacy.modern_revision("x")
    assert caught.value.data == {"supported": [each.name for each in reversed(LEGACY)], "requested": "x"}
    assert Offer(INFO, TOOLS, None, (LATEST,)).newest_legacy is None


def test_a_handshake_agrees_on_what_was_requested_or_on_the_newest():
    """Also where a modern revision was requested, which has no handshake."""
    offer = Offer(INFO, TOOLS)
    assert offer.legacy_revision(LEGACY[0].name) is LEGACY[0]
    assert offer.legacy_revision("1999-01-01") is offer.legacy_revision(LATEST.name) is LATEST_LEGACY


def test_a_modern_server_agrees_to_no_handshake():
    """Its error says which revisions it speaks."""
    with pytest.raises(UnsupportedVersion) as caught:
        Offer(INFO, TOOLS, None, (LATEST,)).legacy_revision(LATEST_LEGACY.name)
    assert caught.value.data == {"supported": [LATEST.name], "requested": LATEST_LEGACY.name}


def test_a_request_names_its_revision():
    """By text; everything else is no revision at all."""
    offer = Offer(INFO, TOOLS)
    assert offer.modern_revision(LATEST.name) is LATEST
    with pytest.raises(InvalidParams, match="a string"):
        offer.modern_revision(3)


def test_discovery_tells_all_of_it():
    """What a client may keep for an hour."""
    said = Offer(INFO, TOOLS, "be kind").discovered()
    assert (said.capabilities, said.instructions, said.ttl_ms) == (TOOLS, "be kind", 3_600_000)
