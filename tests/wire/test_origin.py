"""Who asks: identities that spelling cannot change and a name cannot forge."""

from __future__ import annotations

import pytest

from antiphon.wire.origin import MEMORY, Launch, describe_target, identify_target


@pytest.mark.parametrize(
    "other",
    [
        "HTTPS://Shop.Example/mcp",
        "https://shop.example:443/mcp",
        "https://user:secret@shop.example/mcp",
        "https://shop.example/mcp#top",
    ],
)
def test_spellings_of_one_url_are_one_identity(other: str):
    """Case of the host, default port, credentials and fragment do not make another server."""
    assert identify_target(other) == identify_target("https://shop.example/mcp")


@pytest.mark.parametrize(
    "other",
    [
        "http://shop.example/mcp",
        "https://shop.example/mcp2",
        "https://shop.example/mcp?tenant=2",
        "https://a.example/mcp",
    ],
)
def test_another_place_is_another_identity(other: str):
    """Scheme, host, path and query do."""
    assert identify_target(other) != identify_target("https://shop.example/mcp")


def test_a_server_in_memory_is_its_words():
    """Where one word ends and the next begins counts."""
    assert identify_target([MEMORY, "a b"]) != identify_target([MEMORY, "a", "b"])
    assert identify_target([MEMORY, "a"]).startswith("memory:")


def test_a_url_is_never_the_identity_of_a_command():
    """The kind is part of the identity."""
    assert identify_target("https://x/")[:4] == "url:"
    assert identify_target(Launch(program="https://x/"))[:8] == "command:"


def test_a_target_is_shown_without_its_credentials():
    """What a person sees may end up on a screenshot."""
    assert describe_target("https://user:secret@shop.example:8443/mcp?x=1") == "https://shop.example:8443/mcp?x=1"
    assert describe_target(["python", "my server.py"]) == "python 'my server.py'"


def test_a_server_in_this_process_is_shown_by_its_name():
    """Without the word that tells it from a program."""
    assert describe_target([MEMORY, "the shop"]) == "the shop"
