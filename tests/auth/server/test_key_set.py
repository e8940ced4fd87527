"""The keys of an issuer: rotated, missing, too many, and an issuer that is down; each as a server's clients meet it."""

from __future__ import annotations

import asyncio
import json
import time
from codecs import BOM_UTF8

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from antiphon.auth.server import key_set as module
from antiphon.auth.server.issuer import Issuer as Trusted
from antiphon.auth.server.issuer import IssuerUnavailable
from antiphon.auth.server.key_set import (
    FAILURE_PAUSE,
    KEPT_FOR,
    KEYS_FOR,
    MAX_KEYS,
    UNKNOWN_PAUSE,
    KeySet,
    PublicKey,
    read_keys,
)
from antiphon.auth.server.resource_server import _CHECKS
from antiphon.errors import ConfigError
from tests.auth.server.protected import protected
from tests.support.issuer import EC, OTHER_RSA, RSA, Issuer
from tests.support.network import until

NEW = RSAKey(OTHER_RSA.raw_value, OTHER_RSA.raw_value, {"kid": "new", "use": "sig"})


def jwks(*keys):
    """Write a list of keys."""
    return json.dumps({"keys": [key if isinstance(key, dict) else key.as_dict(private=False) for key in keys]}).encode()


class Clock:
    """A clock that stands still unless it is put on."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def keys_of(server):
    """Return the keys of a server's only issuer, and a clock that they go by from now on."""
    keys = _CHECKS[server.auth].verifier._keys[server.issuer.url]
    keys._clock = Clock()
    return keys, keys._clock


async def settled(keys):
    """Wait until nothing is being fetched."""
    await until(lambda: keys._task is None or keys._task.done())


# --- over the wire ----------------------------------------------------------------------------------------------------


async def test_keys_are_fetched_once_for_many_requests():
    """Also for those that come at the same time."""
    async with protected() as server:
        tokens = [server.issuer.token() for _ in range(10)]
        assert {answer.status for answer in await asyncio.gather(*(server.tool(token=t) for t in tokens))} == {200}
        assert server.issuer.paths.count("/jwks") == 1


async def test_a_new_key_is_found_when_it_is_first_used():
    """Without a restart: the issuer has rotated a moment ago."""
    async with protected() as server:
        _, clock = keys_of(server)
        assert (await server.tool(token=server.issuer.token())).status == 200
        server.issuer.keys = [NEW]
        clock.now += UNKNOWN_PAUSE
        assert (await server.tool(token=server.issuer.token(key=NEW))).status == 200


async def test_a_key_that_was_taken_back_ends_what_was_signed_with_it():
    """Also tokens that are remembered."""
    async with protected() as server:
        _, clock = keys_of(server)
        old, other = server.issuer.token(key=RSA), server.issuer.token(key=EC)
        assert [(await server.tool(token=each)).status for each in (old, other)] == [200, 200]
        server.issuer.keys = [EC, NEW]
        clock.now += UNKNOWN_PAUSE
        assert (await server.tool(token=server.issuer.token(key=NEW))).status == 200
        assert [(await server.tool(token=each)).status for each in (old, other)] == [401, 200]


async def test_unknown_keys_are_asked_for_once_a_minute():
    """However many a stranger makes up."""
    async with protected() as server:
        _, clock = keys_of(server)
        await server.tool(token=server.issuer.token())
        for minute in range(3):
            clock.now += UNKNOWN_PAUSE
            for number in range(10):
                token = server.issuer.token(header={"kid": f"made up {minute} {number}"})
                assert (await server.tool(token=token)).status == 401
        assert server.issuer.paths.count("/jwks") == 4


async def test_an_issuer_that_is_down_from_the_start_is_no_fault_of_the_token(caplog):
    """503 with a time to come again, not 401, for which clients throw tokens away; the log says it once; it ends."""
    async with protected() as server:
        keys, clock = keys_of(server)
        server.issuer.down = True
        token = server.issuer.token()
        answers = [await server.tool(token=token) for _ in range(5)]
        assert {answer.status for answer in answers} == {503}
        assert caplog.text.count("cannot be checked now") == 1
        assert answers[0].headers["retry-after"] == "5"
        assert len(server.issuer.asked) == 2
        server.issuer.down = False
        clock.now += FAILURE_PAUSE
        assert (await server.tool(token=token)).status == 200
        await settled(keys)


async def test_while_the_issuer_is_down_its_keys_are_kept():
    """For a day, and not for ever."""
    async with protected() as server:
        keys, clock = keys_of(server)
        await server.tool(token=server.issuer.token())
        server.issuer.down = True
        clock.now += KEYS_FOR + 1
        assert (await server.tool(token=server.issuer.token())).status == 200
        await settled(keys)
        clock.now += KEPT_FOR - KEYS_FOR - 100
        assert (await server.tool(token=server.issuer.token())).status == 200
        await settled(keys)
        clock.now += 200
        assert (await server.tool(token=server.issuer.token())).status == 503


async def test_keys_are_renewed_in_the_background():
    """No request waits for it."""
    async with protected() as server:
        keys, clock = keys_of(server)
        await server.tool(token=server.issuer.token())
        clock.now += KEYS_FOR + 1
        assert (await server.tool(token=server.issuer.token())).status == 200
        await settled(keys)
        assert server.issuer.paths.count("/jwks") == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"no json"),
        (200, b"[]"),
        (200, b'{"keys": 7}'),
        (200, b'{"keys": [7]}'),
        (200, b"{}"),
        (200, jwks()),
        (200, jwks(*[EC] * (MAX_KEYS + 1))),
        (200, b" " * 300_000),
        (302, b""),
        (500, b"{}"),
    ],
    ids=["text", "list", "number", "numbers", "nothing", "none", "too many", "too long", "elsewhere", "broken"],
)
async def test_keys_that_cannot_be_used_are_no_keys(status, body):
    """Nobody is let in, nothing breaks, and nobody is asked elsewhere."""
    async with protected() as server:
        server.issuer.bodies["/jwks"] = (status, body)
        assert (await server.tool(token=server.issuer.token())).status == 503
        assert "/elsewhere" not in server.issuer.paths


async def test_a_byte_order_mark_before_metadata_and_keys_is_passed_over():
    """Some web servers put one in front of files (RFC 8259, section 8.1)."""
    async with protected() as server:
        said = {"issuer": server.issuer.url, "jwks_uri": f"{server.issuer.url}/jwks"}
        server.issuer.bodies["/.well-known/oauth-authorization-server"] = 200, BOM_UTF8 + json.dumps(said).encode()
        server.issuer.bodies["/jwks"] = 200, BOM_UTF8 + jwks(*server.issuer.keys)
        assert (await server.tool(token=server.issuer.token())).status == 200


@pytest.mark.parametrize(
    "form",
    [
        "/.well-known/oauth-authorization-server{path}",
        "/.well-known/openid-configuration{path}",
        "{path}/.well-known/openid-configuration",
    ],
)
@pytest.mark.parametrize("path", ["", "/tenant/one"])
async def test_metadata_is_found_in_every_form(form, path):
    """Of OAuth and of OpenID Connect, with a path and without."""
    async with Issuer(path).open() as issuer, protected(issuer) as server:
        issuer.forms = (form,)
        assert (await server.tool(token=issuer.token())).status == 200


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"jwks_uri": "http://keys.example.com/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": 7},
    ],
)
async def test_metadata_of_another_issuer_or_without_safe_keys_is_not_used(metadata):
    """An issuer must be who it says, letter by letter, and its keys must come over TLS."""
    async with protected() as server:
        server.issuer.metadata = metadata
        assert (await server.tool(token=server.issuer.token())).status == 503
        assert "/jwks" not in server.issuer.paths


async def test_keys_may_be_given_or_elsewhere():
    """As they are, or at an address: the metadata is then not asked for."""
    async with Issuer().open() as issuer:
        given = {"keys": [RSA.as_dict(private=False)]}
        async with protected(issuer, issuers=Trusted(url=issuer.url, jwks=given)) as server:
            assert (await server.tool(token=issuer.token())).status == 200
            assert (await server.tool(token=issuer.token(key=EC))).status == 401
        assert issuer.asked == []
        async with protected(issuer, issuers=Trusted(url=issuer.url, jwks_uri=f"{issuer.url}/jwks")) as server:
            assert (await server.tool(token=issuer.token())).status == 200
        assert issuer.paths == ["/jwks"]


# --- by itself --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        OctKey.generate_key(256).as_dict(private=True),
        EC.as_dict(private=True),
        {**EC.as_dict(private=False), "use": "enc"},
        {**EC.as_dict(private=False), "alg": "RS256"},
        {**EC.as_dict(private=False), "x": "AAAA"},
        {**EC.as_dict(private=False), "crv": "P-1"},
        {**EC.as_dict(private=False), "crv": ["P-256"]},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA"},
        {},
        ECKey.generate_key("secp256k1").as_dict(private=False),
    ],
    ids=[
        "secret",
        "private",
        "encrypts",
        "other algorithm",
        "no point",
        "no curve",
        "list of curves",
        "short",
        "empty",
        "nothing",
        "odd",
    ],
)
def test_a_key_that_no_token_may_be_signed_with_is_passed_over(words):
    """A shared secret above all: everybody can read this list."""
    assert PublicKey.read(words) is None
    assert read_keys(jwks(words, EC))[0].id == "ec"


def test_a_weak_key_is_passed_over():
    """1024 bits can be broken."""
    from joserfc.util import int_to_base64

    weak = {"kty": "RSA", "e": "AQAB", "n": int_to_base64((1 << 1023) + 1)}
    assert PublicKey.read(weak) is None


def test_given_keys_must_be_keys():
    """Said when the server is set up."""
    with pytest.raises(ConfigError, match="no key"):
        KeySet(Trusted(url="https://auth.example.com", jwks={"keys": []}))


async def test_whoever_gives_up_does_not_end_the_fetch_of_others():
    """It is one for all who wait."""
    go = asyncio.Event()

    async def fetch(_url):
        await go.wait()
        return jwks(EC)

    keys = KeySet(Trusted(url="https://auth.example.com", jwks_uri="https://auth.example.com/jwks"), fetch, time.time)
    first = asyncio.ensure_future(keys.find("ec", "ES256"))
    second = asyncio.ensure_future(keys.find("ec", "ES256"))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    found = await second
    assert found is not None and found.id == "ec"


async def test_closing_ends_a_fetch():
    """Nothing is left behind, and whoever waits is told that there are no keys."""
    keys = KeySet(
        Trusted(url="https://auth.example.com", jwks_uri="https://auth.example.com/jwks"),
        lambda _url: asyncio.Event().wait(),
    )
    waiting = asyncio.ensure_future(keys.find("ec", "ES256"))
    await asyncio.sleep(0)
    await keys.close()
    with pytest.raises(IssuerUnavailable):
        await waiting


async def test_keys_that_do_not_come_are_given_up(monkeypatch):
    """Requests wait for them."""
    monkeypatch.setattr(module, "RENEW_TIMEOUT", 0.01)
    keys = KeySet(
        Trusted(url="https://auth.example.com", jwks_uri="https://auth.example.com/jwks"),
        lambda _url: asyncio.Event().wait(),
    )
    with pytest.raises(IssuerUnavailable, match="TimeoutError"):
        await keys.find("ec", "ES256")


def test_a_key_whose_exponent_is_as_long_as_itself_is_passed_over():
    """Verifying with it takes 300 times as long: ten milliseconds for each proof of possession."""
    from joserfc.util import int_to_base64

    modulus = (1 << 2047) + 1
    usual = {"kty": "RSA", "n": int_to_base64(modulus), "e": int_to_base64(65537)}
    assert PublicKey.read(usual) is not None
    assert PublicKey.read({**usual, "e": int_to_base64(modulus - 2)}) is None
