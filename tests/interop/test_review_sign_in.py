"""The review page with an OpenID provider that nobody here wrote: people sign in, decide, and sign out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp
import pytest

from antiphon.host.checks.policy_rules import Rule
from tests.interop.authorization_server.start import AuthorizationServer, authorization_server
from tests.interop.peers import Peers
from tests.support.ports import free_port
from tests.web.pages import visitor
from tests.web.signing import CLIENT, Browser, Team, team


@asynccontextmanager
async def signing(peers: Peers, monkeypatch: pytest.MonkeyPatch, *rules: Rule) -> AsyncIterator[tuple[Team, Person]]:
    """Run the provider, and a page that knows it."""
    monkeypatch.setenv("PAGE_SECRET", "secret-of-the-page-of-32-characters!")
    url = f"http://team.localhost:{free_port()}"
    async with (
        authorization_server(peers, page=url) as authority,
        team(
            *rules, issuer=authority.issuer, url=url, client_secret="PAGE_SECRET", scopes=("groups",), hours=1
        ) as made,
    ):
        yield made, Person(authority)


class Person:
    """Signs in at the provider as somebody, with a browser of their own."""

    def __init__(self, authority: AuthorizationServer) -> None:
        self.authority = authority

    async def agree(self, address: str, subject: str) -> str:
        """Sign in; returns the address at which the browser comes back to the page."""
        return await self.authority.browse(f"{address}&{urlencode({'login_hint': subject})}")

    async def sign_in(self, made: Team, subject: str) -> Browser:
        """Open the page in a new browser, and sign in."""
        browser = Browser(made, await made.stack.enter_async_context(visitor(base_url=made.origin)))
        entered = await browser.come_back(await self.agree(await browser.start(), subject))
        assert entered.status_code == 200, entered.text
        found = re.search(r'<meta name="csrf" content="([^"]+)"', (await browser.client.get("/")).text)
        assert found is not None
        browser.csrf = found[1]
        return browser


async def test_two_people_in_two_browsers_approve_a_call(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles follow from their claims; the record has issuer and subject of both."""
    async with signing(peers, monkeypatch, Rule(effect="ask", name="pay", to=("group:finance",), people=2)) as found:
        made, people = found
        ann, bob, cy = [await people.sign_in(made, subject) for subject in ("ann", "bob", "cy")]
        question, task = await made.asked(sum=5)
        assert (await cy.decide(question, "approve")).status_code == 403
        assert (await ann.decide(question, "approve")).status_code == 200
        assert (await ann.decide(question, "approve")).status_code == 403
        assert (await bob.decide(question, "approve")).status_code == 200
        assert await task
        [record] = [each for each in made.host.audit.records() if each.step == "review"]
        assert record.people == tuple(f"{people.authority.issuer} sub:{each}" for each in ("ann", "bob"))
        assert "Person ann" in record.by


async def test_a_session_expires_and_roles_are_read_anew(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its hours the browser is sent to the provider again."""
    async with signing(peers, monkeypatch) as (made, people):
        dee = await people.sign_in(made, "dee")
        assert (await dee.post("/unblock", {"identity": "x"})).status_code == 404
        access = made.running.page.access
        now, access.steady = access.steady(), lambda: now + 3601
        assert (await dee.post("/unblock", {"identity": "x"})).status_code == 401
        assert (await dee.client.get("/", follow_redirects=False)).status_code == 303


async def test_a_code_of_another_client_or_browser_lets_nobody_in(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that was used; each is refused by the provider or before it is asked."""
    async with signing(peers, monkeypatch) as (made, people):
        browser = await made.browser()
        address = await browser.start()
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        other = {**asked, "client_id": "application", "redirect_uri": "http://127.0.0.1/callback", "scope": "openid"}
        code = parse_qs(urlsplit(await people.agree(f"{address.partition('?')[0]}?{urlencode(other)}", "ann")).query)
        swapped = urlencode({"code": code["code"][0], "state": asked["state"], "iss": people.authority.issuer})
        assert (await browser.come_back(f"/sign-in/callback?{swapped}")).status_code == 403
        victim, thief = await made.browser(), await made.browser()
        back = await people.agree(await victim.start(), "ann")
        await thief.start()
        assert (await thief.come_back(back)).status_code == 403
        assert (await victim.come_back(back)).status_code == 200
        assert CLIENT in address


async def test_somebody_signs_out_here_and_at_the_provider(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider asks, forgets the person, and sends the browser back to the page."""
    async with signing(peers, monkeypatch) as (made, people):
        ann = await people.sign_in(made, "ann")
        left = await ann.post("/sign-out")
        found = re.search(r"url=([^\"]+)", left.text)
        assert found is not None
        there = found[1].replace("&amp;", "&")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
            async with web.get(there) as response:
                page = await response.text()
            assert response.status == 200, page
            fields = dict(re.findall(r'name="(xsrf|logout)" value="([^"]*)"', page))
            action = re.search(r'action="([^"]+)"', page)
            assert action is not None
            form = {**fields, "logout": "yes"}
            where = urljoin(there, action[1])
            async with web.post(where, data=form, allow_redirects=False) as confirmed:
                assert confirmed.headers["location"] == f"{made.origin}/signed-out"
        assert (await ann.client.get("/", follow_redirects=False)).status_code == 303
