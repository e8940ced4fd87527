"""Where an endpoint is for clients and here, and how a challenge is written."""

from __future__ import annotations

import pytest

from antiphon.auth.challenge import read_challenges
from antiphon.auth.server.resource_server import EndpointPlace, build_challenge, list_scopes

ROOT = "https://mcp.example.com"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("url", "path", "hint"),
    [
        (f"{ROOT}/mcp", "/mcp", f"{ROOT}{WELL_KNOWN}/mcp"),
        (f"{ROOT}/tools/mcp", "/mcp", f"{ROOT}/tools{WELL_KNOWN}/mcp"),
        (f"{ROOT}/public", "/mcp", f"{ROOT}{WELL_KNOWN}/public"),
        (ROOT, "/", f"{ROOT}{WELL_KNOWN}"),
        (f"{ROOT}/", "/", f"{ROOT}{WELL_KNOWN}"),
    ],
)
def test_the_hint_is_where_the_document_is_served(url, path, hint):
    """Below a mount that is there; at the root where nothing is in between."""
    assert EndpointPlace(url, path).metadata_url == hint


def test_the_hint_may_be_somewhere_else():
    """Where a proxy or a file serves it."""
    assert EndpointPlace(f"{ROOT}/mcp", "/mcp", f"{ROOT}/doc.json").metadata_url == f"{ROOT}/doc.json"


def test_the_address_of_another_path_is_below_the_same_mount():
    """The second endpoint of HTTP+SSE."""
    assert EndpointPlace(f"{ROOT}/tools/sse", "/sse").address("/messages") == f"{ROOT}/tools/messages"
    assert EndpointPlace(f"{ROOT}/tools/sse", "/sse").address("/sse") == f"{ROOT}/tools/sse"


@pytest.mark.parametrize("value", ["plain", 'a "quoted" word', "back\\slash", "a, b=c", "new\r\nline: x", "ünï"])
def test_a_challenge_reads_as_it_was_meant(value):
    """Nothing ends its quotes, and nothing ends the line."""
    written = build_challenge("Bearer", {"error_description": value, "error": "invalid_token", "scope": None})
    assert b"\r" not in written and b"\n" not in written
    (read,) = read_challenges([written.decode("ascii")])
    assert (read.scheme, read.error, "scope" in read.parameters) == ("bearer", "invalid_token", False)
    assert read.parameters["error_description"] == "".join(sign for sign in value if " " <= sign <= "~")


def test_scopes_are_always_written_alike():
    """So that a client can tell whether it has been asked this before."""
    assert list_scopes(["b", "a", "b"]) == list_scopes(("a", "b")) == "a b"
