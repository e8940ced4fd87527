"""Which tokens let somebody in: a battery of those that must not, each sent over HTTP to a server that listens."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from contextlib import asynccontextmanager

import pytest
from joserfc.jwk import RSAKey

from antiphon.auth.server import verifier as module
from antiphon.auth.server.issuer import Introspection, IssuerUnavailable
from antiphon.auth.server.issuer import Issuer as Trusted
from antiphon.auth.server.resource_server import _CHECKS
from antiphon.auth.server.verifier import MAX_QUESTIONS, Remembered, Verified
from antiphon.errors import ConfigError
from antiphon.protocol.caller import Caller
from tests.auth.server.protected import protected
from tests.support.issuer import AUDIENCE, EC, ED, OTHER_RSA, RSA, Issuer, b64, signed

SECOND_RSA = RSAKey(OTHER_RSA.raw_value, OTHER_RSA.raw_value, {"kid": "second", "use": "sig"})
NOW = int(time.time())
LATE = NOW + 10_000_000
"""Far from now, however long the tests before these take."""

WORD = "opaque-token-1"


async def refused(made, **options):
    """Send the token that ``made`` makes of an issuer, and a good one; return the answer to the first."""
    async with protected(**options) as server:
        answer = await server.tool(token=made(server.issuer))
        assert (await server.tool(token=server.issuer.token())).status == 200
    return answer


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["rsa", "ec", "ed25519"])
async def test_a_good_token_is_taken(key):
    """Whatever key of its issuer it is signed with; it says who asks, what they may, and what else."""
    async with protected() as server:
        answer = await server.tool(token=server.issuer.token(key=key, scope="a b"))
        assert answer.status == 200
        assert json.loads(answer.text) == [f"{server.issuer.url} sub:ann", ["a", "b"], "cli"]


def unsigned(issuer, algorithm):
    """Make a token that claims to need no signature."""
    _, claims, _ = issuer.token().split(".")
    return f"{b64(json.dumps({'alg': algorithm, 'typ': 'at+jwt', 'kid': 'rsa'}).encode())}.{claims}.x"


def confused(issuer):
    """Sign with the public key, which everybody can read, as if it were a shared secret."""
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": LATE}
    header = {"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}
    text = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{text}.{b64(hmac.digest(RSA.as_pem(private=False), text.encode(), 'sha256'))}"


def forged(issuer):
    """Change who a token is for."""
    header, _, signature = issuer.token().split(".")
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "root", "exp": LATE}
    return f"{header}.{b64(json.dumps(claims).encode())}.{signature}"


def nested(issuer):
    """Nest lists."""
    claims = json.dumps({"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": LATE, "more": 0})
    deep = claims.replace('"more": 0', '"more": ' + "[" * 5_000 + "]" * 5_000)
    return signed({"alg": "RS256", "typ": "at+jwt", "kid": "rsa"}, deep.encode(), RSA)


BAD = {
    "expired": lambda i: i.token(exp=NOW - 120),
    "expired, and its end is a text": lambda i: i.token(exp=str(LATE)),
    "without an end": lambda i: i.token(without=["exp"]),
    "an end that is no time": lambda i: i.token(exp=1e300),
    "not valid yet": lambda i: i.token(nbf=LATE),
    "from the future": lambda i: i.token(iat=LATE),
    "for another audience": lambda i: i.token(aud="https://mcp.example.com/other"),
    "for an audience that begins like ours": lambda i: i.token(aud=AUDIENCE + "/more"),
    "for an audience that ours begins with": lambda i: i.token(aud="https://mcp.example.com"),
    "for our audience in other letters": lambda i: i.token(aud=AUDIENCE.upper()),
    "for our audience with a slash": lambda i: i.token(aud=AUDIENCE + "/"),
    "for several others": lambda i: i.token(aud=["https://a.example", "https://b.example"]),
    "for nobody": lambda i: i.token(without=["aud"]),
    "for an empty audience": lambda i: i.token(aud=""),
    "for no list of texts": lambda i: i.token(aud=[1, AUDIENCE]),
    "from another issuer": lambda i: i.token(iss="https://evil.example"),
    "from our issuer with a slash": lambda i: i.token(iss=i.url + "/"),
    "from no issuer": lambda i: i.token(without=["iss"]),
    "for no person and no client": lambda i: i.token(without=["sub", "client_id"]),
    "for a person with an endless name": lambda i: i.token(sub="x" * 2000),
    "not signed": lambda i: unsigned(i, "none"),
    "not signed, in other letters": lambda i: unsigned(i, "nOnE"),
    "signed with the public key as a secret": confused,
    "signed with another algorithm's name": lambda i: i.token(key=RSA, header={"alg": "ES256"}),
    "signed with a stranger's key of that name": lambda i: i.token(key=OTHER_RSA),
    "signed with a key that it brings along": lambda i: i.token(
        key=OTHER_RSA, header={"jwk": OTHER_RSA.as_dict(private=False)}
    ),
    "signed with a key at an address": lambda i: i.token(key=OTHER_RSA, header={"jku": f"{i.url}/evil"}),
    "changed after it was signed": forged,
    "with a signature cut off": lambda i: i.token().rpartition(".")[0] + ".",
    "with another one's signature": lambda i: i.token().rpartition(".")[0] + "." + i.token().rpartition(".")[2],
    "of an unknown key": lambda i: i.token(header={"kid": "unknown"}),
    "of a key that is a path": lambda i: i.token(header={"kid": "../../../../etc/passwd"}),
    "of a key that is an address": lambda i: i.token(header={"kid": f"{i.url}/evil"}),
    "of a key that is a list": lambda i: i.token(header={"kid": ["rsa"]}),
    "of a key with a query": lambda i: i.token(header={"kid": "rsa' OR '1'='1"}),
    "of another type": lambda i: i.token(header={"typ": "logout+jwt"}),
    "that is a proof": lambda i: i.token(header={"typ": "dpop+jwt"}),
    "without a type": lambda i: i.token(header={"typ": None}),
    "with an extension that it demands": lambda i: i.token(header={"crit": ["exp"]}),
    "with unencoded claims": lambda i: i.token(header={"b64": False, "crit": ["b64"]}),
    "bound to a certificate": lambda i: i.token(cnf={"x5t#S256": "abc"}),
    "bound to a key, and sent without a proof": lambda i: i.token(cnf={"jkt": "abc"}),
    "that is encrypted": lambda _i: "eyJhbGciOiJSU0EtT0FFUCJ9.a.b.c.d",
    "with two parts": lambda i: ".".join(i.token().split(".")[:2]),
    "with four parts": lambda i: i.token() + ".x",
    "that is no token": lambda _i: "let-me-in",
    "with a header that is no JSON": lambda i: b64(b"eyeyey") + "." + ".".join(i.token().split(".")[1:]),
    "with claims that are a list": lambda i: signed({"alg": "RS256", "typ": "at+jwt", "kid": "rsa"}, [1], RSA),
    "with claims nested without end": nested,
    "with padding": lambda i: i.token() + "=",
    "that is huge": lambda i: i.token(more="x" * 17_000),
    "with a huge header": lambda i: i.token(header={"x5c": ["x" * 5_000]}),
}


@pytest.mark.parametrize("made", BAD.values(), ids=BAD.keys())
async def test_a_bad_token_lets_nobody_in(made):
    """401, with the word for it, and the server goes on taking good ones."""
    answer = await refused(made)
    assert (answer.status, answer.error) == (401, "invalid_token")


async def test_of_a_token_nothing_is_shown(caplog):
    """Neither in the log nor in the answer, whatever is wrong with it."""
    caplog.set_level("DEBUG")
    tokens = []
    async with protected() as server:
        for made in BAD.values():
            tokens.append(made(server.issuer))
            answer = await server.tool(token=tokens[-1])
            assert tokens[-1] not in str(answer.headers) + answer.body.decode()
        tokens.append(server.issuer.token())
        await server.tool(token=tokens[-1])
        assert "ann" not in repr(server.auth)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("antiphon")]
    assert any("refused" in line for line in ours)
    parts = {part for token in tokens for part in token.split(".") if len(part) > 16}
    assert [line for line in ours if any(part in line for part in parts)] == []


async def test_the_only_key_needs_no_name():
    """A token may leave out which key it was signed with, where only one can be."""
    async with protected() as server:
        server.issuer.keys = [RSA]
        assert (await server.tool(token=server.issuer.token(header={"kid": None}))).status == 200
    async with protected() as server:
        server.issuer.keys = [RSA, SECOND_RSA]
        assert (await server.tool(token=server.issuer.token(header={"kid": None}))).error == "invalid_token"


async def test_the_clocks_may_differ_a_little():
    """By as much as the operator says, both ways."""
    async with protected(leeway=300) as server:
        late, early = server.issuer.token(exp=int(time.time()) - 50), server.issuer.token(nbf=int(time.time()) + 200)
        assert [(await server.tool(token=each)).status for each in (late, early)] == [200, 200]
        assert (await server.tool(token=server.issuer.token(exp=int(time.time()) - 400))).status == 401


async def test_a_token_that_was_remembered_ends_as_well():
    """At its time, however often it was taken before."""
    async with protected(leeway=0) as server:
        token = server.issuer.token(exp=int(time.time()) + 600)
        assert (await server.tool(token=token)).status == 200
        _CHECKS[server.auth].verifier.clock = lambda: time.time() + 601
        assert (await server.tool(token=token)).status == 401


async def test_an_algorithm_can_be_left_out():
    """What the operator does not name is not taken, though a key is there for it."""
    async with (
        Issuer().open() as issuer,
        protected(issuer, issuers=Trusted(url=issuer.url, algorithms=["ES256"])) as server,
    ):
        assert (await server.tool(token=issuer.token(key=EC))).status == 200
        assert (await server.tool(token=issuer.token(key=RSA))).error == "invalid_token"


async def test_tokens_of_entra_s_first_version_are_taken():
    """They name an issuer of another name than the one their clients are sent to, and write scopes elsewhere."""
    async with Issuer("/tenant/v2.0").open() as issuer:
        trusted = Trusted(url=issuer.url, token_issuers=["https://sts.windows.net/tenant/"])
        async with protected(issuer, issuers=trusted, audience=["api://shop"], url=AUDIENCE) as server:
            token = issuer.token(
                iss="https://sts.windows.net/tenant/", aud="api://shop", scp="read write", header={"typ": "JWT"}
            )
            answer = await server.tool(token=token)
            assert json.loads(answer.text)[:2] == ["https://sts.windows.net/tenant/ sub:ann", ["read", "write"]]
            assert (await server.tool(token=issuer.token(aud="api://shop"))).status == 401


async def test_a_client_called_like_a_person_is_not_that_person():
    """Tokens without a person are their client's, in a namespace of their own."""
    async with protected() as server:
        session = await server.session(server.issuer.token(sub="ann"))
        client = server.issuer.token(without=["sub"], client_id="ann")
        assert (await server.legacy(session, client)).status == 404
        assert json.loads((await server.tool(token=client)).text)[0] == f"{server.issuer.url} client:ann"


async def test_one_person_of_two_issuers_is_two():
    """A subject means something only with its issuer."""
    async with (
        Issuer().open() as first,
        Issuer().open() as second,
        protected(first, issuers=[first.url, second.url]) as server,
    ):
        session = await server.session(first.token(sub="ann"))
        assert (await server.legacy(session, first.token(sub="ann"))).status == 200
        assert (await server.legacy(session, second.token(sub="ann"))).status == 404


@pytest.mark.parametrize("said", [None, False, 0, "", True, 1, b"ann", {"sub": "ann"}, ["ann"]])
async def test_a_function_of_one_s_own_must_name_somebody(said, caplog):
    """Whatever it returns that is no principal lets nobody in."""
    async with protected(check=lambda _token: said) as server:
        answer = await server.tool(token="t")
    assert (answer.status, answer.error) == (401, "invalid_token")
    assert "which is no principal" in caplog.text


@pytest.mark.parametrize(
    ("raised", "status"),
    [(ValueError("t"), 401), (PermissionError("t"), 401), (ConnectionError("t"), 503), (TimeoutError(), 503)],
)
async def test_a_function_of_one_s_own_may_raise(raised, status, caplog):
    """Who is refused is refused; where nobody can tell, the token may be good."""
    caplog.set_level("DEBUG")

    async def check(_token):
        raise raised

    async with protected(check=check) as server:
        assert (await server.tool(token="secret-token")).status == status
    assert "secret-token" not in caplog.text


async def test_a_function_of_one_s_own_says_what_a_token_allows():
    """A principal alone, or a caller with scopes and claims."""
    from antiphon.protocol.caller import Caller

    known = {"a": "ann", "b": Caller("bob", frozenset({"orders:read"}), {"client_id": "x"})}
    async with protected(check=known.__getitem__) as server:
        assert json.loads((await server.tool(token="a")).text) == ["ann", [], None]
        assert json.loads((await server.tool(token="b")).text) == ["bob", ["orders:read"], "x"]
        assert (await server.tool("orders", token="a")).status == 403
        assert (await server.tool("orders", token="b")).status == 200
        assert (await server.tool(token="c")).status == 401


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


async def test_what_an_answer_says_with_null_it_does_not_say():
    """An issuer may leave these members out (RFC 7662, section 2.2), and serializers of Java and C# write null then."""
    async with asking(dict.fromkeys(("exp", "iss", "nbf", "iat", "cnf", "client_id"))) as server:
        assert (await server.tool(token=WORD)).status == 200


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
        _CHECKS[server.auth].verifier.clock = lambda: time.time() + 61
        assert (await server.tool(token=WORD)).status == 401


async def test_an_answer_is_not_remembered_past_the_token_s_end():
    """Whatever the operator has set."""
    async with asking({"exp": 1020}, leeway=0) as server:
        _CHECKS[server.auth].verifier.clock = lambda: 1000.0
        assert (await server.tool(token=WORD)).status == 200
        _CHECKS[server.auth].verifier.clock = lambda: 1021.0
        assert (await server.tool(token=WORD)).status == 401


async def test_nothing_is_remembered_where_the_operator_wants_it_so():
    """Each request asks."""
    async with asking(remembered_for=0) as server:
        for _ in range(3):
            assert (await server.tool(token=WORD)).status == 200
        assert server.issuer.paths.count("/introspect") == 3


async def test_an_answer_without_an_end_is_valid_once_where_nothing_is_remembered():
    """RFC 7662, section 2.2: exp is optional, also where no clock may differ."""
    async with asking({"exp": None}, remembered_for=0, leeway=0) as server:
        assert (await server.tool(token=WORD)).status == 200


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


async def test_closing_ends_a_question():
    """Whoever waits for its answer is told so, and not cancelled."""
    how = Introspection(client_id="shop", client_secret="s3cret", url="https://auth.example.com/introspect")
    trusted = Trusted(url="https://auth.example.com", introspection=how)
    verifier = module.Verifier([trusted], frozenset({AUDIENCE}), leeway=0, clock=time.time)
    asked = asyncio.Event()

    async def fetch(*_):
        asked.set()
        await asyncio.Event().wait()

    verifier._introspector._fetch = fetch
    waiting = asyncio.ensure_future(verifier.verify(WORD.encode()))
    await asked.wait()
    await verifier.close()
    with pytest.raises(IssuerUnavailable, match="closing"):
        await waiting


async def test_a_foreign_token_is_not_shown_to_the_issuer():
    """One that says it is somebody else's is refused here: it would be good elsewhere."""
    async with asking() as server:
        foreign = server.issuer.token(iss="https://other.example")
        assert (await server.tool(token=foreign)).status == 401
        assert "/introspect" not in server.issuer.paths


async def test_questions_are_bounded():
    """Whoever makes up tokens does not turn us against the issuer."""
    async with asking() as server:
        asked = _CHECKS[server.auth].verifier._introspector
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


def known(until=100.0, weight=1):
    """Make what is known of a token."""
    return Verified(Caller("ann"), until, None, weight)


def test_a_token_is_remembered_until_its_time():
    """Not a moment longer."""
    memory = Remembered()
    mark = memory.mark(b"token")
    memory.put(mark, known(until=100.0))
    assert memory.get(mark, 99.9) is not None
    assert memory.get(mark, 100.0) is None
    assert (len(memory), memory._held) == (0, 0)


def test_the_memory_is_bounded_in_number(monkeypatch):
    """The oldest is forgotten."""
    monkeypatch.setattr(module, "MAX_TOKENS", 3)
    memory = Remembered()
    marks = [memory.mark(b"%d" % number) for number in range(5)]
    for mark in marks:
        memory.put(mark, known())
    assert [memory.get(mark, 0) is not None for mark in marks] == [False, False, True, True, True]


def test_the_memory_is_bounded_in_size(monkeypatch):
    """Large tokens count for what they are."""
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    memory = Remembered()
    marks = [memory.mark(b"%d" % number) for number in range(5)]
    for mark in marks:
        memory.put(mark, known(weight=40))
        memory.put(mark, known(weight=40))
    assert (len(memory), memory._held) == (2, 80)


def test_no_token_is_in_it():
    """Only digests."""
    memory = Remembered()
    memory.put(memory.mark(b"a-secret-token"), known())
    assert all(b"secret" not in mark for mark in memory._tokens)
