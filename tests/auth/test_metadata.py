"""Where the documents are in which servers describe how to sign in, and how they are read."""

from __future__ import annotations

import json

import pytest

from antiphon.auth.metadata import ResourceMetadata, ServerMetadata, issuer_places, read_document
from antiphon.errors import RemoteProtocolError


def test_what_is_not_known_is_passed_over():
    """These documents have dozens of members."""
    data = json.dumps({"issuer": "https://a", "token_endpoint": "https://a/t", "claims_supported": [1], "x": {}})
    assert read_document(data.encode(), ServerMetadata, "there").token_endpoint == "https://a/t"


@pytest.mark.parametrize("kind", [ResourceMetadata, ServerMetadata])
def test_a_member_that_is_null_is_not_there(kind):
    """Serializers of Java and C# write every member that a document does not have as null."""
    needed = {"resource": "https://a"} if kind is ResourceMetadata else {"issuer": "https://a"}
    nulls = dict.fromkeys(kind.__struct_fields__) | needed
    assert read_document(json.dumps(nulls).encode(), kind, "there") == kind(**needed)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        json.dumps({"resource": 1}).encode(),
        json.dumps({"resource": "a", "authorization_servers": ["x"] * 1000}).encode(),
        json.dumps({"resource": "a" * 10_000}).encode(),
        json.dumps({"resource": "a", "scopes_supported": ["s" * 1000]}).encode(),
    ],
)
def test_what_is_no_such_document_or_too_large_is_refused(data):
    """The message says where it was."""
    with pytest.raises(RemoteProtocolError, match="there"):
        read_document(data, ResourceMetadata, "there")


def test_a_byte_order_mark_is_passed_over():
    """Some web servers put one in front of files (RFC 8259, section 8.1)."""
    data = b'\xef\xbb\xbf{"resource": "https://a.example/mcp"}'
    assert read_document(data, ResourceMetadata, "it").resource == "https://a.example/mcp"


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        ("https://a.example", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        ("https://a.example/", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        (
            "https://a.example/realms/x/",
            [
                "/.well-known/oauth-authorization-server/realms/x",
                "/.well-known/openid-configuration/realms/x",
                "/realms/x/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_an_authorization_server_is_looked_for_in_the_order_of_the_specification(issuer, places):
    """With the path inserted before it is appended."""
    assert issuer_places(issuer) == [f"https://a.example{place}" for place in places]
