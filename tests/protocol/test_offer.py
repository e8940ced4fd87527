"""What a server offers: what follows from its capabilities, and how it grows while clients are connected."""

from __future__ import annotations

from antiphon.protocol.offer import Offer
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
    assert legacy.supported("x") == {"supported": [each.name for each in reversed(LEGACY)], "requested": "x"}
    assert Offer(INFO, TOOLS, None, (LATEST,)).newest_legacy is None


def test_discovery_tells_all_of_it():
    """What a client may keep for an hour."""
    said = Offer(INFO, TOOLS, "be kind").discovered()
    assert (said.capabilities, said.instructions, said.ttl_ms) == (TOOLS, "be kind", 3_600_000)
