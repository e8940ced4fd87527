"""The checks of a token, by themselves; the battery over HTTP is in ``test_verifier``."""

from __future__ import annotations

import json

import pytest

from antiphon.auth.server.access_token import (
    Claims,
    Invalid,
    Standard,
    decode_unpadded,
    principal_of,
    read_claims,
    read_header,
    scopes_of,
    split_token,
)
from tests.support.issuer import b64


def test_no_two_callers_have_one_principal():
    """A subject may be written like anything."""
    names = [
        principal_of("https://a", Standard(iss="https://a", exp=1, sub="b")),
        principal_of("https://a", Standard(iss="https://a", exp=1, sub="client:b")),
        principal_of("https://a", Standard(iss="https://a", exp=1, sub="x sub:b")),
        principal_of("https://a", Standard(iss="https://a", exp=1, client_id="b")),
        principal_of("https://a", Standard(iss="https://a", exp=1, client_id="x sub:b")),
        principal_of("https://b", Standard(iss="https://b", exp=1, sub="b")),
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("member", ["client_id", "azp", "appid"])
def test_a_client_is_named_in_several_ways(member):
    """As issuers write it."""
    assert principal_of("https://a", Standard(iss="https://a", exp=1, **{member: "cli"})) == "https://a client:cli"


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": "b"}, {"a", "b"}),
        ({"scope": ["a", 7, None, {"b": 1}]}, {"a"}),
        ({"scope": {"a": True}}, set()),
        ({"scope": ""}, set()),
        ({}, set()),
    ],
)
def test_scopes_are_read_in_every_form(claims, scopes):
    """Text or list; what is neither allows nothing."""
    assert scopes_of(json.dumps(claims).encode(), ["scope", "scp"]) == scopes


@pytest.mark.parametrize("part", [b"a=", b"a+b", b"a/b", b"\xff", b"a b", b"a\n", b"abcde"])
def test_only_base64url_is_read(part):
    """As JOSE writes it: two spellings of one token would be two tokens to whoever remembers them."""
    with pytest.raises(Invalid):
        decode_unpadded(part)


@pytest.mark.parametrize("token", [b"", b"a", b"ey.b", b"ey..c", b"ey.b.c.d", b"ax.b.c", b".."])
def test_what_is_no_signed_token_is_none(token):
    """Its issuer may know it."""
    assert split_token(token) is None


def test_claims_are_decoded_when_looked_at():
    """Each time anew: what a handler does with them reaches no other request."""
    claims = Claims(b'{"sub": "ann", "groups": ["a"]}')
    claims["groups"].append("admin")
    assert (dict(claims), len(claims), list(claims)) == ({"sub": "ann", "groups": ["a"]}, 2, ["sub", "groups"])
    assert "ann" not in repr(claims)


def test_a_header_that_is_too_long_is_not_read():
    """Before anything of it is decoded."""
    with pytest.raises(Invalid, match="too long"):
        read_header(b"a" * 5_000)


def test_claims_must_be_what_they_are():
    """A number is no text."""
    with pytest.raises(Invalid):
        read_claims(b64(b'{"iss": 7, "exp": 1}').encode())
