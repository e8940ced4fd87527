"""Ways to obtain a token: what each sends, and what it makes of answers."""

from __future__ import annotations

import json

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from antiphon.auth.challenge import ProofKey
from antiphon.auth.client.authorization_code import Device
from antiphon.auth.client.fetch import Unreachable
from antiphon.auth.client.grants import ClientCredentials, EnterpriseManaged, JwtBearer, Wanted, WorkloadIdentity
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.metadata import Answer, ClientIdentity, ServerMetadata
from antiphon.errors import Unauthorized

ISSUER = "https://login.example"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class Wire:
    """What would be sent; answers are given beforehand, the last one again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []

    async def post(self, url, form, headers):
        self.sent.append((str(url), dict(form), dict(headers)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, said, *headers = answer
        return Answer(status=status, headers=headers[0] if headers else {}, body=json.dumps(said).encode())

    @property
    def forms(self):
        return [form for _, form, _ in self.sent]


TOKEN = (200, {"access_token": "t", "token_type": "bearer", "expires_in": 60, "scope": "a"})


def wanted(wire, *, key=None, **identity):
    """A token that is wanted."""
    server = ServerMetadata(
        issuer=ISSUER,
        token_endpoint=f"{ISSUER}/t",
        device_authorization_endpoint=f"{ISSUER}/d",
        token_endpoint_auth_methods_supported=identity.pop("methods", None),
    )
    me = ClientIdentity(client_id="me", **identity)
    return Wanted(endpoint=TokenEndpoint(wire, server, me, key), resource="https://a.example/mcp", scopes=("a", "b"))


async def test_client_credentials_name_resource_and_scopes():
    """Nobody takes part; the secret is in the header."""
    wire = Wire(TOKEN)
    answer = await ClientCredentials().obtain(wanted(wire, secret="s"))
    assert answer.access_token == "t"
    ((url, form, headers),) = wire.sent
    assert url == f"{ISSUER}/t"
    assert form == {"grant_type": "client_credentials", "scope": "a b", "resource": "https://a.example/mcp"}
    assert headers["Authorization"].startswith("Basic ")


async def test_a_private_key_signs_who_the_client_is_for_this_issuer_only():
    """RFC 7523: issuer and subject are the client, the audience is the authorization server, for two minutes."""
    key = ECKey.generate_key("P-256")
    wire = Wire(TOKEN)
    pem = key.as_pem(private=True).decode()
    await ClientCredentials().obtain(wanted(wire, private_key=pem, methods=["private_key_jwt"]))
    (form,) = wire.forms
    claims = jwt.decode(form["client_assertion"], key, algorithms=["ES256"]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", ISSUER)
    assert 0 < claims["exp"] - claims["iat"] <= 120
    assert "client_id" not in form


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "HS256", "none", "XX"])
async def test_a_key_that_cannot_sign_is_refused_without_being_shown(algorithm):
    """Nothing is sent, and the message does not quote it."""
    wire = Wire(TOKEN)
    with pytest.raises(Unauthorized) as caught:
        await ClientCredentials().obtain(wanted(wire, private_key="s3cret", algorithm=algorithm))
    assert "s3cret" not in str(caught.value)
    assert wire.sent == []


async def test_a_jwt_of_somebody_else_is_sent_once():
    """What was refused is refused: no other grant, no repetition."""
    asked = []

    async def platform(issuer):
        asked.append(issuer)
        return "jwt"

    wire = Wire((400, {"error": "invalid_grant"}))
    with pytest.raises(Unauthorized, match="invalid_grant"):
        await JwtBearer(platform).obtain(wanted(wire))
    (form,) = wire.forms
    assert form["assertion"] == "jwt"
    assert form["client_id"] == "me"
    assert asked == [ISSUER]


async def test_a_workload_reads_its_identity_each_time(tmp_path):
    """The platform replaces the file before what is in it expires."""
    path = tmp_path / "token"
    wire = Wire(TOKEN)
    grant = WorkloadIdentity(path)
    for text in ("one", "two"):
        path.write_text(f"{text}\n")
        await grant.obtain(wanted(wire))
    assert [form["assertion"] for form in wire.forms] == ["one", "two"]


async def test_a_workload_without_its_file_says_which(tmp_path):
    """Not a traceback."""
    with pytest.raises(Unauthorized, match="gone cannot be read"):
        await WorkloadIdentity(tmp_path / "gone").obtain(wanted(Wire(TOKEN)))


def enterprise():
    """A person who is signed in at their company."""

    async def signed_in():
        return "id-token"

    return EnterpriseManaged(token_endpoint="https://idp.example/t", identity_token=signed_in, client_id="at-idp")


async def test_the_company_vouches_for_a_person_to_one_authorization_server():
    """RFC 8693, then RFC 7523; who we are at the one is not who we are at the other."""
    statement = (200, {"access_token": "jag", "token_type": "N_A", "issued_token_type": ID_JAG})
    wire = Wire(statement, TOKEN)
    await enterprise().obtain(wanted(wire, secret="s"))
    (first, exchange, _), (second, grant, headers) = wire.sent
    assert (first, second) == ("https://idp.example/t", f"{ISSUER}/t")
    assert (exchange["audience"], exchange["resource"]) == (ISSUER, "https://a.example/mcp")
    assert (exchange["requested_token_type"], exchange["subject_token"]) == (ID_JAG, "id-token")
    assert exchange["client_id"] == "at-idp"
    assert grant["assertion"] == "jag"
    assert headers["Authorization"].startswith("Basic ")


async def test_a_statement_of_another_kind_is_not_passed_on():
    """An access token of the company's is for nobody else."""
    wire = Wire((200, {"access_token": "x", "token_type": "Bearer", "issued_token_type": "access_token"}))
    with pytest.raises(Unauthorized, match="another kind"):
        await enterprise().obtain(wanted(wire))
    assert len(wire.sent) == 1


# --- another device --------------------------------------------------------------------------------------------------

CODE = (
    200,
    {"device_code": "dev", "user_code": "AB-CD", "verification_uri": "https://login.example/go", "interval": 2},
)
PENDING, SLOW = (400, {"error": "authorization_pending"}), (400, {"error": "slow_down"})


def device(pauses, told):
    """A person who is told what to do, and a clock that does not wait."""

    async def tell(page):
        told.append(page)

    async def sleep(seconds):
        pauses.append(seconds)

    grant = Device(tell)
    grant._sleep = sleep
    return grant


async def test_a_person_signs_in_on_another_device():
    """The server is asked as often as it wants, and no more."""
    pauses, told = [], []
    wire = Wire(CODE, PENDING, SLOW, PENDING, TOKEN)
    await device(pauses, told).obtain(wanted(wire))
    assert pauses == [2, 2, 7, 7]
    assert (told[0].address, told[0].code) == ("https://login.example/go", "AB-CD")
    assert wire.forms[-1]["device_code"] == "dev"
    assert wire.forms[0]["scope"] == "a b"


async def test_a_server_that_cannot_be_reached_for_a_while_is_asked_less_often():
    """RFC 8628, section 3.5: a person who has signed in meanwhile need not begin again."""
    pauses, lost = [], Unreachable("the network is gone")
    answer = await device(pauses, []).obtain(wanted(Wire(CODE, PENDING, lost, lost, PENDING, TOKEN)))
    assert (answer.access_token, pauses) == ("t", [2, 2, 4, 8, 8])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_has_trouble_for_a_while_is_asked_less_often(status):
    """As one that cannot be reached: what a server in trouble says is not about this person."""
    pauses, trouble = [], (status, {"error": "invalid_request"})
    answer = await device(pauses, []).obtain(wanted(Wire(CODE, PENDING, trouble, PENDING, TOKEN)))
    assert (answer.access_token, pauses) == ("t", [2, 2, 4, 4])


async def test_a_server_that_takes_its_time_for_each_answer_is_not_asked_for_ever():
    """The time of the answers counts as well as the pauses."""
    wire, grant = Wire(CODE, PENDING), device([], [])
    grant._clock = lambda: 25.0 * len(wire.sent)
    with pytest.raises(Unauthorized, match="nobody completed it within 1800 s"):
        await grant.obtain(wanted(wire))
    assert len(wire.sent) <= 1 + 1800 / 25


async def test_a_server_that_is_not_reached_again_is_the_reason():
    """Nobody can tell whether the person has signed in."""
    pauses = []
    with pytest.raises(Unreachable, match="the network is gone"):
        await device(pauses, []).obtain(wanted(Wire(CODE, Unreachable("the network is gone"))))
    assert pauses[:6] == [2, 4, 8, 16, 32, 60]


@pytest.mark.parametrize("status", [200, 400])
async def test_a_server_that_says_with_status_200_that_it_waits_is_asked_again(status):
    """GitHub's does; what the answer says counts."""
    pauses = []
    pending, slow = ((status, said) for _, said in (PENDING, SLOW))
    answer = await device(pauses, []).obtain(wanted(Wire(CODE, pending, slow, TOKEN)))
    assert (answer.access_token, pauses) == ("t", [2, 2, 7])


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("error", ["access_denied", "expired_token", "invalid_grant"])
async def test_a_person_who_declines_ends_it(error, status):
    """With the server's code."""
    with pytest.raises(Unauthorized, match=error):
        await device([], []).obtain(wanted(Wire(CODE, PENDING, (status, {"error": error}))))


async def test_a_token_that_was_created_is_a_token():
    """A framework whose POST answers 201 unless told otherwise is common; so is a member without a value."""
    created = ((201, {**said, "error": None}) for _, said in (CODE, TOKEN))
    assert (await device([], []).obtain(wanted(Wire(*created)))).access_token == "t"


@pytest.mark.parametrize("lasts", [10**9, 10**400])
async def test_nobody_is_waited_for_longer_than_half_an_hour(lasts: int):
    """Whatever the server allows, and however fast it wants to be asked."""
    pauses = []
    code = (200, {**CODE[1], "interval": 0.0001, "expires_in": lasts})
    with pytest.raises(Unauthorized, match="nobody completed it"):
        await device(pauses, []).obtain(wanted(Wire(code, PENDING)))
    assert sum(pauses) >= 1800
    assert min(pauses) >= 1


@pytest.mark.parametrize(
    "said",
    [
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "http://login.example/go"},
        {"verification_uri_complete": "file:///etc/passwd"},
        {"user_code": "AB\x1b[2J"},
        {"user_code": "x" * 100},
        {"device_code": None},
    ],
)
async def test_what_a_person_would_be_shown_is_checked(said):
    """A page that is none, a code that a terminal would obey."""
    told = []
    with pytest.raises(Unauthorized):
        await device([], told).obtain(wanted(Wire((200, {**CODE[1], **said}))))
    assert told == []


# --- the token endpoint ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"access_token": "t"},
        {"access_token": 5, "token_type": "Bearer"},
        {"access_token": "two words", "token_type": "Bearer"},
        {"access_token": "line\r\nX: y", "token_type": "Bearer"},
        {"access_token": "t" * 20_000, "token_type": "Bearer"},
        {"access_token": "t", "token_type": "mac"},
        ["access_token"],
    ],
)
async def test_what_is_no_token_is_not_kept(said):
    """It could not be sent, or would be more than a token."""
    with pytest.raises(Unauthorized):
        await ClientCredentials().obtain(wanted(Wire((200, said))))


@pytest.mark.parametrize("token", ["00Dxx0000001gPL!AR8AQJXg.39AsX", "1|q8Zc", "a:b;c", "e30="])
async def test_a_token_may_have_any_character_that_a_header_can_carry(token):
    """RFC 6749 allows them all, and vendors use them."""
    wire = Wire((200, {"access_token": token, "token_type": "Bearer"}))
    assert (await ClientCredentials().obtain(wanted(wire))).access_token == token


async def test_odd_times_and_scopes_are_read_as_far_as_they_go():
    """Some servers write numbers as text."""
    said = {"access_token": "t", "token_type": "BEARER", "expires_in": "60", "scope": ["x"], "refresh_token": 5}
    answer = await ClientCredentials().obtain(wanted(Wire((200, said))))
    assert (answer.expires_in, answer.scopes, answer.refresh_token) == (60, None, None)


@pytest.mark.parametrize("lasts", [9 * 10**11, 10**400])
async def test_a_token_that_lasts_for_longer_than_a_date_can_say_has_no_end(lasts: int):
    """It is used until it is refused, like one of which nothing is said."""
    answer = await ClientCredentials().obtain(wanted(Wire((200, {**TOKEN[1], "expires_in": lasts}))))
    assert answer.expires_in is None


async def test_a_proof_goes_with_the_request_and_again_with_the_nonce():
    """RFC 9449, section 8: once more, with what the server wants to find."""
    key = ProofKey()
    nonce = (400, {"error": "use_dpop_nonce"}, {"DPoP-Nonce": "n1"})
    wire = Wire(nonce, (200, {**TOKEN[1], "token_type": "DPoP"}))
    answer = await ClientCredentials().obtain(wanted(wire, key=key))
    assert answer.token_type == "DPoP"
    proofs = [jwt.decode(headers["DPoP"], ECKey.import_key(key.export_key()), algorithms=["ES256"]).claims
              for *_, headers in wire.sent]  # fmt: skip
    assert [proof.get("nonce") for proof in proofs] == [None, "n1"]
    assert {proof["htu"] for proof in proofs} == {f"{ISSUER}/t"}


async def test_a_server_that_always_wants_another_nonce_is_left():
    """Two requests, and that is all."""
    wire = Wire((400, {"error": "use_dpop_nonce"}, {"DPoP-Nonce": "n"}))
    with pytest.raises(Unauthorized, match="use_dpop_nonce"):
        await ClientCredentials().obtain(wanted(wire, key=ProofKey()))
    assert len(wire.sent) == 2


async def test_a_token_that_is_not_bound_to_our_key_is_refused_where_it_has_to_be():
    """Else whoever steals it could use it."""
    with pytest.raises(Unauthorized, match="not bound"):
        await ClientCredentials().obtain(wanted(Wire(TOKEN), key=ProofKey()))


async def test_a_server_that_cannot_be_reached_has_not_refused():
    """Nothing is known of the token."""
    with pytest.raises(Unreachable):
        await ClientCredentials().obtain(wanted(Wire(Unreachable("no network"))))
