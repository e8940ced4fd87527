"""Signing in on the page with an OpenID provider: who gets a session, for how long, and who gets none."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from antiphon.errors import ConfigError
from antiphon.host import MemoryStore
from antiphon.host.config.settings import Config, Reviewing, SignIn
from antiphon.host.config.toml_files import parse_document
from antiphon.web.page_guards import BEGUN_FOR, COOKIE, MAX_EACH
from antiphon.web.page_server import ReviewPage
from tests.support.issuer import EC, OTHER_RSA
from tests.web.signing import CLIENT, PEOPLE, ROLES, begin, is_let_in, team


def with_query(address: str, **changed: str | None) -> str:
    """Change parameters of an address."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()} | changed
    return f"{address.partition('?')[0]}?{urlencode({name: value for name, value in asked.items() if value})}"


async def test_somebody_signs_in_and_is_named():
    """The page opens where the browser wanted to go, and says who decides there, by issuer and subject."""
    async with team() as made:
        browser = await made.browser()
        entered = await browser.sign_in("ann", "/history?step=review")
        assert entered.status_code == 200
        assert "url=/history?step=review" in entered.text
        other = await (await made.browser()).sign_in("ann", "/history/audit.csv")
        assert "url=/history/audit.csv" in other.text
        shown = (await browser.client.get("/settings")).text
        assert "Ann" in shown
        assert f"{made.provider.url} · ann" in shown
        asked = parse_qs(urlsplit(await (await made.browser()).start()).query)
        assert (asked["response_type"], asked["code_challenge_method"]) == (["code"], ["S256"])
        assert asked["scope"] == ["openid profile email"]
        assert asked["redirect_uri"] == [f"{made.origin}/sign-in/callback"]
        assert len(asked["nonce"][0]) > 40


async def test_a_session_ends_after_its_hours():
    """A decision of an expired session is refused, and the page leads to the provider again."""
    async with team(hours=1) as made:
        ann = await made.browser("ann")
        question, _ = await made.asked()
        assert await is_let_in(ann)
        made.ahead = 3601
        late = await ann.post(f"/review/{question.id}/approve", {"hash": question.hash})
        assert (late.status_code, "signed out" in late.text) == (401, True)
        assert not await is_let_in(ann)
        assert (await made.queue.get(question.id)).state == "pending"


async def test_a_stream_ends_when_its_person_signs_out():
    """A tab that was left open hears nothing more."""
    async with team() as made:
        ann = await made.browser("ann")
        async with ann.client.stream("GET", "/live", headers={"Sec-Fetch-Dest": "empty"}) as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry")
            await ann.post("/sign-out")
            await made.asked()
            assert not [line async for line in lines if line.startswith("event: change")][1:]


@pytest.mark.parametrize(
    ("claims", "how"),
    [
        ({"aud": "another-client"}, {}),
        ({"aud": [CLIENT, "another"]}, {}),
        ({"aud": [CLIENT, "another"], "azp": "another"}, {}),
        ({"azp": "another"}, {}),
        ({"iss": "https://evil.example"}, {}),
        ({"exp": 1}, {}),
        ({"nonce": "another"}, {}),
        ({"nonce": None}, {}),
        ({"iat": 4_000_000_000}, {}),
        ({"sub": ""}, {}),
        ({}, {"key": OTHER_RSA}),
        ({}, {"header": {"alg": "none"}}),
        ({}, {"header": {"alg": "HS256"}}),
        ({}, {"header": {"typ": "at+jwt"}}),
        ({}, {"header": {"crit": ["exp"]}}),
        ({}, {"without": ("iat",)}),
        ({}, {"without": ("sub",)}),
    ],
)
async def test_an_id_token_that_is_not_for_this_sign_in_lets_nobody_in(claims: dict, how: dict):
    """Another audience, issuer, time, nonce, client, key, algorithm or type."""
    async with team() as made:
        made.provider.claims, made.provider.how = claims, how
        browser, address = await begin(made)
        refused = await browser.come_back(address)
        assert refused.status_code == 403
        assert COOKIE not in browser.client.cookies
        assert not await is_let_in(browser)


@pytest.mark.parametrize(("claims", "how"), [({"aud": [CLIENT, "x"], "azp": CLIENT}, {}), ({}, {"key": EC})])
async def test_an_id_token_that_is_for_this_sign_in_lets_its_person_in(claims: dict, how: dict):
    """Also one that names another audience beside this client, and one that is signed in another way."""
    async with team() as made:
        made.provider.claims, made.provider.how = claims, how
        browser, address = await begin(made)
        assert (await browser.come_back(address)).status_code == 200


async def test_a_redirect_that_was_begun_elsewhere_lets_nobody_in():
    """An attacker's code in a victim's browser (login CSRF), with a cookie of its own or without."""
    async with team() as made:
        _, attack = await begin(made, "bob")
        victim = await made.browser()
        assert (await victim.come_back(attack)).status_code == 403
        await victim.start()
        assert (await victim.come_back(attack)).status_code == 403
        assert not await is_let_in(victim)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": None},
        {"state": "x"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"code": None},
        {"code": "made-up"},
        {"error": "access_denied"},
    ],
)
async def test_an_altered_redirect_lets_nobody_in(changed: dict):
    """Without or with another state, another issuer (mix-up), another code, or an error."""
    async with team() as made:
        browser, address = await begin(made)
        assert (await browser.come_back(with_query(address, **changed))).status_code == 403
        assert not await is_let_in(browser)


async def test_a_redirect_counts_once():
    """Replayed, with the cookie that it belongs to, it leads to nothing; the provider is not even asked."""
    async with team() as made:
        browser, address = await begin(made)
        cookies = dict(browser.client.cookies)
        assert (await browser.come_back(address)).status_code == 200
        again = await made.browser()
        again.client.cookies.update(cookies)
        _, other = await begin(made, "bob")
        code = parse_qs(urlsplit(other).query)["code"][0]
        asked = len(made.provider.asked)
        refused = await again.come_back(with_query(address, code=code))
        assert (refused.status_code, "completed before" in refused.text) == (403, True)
        assert len(made.provider.asked) == asked


async def test_a_sign_in_has_ten_minutes():
    """Afterwards it has to be begun again."""
    async with team() as made:
        browser, address = await begin(made)
        made.ahead = BEGUN_FOR + 1
        refused = await browser.come_back(address)
        assert (refused.status_code, "too long" in refused.text) == (403, True)


@pytest.mark.parametrize(
    "then", ["https://evil.example", "//evil.example", "/\\evil", "/ x\r\nSet-Cookie: x", "evil", "", "/\t/evil"]
)
async def test_signing_in_leads_only_to_this_page(then: str):
    """Whatever address a link asks for."""
    async with team() as made:
        browser = await made.browser()
        begun = await browser.client.get(f"/sign-in?{urlencode({'then': then})}", follow_redirects=False)
        entered = await browser.come_back(made.provider.agree(begun.headers["location"], "ann"))
        assert 'url=/"' in entered.text


async def test_a_forged_cookie_begins_nothing():
    """State and verifier follow from a cookie that only the page can make."""
    async with team() as made:
        browser, address = await begin(made)
        for forged in ("", "x", "1.2.3.4", "9999999999.a.%2F.b", "é.é.é.é".encode().decode("latin-1")):
            browser.client.cookies.clear()
            refused = await browser.client.get(
                address, headers={"Cookie": f"antiphon-sign-in={forged}".encode()}, follow_redirects=False
            )
            assert refused.status_code == 403


async def test_ten_thousand_begun_sign_ins_keep_nobody_out():
    """None of them is kept, and the provider's metadata is asked for once."""
    async with team() as made:
        browser, address = await begin(made)
        sign_in = made.running.page.site.sign_in
        assert sign_in is not None
        for _ in range(10_000):
            await sign_in.begin("/")
        assert (await browser.come_back(address)).status_code == 200
        assert made.provider.paths.count("/.well-known/openid-configuration") == 2  # and once for its keys


async def test_a_provider_that_is_down_is_asked_once_and_comes_back():
    """People are told; nobody is let in; a moment later it works."""
    async with team() as made:
        made.provider.down = True
        browser = await made.browser()
        tried = [await browser.client.get("/sign-in", follow_redirects=False) for _ in range(5)]
        assert {each.status_code for each in tried} == {503}
        before = len(made.provider.asked)
        assert before <= 2
        # The clock is set back: the moment must not become an hour.
        made.ahead = -3600.0
        assert (await browser.client.get("/sign-in", follow_redirects=False)).status_code == 503
        assert len(made.provider.asked) > before
        made.provider.down, made.ahead = False, 6.0
        assert (await browser.sign_in("ann")).status_code == 200


async def test_metadata_of_another_issuer_or_without_pkce_is_refused():
    """As for every sign-in of ours."""
    for metadata in ({"issuer": "https://evil.example"}, {"code_challenge_methods_supported": ["plain"]}):
        async with team() as made:
            made.provider.metadata = metadata
            browser = await made.browser()
            assert (await browser.client.get("/sign-in", follow_redirects=False)).status_code == 503


async def test_a_provider_that_spells_its_name_otherwise_is_named_before_anybody_signs_in():
    """Its tokens have its own spelling, and would be refused when the person comes back."""
    async with team() as made:
        made.provider.metadata = {"issuer": f"{made.provider.url}/"}
        browser = await made.browser()
        answer = await browser.client.get("/sign-in", follow_redirects=False)
        assert answer.status_code == 503
        assert f"issuer has to be {made.provider.url}/" in answer.text


async def test_somebody_without_a_role_is_not_let_in():
    """Nor by an address that the provider has not verified: it may be anybody's."""
    async with team() as made:
        browser, address = await begin(made, "eve")
        refused = await browser.come_back(address)
        assert (refused.status_code, "has no role here" in refused.text) == (403, True)
        assert not await is_let_in(browser)


async def test_a_role_that_was_taken_away_ends_at_the_next_sign_in():
    """Claims are read at the sign-in, and the session has their roles until it ends."""
    async with team(hours=1) as made:
        dee = await made.browser("dee")
        made.provider.claims = {"groups": ["lookers"]}
        assert (await dee.post("/unblock", {"identity": "x"})).status_code == 404
        made.ahead = 3601
        again = await made.browser("dee")
        assert (await again.post("/unblock", {"identity": "x"})).status_code == 403


async def test_one_person_displaces_nobody_else():
    """Of many browsers of one person only the latest stay signed in."""
    async with team() as made:
        bob = await made.browser("bob")
        anns = [await made.browser("ann") for _ in range(MAX_EACH + 2)]
        assert [await is_let_in(each) for each in anns] == [False, False, *[True] * MAX_EACH]
        assert await is_let_in(bob)


async def test_claims_within_claims_give_roles():
    """As Keycloak lists them."""
    PEOPLE["kim"] = {"realm_access": {"roles": ["platform"]}}
    try:
        async with team(groups_claim="realm_access.roles") as made:
            kim = await made.browser("kim")
            assert "admin" in (await kim.client.get("/settings")).text
    finally:
        del PEOPLE["kim"]


async def test_a_foreign_name_of_the_page_shows_nothing():
    """Only the configured address counts, not that of the machine, where cookies are not safe."""
    async with team() as made:
        port = urlsplit(made.origin).port
        browser = await made.browser("ann")
        refused = await browser.client.get("/", headers={"Host": f"127.0.0.1:{port}"})
        assert refused.status_code == 403


async def test_an_encrypted_page_has_cookies_of_its_host_alone():
    """With a proxy in front; another port or a subdomain can neither read nor set them."""
    settings = SignIn(url="https://review.example.org", issuer="http://127.0.0.1:1", client_id=CLIENT, roles=ROLES)
    page = ReviewPage(MemoryStore(), name="x", named="x", config=Config(review=Reviewing(sign_in=settings)))
    assert page.access.cookie == f"__Host-{COOKIE}"
    assert page.access.is_encrypted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('url = "http://review.example.org"', "url is an https address"),
        ('url = "https://review.example.org/review"', "url is without a path"),
        ('issuer = "http://id.example.org"', "issuer is an https address"),
        ("[review.sign_in.roles]\nreviewer = ['finance']", '"group:NAME", "sub:SUBJECT" or an e-mail address'),
        ("[review.sign_in.roles]\nreviewer = []", "roles names somebody"),
        ("[review.sign_in.roles]\nboss = ['*']", "boss"),
        ("hours = 0", "hours"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(text: str, told: str):
    """With the name of the setting."""
    whole = {"url": '"https://r.example.org"', "issuer": '"https://id.example.org"', "client_id": '"x"'}
    lines = [f"{name} = {value}" for name, value in whole.items() if not text.startswith(f"{name} ")]
    roles = "" if "roles" in text else "[review.sign_in.roles]\nadmin = ['*']"
    with pytest.raises(ConfigError, match="review") as refused:
        parse_document("\n".join(["[review.sign_in]", *lines, text, roles]), "antiphon.toml")
    assert told in str(refused.value)


async def test_a_secret_that_is_not_set_is_named():
    """The page does not open without it."""
    with pytest.raises(ConfigError, match="NO_SUCH_SECRET"):
        async with team(client_secret="NO_SUCH_SECRET"):
            pass


async def test_many_come_back_at_once():
    """Beyond what the provider is asked about at the same time, people are told to try again; none is let in twice."""
    async with team() as made:
        begun = [await begin(made, "ann") for _ in range(5)]
        entered = await asyncio.gather(*(browser.come_back(address) for browser, address in begun))
        assert [each.status_code for each in entered] == [200] * 5
