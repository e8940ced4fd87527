"""Tokens that only their issuer can read: it is asked, and its answer is held to what it must be."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from contextlib import asynccontextmanager

import pytest

from antiphon.auth.server.introspection import MAX_QUESTIONS
from antiphon.auth.server.issuer import Introspection
from antiphon.auth.server.issuer import Issuer as Trusted
from antiphon.auth.server.resource_server import _CHECKS
from antiphon.errors import ConfigError
from tests.auth.server.protected import protected
from tests.support.issuer import AUDIENCE, Issuer

WORD = "opaque-token-1"


@asynccontextmanager
async def asking(answer=None, *, remembered_for=60.0, **options):
    """Run a server that asks its issuer about tokens; ``answer``: what it says of ``WORD``."""
    async with Issuer().open() as issuer:
        issuer.answers[WORD] = {
            "active": True, "sub": "ann", "aud": AUDIENCE, "scope": "a b", "client_id": "cli",
            "exp": int(time.time()) + 600, **(answer or {}),
        }  # fmt: skip
        how = Introspection(client_id="shop", client_secret="s:cret", remembered_for=remembered_for)
        trusted = Trusted(url=issuer.url, introspection=how)
        async with protected(issuer, issuers=trusted, **options) as server:
            yield server


async def test_what_the_issuer_says_counts():
    """Who asks, and what they may; the server shows who it is itself."""
    async with asking() as server:
        answer = await server.tool(token=WORD)
        assert json.loads(answer.text) == [f"{server.issuer.url} sub:ann", ["a", "b"], "cli"]
        path, form, authorization = server.issuer.asked[-1]
    assert (path, form) == ("/introspect", {"token": [WORD], "token_type_hint": ["access_token"]})
    assert authorization == b"Basic " + base64.b64encode(b"shop:s%3Acret")


@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        {"active": "true"},
        {"active": 1},
        {"aud": "https://other.example"},
        {"aud": None},
        {"exp": 1},
        {"exp": "soon"},
        {"iss": "https://evil.example"},
        {"sub": None, "client_id": None},
        {"nbf": 4_000_000_000},
        {"cnf": {"x5t#S256": "abc"}},
    ],
)
async def test_an_answer_that_is_not_enough_lets_nobody_in(answer):
    """It is held to the same as a token that can be read."""
    async with asking(answer) as server:
        answered = await server.tool(token=WORD)
    assert (answered.status, answered.error) == (401, "invalid_token")


async def test_an_unknown_token_lets_nobody_in():
    """The issuer does not know it."""
    async with asking() as server:
        assert (await server.tool(token="made-up")).status == 401


async def test_an_answer_is_remembered_for_a_moment():
    """And then asked for again: a token may be taken back."""
    async with asking() as server:
        for _ in range(5):
            assert (await server.tool(token=WORD)).status == 200
        assert server.issuer.paths.count("/introspect") == 1
        server.issuer.answers[WORD]["active"] = False
        _CHECKS[server.auth].verifier._clock = lambda: time.time() + 61
        assert (await server.tool(token=WORD)).status == 401


async def test_an_answer_is_not_remembered_past_the_token_s_end():
    """Whatever the operator has set."""
    async with asking({"exp": 1020}, leeway=0) as server:
        _CHECKS[server.auth].verifier._clock = lambda: 1000.0
        assert (await server.tool(token=WORD)).status == 200
        _CHECKS[server.auth].verifier._clock = lambda: 1021.0
        assert (await server.tool(token=WORD)).status == 401


async def test_nothing_is_remembered_where_the_operator_wants_it_so():
    """Each request asks."""
    async with asking(remembered_for=0) as server:
        for _ in range(3):
            assert (await server.tool(token=WORD)).status == 200
        assert server.issuer.paths.count("/introspect") == 3


async def test_many_requests_with_one_token_ask_once():
    """Those that come while the answer is on its way wait for it."""
    async with asking() as server:
        answers = await asyncio.gather(*(server.tool(token=WORD) for _ in range(10)))
        assert {answer.status for answer in answers} == {200}
        assert server.issuer.paths.count("/introspect") == 1


async def test_an_issuer_that_is_down_is_no_fault_of_the_token():
    """503, and what was remembered goes on."""
    async with asking() as server:
        server.issuer.down = True
        assert (await server.tool(token=WORD)).status == 503
        server.issuer.down = False
        assert (await server.tool(token=WORD)).status == 200
        server.issuer.down = True
        assert (await server.tool(token=WORD)).status == 200


async def test_a_foreign_token_is_not_shown_to_the_issuer():
    """One that says it is somebody else's is refused here: it would be good elsewhere."""
    async with asking() as server:
        foreign = server.issuer.token(iss="https://other.example")
        assert (await server.tool(token=foreign)).status == 401
        assert "/introspect" not in server.issuer.paths


async def test_questions_are_bounded():
    """Whoever makes up tokens does not turn us against the issuer."""
    async with asking() as server:
        asked = next(iter(_CHECKS[server.auth].verifier._introspectors.values()))
        asked._open = MAX_QUESTIONS
        assert (await server.tool(token=WORD)).status == 503
        asked._open = 0
        assert (await server.tool(token=WORD)).status == 200


@pytest.mark.parametrize("seconds", [-1, 301, float("nan")])
def test_how_long_an_answer_is_good_is_bounded(seconds):
    """A token that was taken back must not live for long."""
    with pytest.raises(ConfigError, match="0 to 300"):
        Trusted(
            url="https://auth.example.com",
            introspection=Introspection(client_id="a", client_secret="b", remembered_for=seconds),
        )


def test_its_secret_is_not_shown():
    """In no ``repr``."""
    assert "s3cret" not in repr(Introspection(client_id="a", client_secret="s3cret"))
    how = Introspection(client_id="a", client_secret="s3cret")
    assert "s3cret" not in repr(Trusted(url="https://auth.example.com", introspection=how))
