"""Tokens that are bound to their sender's key: proofs forged, replayed, of another request, and nonces."""

from __future__ import annotations

import json
import secrets
import time

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from antiphon.auth.server import proofs as module
from antiphon.auth.server.proofs import DPoP, Proofs, TooMany
from antiphon.auth.server.resource_server import _CHECKS
from tests.auth.server.protected import protected
from tests.support.issuer import AUDIENCE, Sender


async def sent(server, sender, token=None, scheme="DPoP", **changed):
    """Send a request with a proof; ``changed``: what is different in it."""
    token = token or server.issuer.token(cnf=sender.bound)
    return await server.tool(**{**sender.headers(token, **changed), "authorization": f"{scheme} {token}"})


@pytest.mark.parametrize(
    ("made", "algorithm"),
    [
        (lambda: ECKey.generate_key("P-256", private=True), "ES256"),
        (lambda: ECKey.generate_key("P-384", private=True), "ES384"),
        (lambda: OKPKey.generate_key("Ed25519", private=True), "EdDSA"),
        (lambda: RSAKey.generate_key(2048, private=True), "PS256"),
        (lambda: RSAKey.generate_key(4096, private=True), "RS256"),
    ],
    ids=["ec", "ec-384", "ed25519", "rsa-pss", "large rsa"],
)
async def test_a_good_proof_is_taken(made, algorithm):
    """Whatever key its sender has; many requests, each with a proof of its own."""
    sender = Sender(made(), algorithm)
    async with protected() as server:
        token = server.issuer.token(cnf=sender.bound)
        assert [(await sent(server, sender, token)).status for _ in range(3)] == [200, 200, 200]


OTHER = Sender()
BAD = {
    "another method": lambda _s: {"htm": "GET"},
    "the method in other letters": lambda _s: {"htm": "post"},
    "another path": lambda _s: {"htu": AUDIENCE + "/other"},
    "another host": lambda _s: {"htu": "https://evil.example/mcp"},
    "another port": lambda _s: {"htu": "https://mcp.example.com:8443/mcp"},
    "no TLS": lambda _s: {"htu": "http://mcp.example.com/mcp"},
    "an address that is none": lambda _s: {"htu": "https://["},
    "another token": lambda _s: {"ath": "x" * 43},
    "no token": lambda _s: {"without": ["ath"]},
    "no method": lambda _s: {"without": ["htm"]},
    "no address": lambda _s: {"without": ["htu"]},
    "no id": lambda _s: {"without": ["jti"]},
    "an empty id": lambda _s: {"jti": ""},
    "a huge id": lambda _s: {"jti": "x" * 300},
    "no time": lambda _s: {"without": ["iat"]},
    "a time long ago": lambda _s: {"iat": int(time.time()) - 120},
    "a time to come": lambda _s: {"iat": int(time.time()) + 120},
    "a time that is none": lambda _s: {"iat": 1e300},
    "another key's name": lambda _s: {"key": OTHER.key},
    "a private key in it": lambda s: {"header": {"jwk": s.key.as_dict(private=True)}},
    "a key with a list of curves": lambda s: {"header": {"jwk": {**s.key.as_dict(private=False), "crv": ["P-256"]}}},
    "no key in it": lambda _s: {"header": {"jwk": None}},
    "a key that is an address": lambda _s: {"header": {"jwk": "https://evil.example"}},
    "no type": lambda _s: {"header": {"typ": None}},
    "the type of a token": lambda _s: {"header": {"typ": "at+jwt"}},
    "no signature": lambda _s: {"header": {"alg": "none"}},
    "a shared secret's algorithm": lambda _s: {"header": {"alg": "HS256"}},
    "an extension that it demands": lambda _s: {"header": {"crit": ["x"]}},
    "too much": lambda _s: {"more": "x" * 5_000},
}


@pytest.mark.parametrize("changed", BAD.values(), ids=BAD.keys())
async def test_a_bad_proof_lets_nobody_in(changed):
    """401, with the word for it."""
    sender = Sender()
    async with protected() as server:
        answer = await sent(server, sender, **changed(sender))
        assert (answer.status, answer.challenge[0], answer.error) == (401, "DPoP", "invalid_dpop_proof")
        assert (await sent(server, sender)).status == 200


async def test_a_thief_of_the_token_has_no_key():
    """A proof with another key, well made, is worth nothing."""
    async with protected() as server:
        token = server.issuer.token(cnf=Sender().bound)
        thief = Sender()
        answer = await server.tool(**thief.headers(token))
    assert answer.error == "invalid_dpop_proof"


async def test_a_bound_token_is_no_bearer_token():
    """Not alone, and not with a proof under the other name."""
    sender = Sender()
    async with protected() as server:
        token = server.issuer.token(cnf=sender.bound)
        assert (await server.tool(token=token)).error == "invalid_token"
        assert (await sent(server, sender, token, scheme="Bearer")).error == "invalid_token"
        assert (await server.tool(token=token, scheme="DPoP")).error == "invalid_dpop_proof"
        assert (await sent(server, sender, token)).status == 200
        assert (await server.tool(token=token)).error == "invalid_token"


async def test_a_bearer_token_is_no_bound_token():
    """Under that name it would prove nothing."""
    async with protected() as server:
        assert (await sent(server, Sender(), server.issuer.token())).status == 401


async def test_a_proof_is_good_once():
    """Whoever has overheard it comes too late."""
    sender = Sender()
    async with protected() as server:
        token = server.issuer.token(cnf=sender.bound)
        headers = sender.headers(token)
        assert [(await server.tool(**headers)).status for _ in range(3)] == [200, 401, 401]
        other = Sender()
        same = other.headers(server.issuer.token(cnf=other.bound), jti="the same")
        mine = sender.headers(token, jti="the same")
        assert [(await server.tool(**each)).status for each in (same, mine)] == [200, 200]


async def test_two_proofs_are_none():
    """One is checked, and the other believed by somebody else."""
    from tests.support.network import Bare, modern_call

    sender = Sender()
    async with protected() as server:
        token = server.issuer.token(cnf=sender.bound)
        lines = [f"authorization: DPoP {token}", *(f"dpop: {sender.proof(token)}" for _ in range(2)), "host: "]
        bare = await Bare.open(server.origin.removeprefix("http://"))
        bare.send(modern_call("whoami").replace(b"host: ", "\r\n".join(lines).encode()))
        status, _, _ = await bare.response()
        bare.vanish()
    assert status == 400


@pytest.mark.parametrize(
    "address",
    [
        AUDIENCE + "?a=b",
        AUDIENCE + "#x",
        AUDIENCE + "/",
        "https://MCP.example.com/mcp",
        "HTTPS://mcp.example.com:443/mcp",
        "wss://mcp.example.com/mcp",
    ],
)
async def test_how_an_address_is_written_does_not_count(address):
    """RFC 9449, section 4.3: query and fragment are ignored, and spellings that mean the same are the same."""
    sender = Sender()
    async with protected() as server:
        assert (await sent(server, sender, htu=address)).status == 200


async def test_the_address_is_the_configured_one():
    """Neither where we listen, nor what the request says of its host."""
    sender = Sender()
    async with protected(serve={"allowed_hosts": ["*"]}) as server:
        assert (await sent(server, sender, htu=server.url)).status == 401
        token = server.issuer.token(cnf=sender.bound)
        lies = {"host": "evil.example", "x-forwarded-host": "evil.example"}
        answer = await server.tool(**sender.headers(token, htu="https://evil.example/mcp"), **lies)
        assert answer.status == 401
        assert (await server.tool(**sender.headers(token), **lies)).status == 200


async def test_where_proofs_are_required_other_tokens_are_not_taken():
    """The challenge says what is wanted, and the document too."""
    sender = Sender()
    async with protected(dpop=DPoP(required=True)) as server:
        bearer = await server.tool(token=server.issuer.token())
        nothing = await server.tool()
        assert (await sent(server, sender)).status == 200
        document = json.loads(server.auth.metadata)
    assert (bearer.status, nothing.status) == (401, 401)
    assert nothing.challenge[0] == "DPoP"
    assert nothing.challenge[1]["algs"].startswith("ES256 ")
    assert document["dpop_bound_access_tokens_required"] is True


# --- nonces -----------------------------------------------------------------------------------------------------------


async def test_a_nonce_is_handed_out_and_demanded():
    """The first request gets one with its refusal; those that bring it are let in."""
    sender = Sender()
    async with protected(dpop=DPoP(nonces=True)) as server:
        refused = await sent(server, sender)
        assert (refused.status, refused.error) == (401, "use_dpop_nonce")
        nonce = refused.headers["dpop-nonce"]
        answers = [await sent(server, sender, nonce=nonce) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert all("dpop-nonce" not in answer.headers for answer in answers)


@pytest.mark.parametrize("nonce", ["x", "1.x", "1795000000.x", "1795000000.", ".", "9" * 300, "-1.x", "1e9.x", "٣.x"])
async def test_a_made_up_nonce_is_none(nonce):
    """Another one is handed out."""
    sender = Sender()
    async with protected(dpop=DPoP(nonces=True)) as server:
        answer = await sent(server, sender, nonce=nonce)
    assert answer.error == "use_dpop_nonce"


async def test_nonces_are_rotated():
    """A new one comes with a good response when half of the time is over; when all of it is, the old one is refused."""
    sender = Sender()
    async with protected(dpop=DPoP(nonces=True, nonce_for=100, max_age=600)) as server:
        old = (await sent(server, sender)).headers["dpop-nonce"]
        proofs = _CHECKS[server.auth].proofs
        proofs._clock = lambda: time.time() + 51
        answer = await sent(server, sender, nonce=old)
        new = answer.headers["dpop-nonce"]
        assert (answer.status, new == old) == (200, False)
        proofs._clock = lambda: time.time() + 101
        refused = await sent(server, sender, nonce=old, iat=int(time.time()) + 101)
        assert refused.error == "use_dpop_nonce"
        assert (await sent(server, sender, nonce=new, iat=int(time.time()) + 101)).status == 200


async def test_processes_that_share_keys_take_each_other_s_nonces():
    """And those of the key before."""
    key, newer = secrets.token_bytes(32), secrets.token_bytes(32)
    sender = Sender()
    nonce = Proofs(DPoP(nonces=True, nonce_keys=[key])).nonce()
    async with protected(dpop=DPoP(nonces=True, nonce_keys=[newer, key])) as server:
        assert (await sent(server, sender, nonce=nonce)).status == 200
    async with protected(dpop=DPoP(nonces=True)) as server:
        assert (await sent(server, sender, nonce=nonce)).error == "use_dpop_nonce"


# --- the memory -------------------------------------------------------------------------------------------------------


def used(proofs, id, key="k", at=None):
    """Note a proof."""
    now = proofs._clock()
    proofs._use(id, key, now if at is None else at, now)


def test_what_is_remembered_is_forgotten_when_it_is_too_old_anyway():
    """The memory holds no more than comes in about two minutes."""
    now = [1000.0]
    proofs = Proofs(DPoP(max_age=60), lambda: now[0])
    for _ in range(5):
        for number in range(100):
            used(proofs, f"{now[0]} {number}")
        now[0] += 60
    assert len(proofs._used) <= 300
    now[0] += 1000
    used(proofs, "last")
    assert (len(proofs._used), len(proofs._order), sum(proofs._count.values())) == (1, 1, 1)


def test_one_client_does_not_fill_the_memory(monkeypatch):
    """Its own proofs are refused then, not those of others, and none is taken unchecked."""
    monkeypatch.setattr(module, "MAX_USED_BY_ONE", 5)
    monkeypatch.setattr(module, "MAX_USED", 8)
    proofs = Proofs(DPoP())
    for number in range(5):
        used(proofs, str(number))
    with pytest.raises(TooMany):
        used(proofs, "one more")
    for number in range(3):
        used(proofs, str(number), "other")
    with pytest.raises(TooMany):
        used(proofs, "new", "third")


async def test_more_proofs_than_can_be_remembered_are_told_to_come_again(monkeypatch):
    """503: nothing is wrong with them."""
    monkeypatch.setattr(module, "MAX_USED", 0)
    async with protected() as server:
        assert (await sent(server, Sender())).status == 503
