"""The reading of ``WWW-Authenticate``."""

from __future__ import annotations

import time

import pytest

from antiphon.auth.challenge import MAX_CHALLENGES, MAX_CHARACTERS, Challenge, oauth_challenge, read_challenges


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Bearer"], [("bearer", {})]),
        (['Bearer realm="a"'], [("bearer", {"realm": "a"})]),
        (['bEaReR ERROR=invalid_token , Scope = "a b"'], [("bearer", {"error": "invalid_token", "scope": "a b"})]),
        (['Bearer a="1", DPoP b="2"'], [("bearer", {"a": "1"}), ("dpop", {"b": "2"})]),
        (["Bearer, DPoP"], [("bearer", {}), ("dpop", {})]),
        (['Basic realm="x"', 'Bearer scope="y"'], [("basic", {"realm": "x"}), ("bearer", {"scope": "y"})]),
        (["Negotiate YWJj==, Bearer"], [("negotiate", {}), ("bearer", {})]),
        ([r'Bearer error_description="say \"no\", twice"'], [("bearer", {"error_description": 'say "no", twice'})]),
        (['Bearer scope="first", scope="second"'], [("bearer", {"scope": "first"})]),
        (['Bearer a="1",,, b="2"'], [("bearer", {"a": "1", "b": "2"})]),
        (['@@@, Bearer a="1"'], [("bearer", {"a": "1"})]),
        (['Bearer error="never closed'], [("bearer", {"error": "never closed"})]),
        (["Bearer resource_metadata=https://a/b?c=d"], [("bearer", {"resource_metadata": "https://a/b?c=d"})]),
        (
            ["Bearer resource_metadata='https://a/b', scope=x"],
            [("bearer", {"resource_metadata": "https://a/b", "scope": "x"})],
        ),
        (["Bearer realm=, resource_metadata=u"], [("bearer", {"resource_metadata": "u"})]),
        (["Bearer scope=x, realm=, a=u"], [("bearer", {"scope": "x", "realm": "", "a": "u"})]),
        (["Bearer realm=My Server, scope=a b c"], [("bearer", {"realm": "My Server", "scope": "a b c"})]),
        (["Bearer realm=x scope=a"], [("bearer", {"realm": "x", "scope": "a"})]),
        (
            [r"Bearer resource_metadata=\"https://a/b\", scope=x"],
            [("bearer", {"resource_metadata": "https://a/b", "scope": "x"})],
        ),
        (["Bearer resource_metadata=<https://a/b>"], [("bearer", {"resource_metadata": "https://a/b"})]),
        (["Bearer resource_metadata=`https://a/b`"], [("bearer", {"resource_metadata": "https://a/b"})]),
        (["Bearer resource_metadata=\u201chttps://a/b\u201d"], [("bearer", {"resource_metadata": "https://a/b"})]),
        (['Bearer realm="a "b" c", resource_metadata="u"'], [("bearer", {"realm": "a ", "resource_metadata": "u"})]),
        (['Bearer: resource_metadata="u"'], [("bearer", {"resource_metadata": "u"})]),
        (['Bearer scope="x"; resource_metadata="u"'], [("bearer", {"scope": "x", "resource_metadata": "u"})]),
        (["NTLM TlRM/+==, Bearer scope=mcp:tools"], [("ntlm", {}), ("bearer", {"scope": "mcp:tools"})]),
        (['Bearer a="x, Basic y=\\"z\\"", b=1'], [("bearer", {"a": 'x, Basic y="z"', "b": "1"})]),
        ([""], []),
    ],
)
def test_reads_what_servers_send(lines, expected):
    """Several headers, several challenges in one, quotes, odd case and odd commas; what is broken is passed over."""
    found = [(one.scheme, dict(one.parameters)) for one in read_challenges(lines)]
    assert found[: len(expected)] == expected
    assert len(found) <= len(expected) + 1


def test_scopes_are_words_each_once():
    """The scopes keep the server's order, and none comes twice."""
    assert Challenge(scheme="bearer", parameters={"scope": " b a  b "}).scopes == ("b", "a")


def test_prefers_the_challenge_that_tells_most():
    """Of several, the one that says where to look is the one to follow."""
    lines = ['Basic realm="x"', "Bearer", 'DPoP resource_metadata="https://a/b"']
    chosen = oauth_challenge(read_challenges(lines))
    assert chosen is not None
    assert (chosen.scheme, chosen.resource_metadata) == ("dpop", "https://a/b")


def test_finds_none_where_no_token_is_wanted():
    """A server that wants a password or a ticket wants no access token."""
    assert oauth_challenge(read_challenges(["Basic realm=x, Negotiate"])) is None


@pytest.mark.parametrize(
    "piece", ["a ", "a=", 'a="', '\\"', ",", "Bearer ", 'a="1",', "=", "@", "a=b c ", "a=b c=", 'a=\\"']
)
def test_hostile_headers_are_bounded_and_read_in_linear_time(piece):
    """Megabytes of anything cost no more than what is looked at."""
    began = time.process_time()
    found = read_challenges([piece * 1_000_000, "Bearer"])
    assert time.process_time() - began < 1.0
    assert len(found) <= MAX_CHALLENGES
    assert all(len(str(dict(one.parameters))) <= 2 * MAX_CHARACTERS for one in found)
