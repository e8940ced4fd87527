"""Hosts and origins are checked each by itself; tokens become principals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.transports.http.server.entrance import Guard, TokenCheck
from tests.transports.http.server.driver import ACCEPT, Open, ask, closing, post, scope_of
from tests.transports.http.server.fakes import Bench, modern, modern_headers


def lets_in(guard, host="localhost", origin=None):
    """Tell whether a guard lets a request with these headers in."""
    sent = {b"host": host, b"origin": origin}
    return guard.check({name: value.encode() for name, value in sent.items() if value is not None}) is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80"])
def test_loopback_names_are_hosts_by_default(host):
    """With any port."""
    assert lets_in(Guard(), host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:", "localhost:80:80", "", None],
)
def test_foreign_hosts_are_refused(host):
    """A page that had its name rebound to us still calls us by that name; so is what has no name."""
    assert not lets_in(Guard(), host)


@pytest.mark.parametrize("origin", [None, "http://localhost", "https://127.0.0.1:3000", "http://[::1]:5173"])
def test_local_pages_and_programs_are_let_in(origin):
    """Programs send no origin."""
    assert lets_in(Guard(), origin=origin)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "localhost", "http://localhost.evil.example", "file://localhost"]
)
def test_foreign_origins_are_refused_even_with_a_good_host(origin):
    """Neither vouches for the other."""
    assert not lets_in(Guard(), origin=origin)


def test_allowlists_replace_the_defaults():
    """A host with or without a port; an origin exactly, or with any port."""
    guard = Guard(["mcp.example", "two.example:81"], ["https://app.example", "http://dev.example:*"])
    assert lets_in(guard, "mcp.example:1234", "https://app.example")
    assert lets_in(guard, "two.example:81", "http://dev.example:5000")
    assert not lets_in(guard, "two.example:82")
    assert not lets_in(guard, "localhost")
    assert not lets_in(guard, "mcp.example", "https://app.example:444")


def test_a_star_lets_everybody_in():
    """Behind a proxy that checks."""
    assert lets_in(Guard(["*"], ["*"]), "anything", "https://any.where")


def test_what_was_let_in_is_remembered_and_what_was_not_is_not():
    """The memory is bounded."""
    guard = Guard(["*"], ["*"])
    assert all(lets_in(guard, f"host-{number}") for number in range(1000))
    assert not lets_in(Guard(), "evil.example")


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_hostile_page_never_reaches_a_handler(method, headers):
    """403, whatever the method, and no peer is made."""
    bench = Bench()
    async with closing(bench.app) as app:
        if method == "POST":
            response = await post(app, modern("echo"), **modern_headers(name="echo"), **headers)
        else:
            response = await ask(app, method, **headers)
    assert response.status == 403
    assert bench.peers == []


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer ", b"Basic abc", b"Bearer \xff"])
async def test_what_is_no_bearer_token_is_nobody(value):
    """The hook is not even asked."""
    assert await TokenCheck(lambda token: f"whoever has {token}").caller({b"authorization": value}) is None


async def test_a_hook_may_be_async():
    """Or not."""

    async def check(token):
        return token.upper()

    caller = await TokenCheck(check).caller({b"authorization": b"bearer abc"})
    assert caller is not None and caller.principal == "ABC"


async def test_a_principal_reaches_the_peer_and_others_get_401():
    """With the challenge that clients look for."""
    bench = Bench(check_token={"good": "alice"}.get)
    async with closing(bench.app) as app:
        sent = modern_headers(name="echo")
        fine = await post(app, modern("echo"), **sent, authorization="Bearer good")
        refused = await post(app, modern("echo"), **sent, authorization="Bearer bad")
    assert (fine.status, bench.peer.principal) == (200, "alice")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")


# --- the same request again -------------------------------------------------------------------------------------------


async def repeat(app, **headers):
    """Post a call."""
    sent = {"content-type": "application/json", "accept": ACCEPT, **modern_headers(name="echo"), **headers}
    return (await Open(app, scope_of("POST", sent), [json.dumps(modern("echo")).encode()]).done()).status


async def test_a_request_that_was_let_in_is_checked_again():
    """Every time: nothing is remembered of it."""
    first, second = Bench(), Bench(allowed_hosts=["elsewhere.example"])
    async with closing(first.app), closing(second.app):
        assert [await repeat(first.app) for _ in range(3)] == [200, 200, 200]
        assert await repeat(second.app) == 403
        assert await repeat(first.app, host="elsewhere.example") == 403
        assert await repeat(first.app, origin="https://elsewhere.example") == 403
        await first.app.close()
        assert await repeat(first.app) == 503


async def test_a_token_is_checked_with_every_request():
    """It may be revoked, or expire, before it comes again."""
    known = {"good": "alice"}
    bench = Bench(check_token=known.get)
    async with closing(bench.app):
        assert [await repeat(bench.app, authorization="Bearer good") for _ in range(3)] == [200, 200, 200]
        known.clear()
        assert await repeat(bench.app, authorization="Bearer good") == 401


@pytest.mark.parametrize("said", [False, 0, "", None, True, 1, b"alice", {"sub": "alice"}])
@pytest.mark.parametrize("later", [False, True])
async def test_only_a_name_is_a_principal(said: object, later: bool, caplog: pytest.LogCaptureFixture):
    """A hook that says no in another way than with ``None`` lets nobody in, nor does one that says yes with no name."""

    def check(_token: str) -> Any:
        async def answer() -> object:
            return said

        return answer() if later else said

    bench = Bench(check_token=check)
    async with closing(bench.app) as app:
        answers = [
            await post(app, modern("echo"), **modern_headers(name="echo"), authorization="Bearer x") for _ in range(2)
        ]
    assert [answer.status for answer in answers] == [401, 401]
    assert not bench.peers
    assert caplog.text.count("which is no principal") == bool(said)
