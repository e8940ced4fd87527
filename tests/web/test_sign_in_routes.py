"""The way into a page on which people sign in, and out of it: without a session nothing, and cookies that stay here."""

from __future__ import annotations

from antiphon.web.page_guards import COOKIE
from tests.web.signing import begin, is_let_in, team


async def test_nothing_is_shown_and_nothing_done_without_a_session():
    """Views lead to the provider, everything else is refused; the one-time address of other pages opens nothing."""
    async with team() as made:
        browser = await made.browser()
        for path in ("/", "/history", "/grants", "/review/x"):
            assert (await browser.client.get(path, follow_redirects=False)).status_code == 303
        assert (await browser.client.get("/live", headers={"Sec-Fetch-Dest": "empty"})).status_code == 401
        assert (await browser.post("/undo")).status_code == 401
        token = made.running.page.access.issue()
        assert (await browser.client.get(f"/open?token={token}")).status_code == 403
        assert not await is_let_in(browser)
        assert "token" not in made.running.address()


async def test_the_cookie_of_a_session_is_strict_and_new_each_time():
    """A secret that was planted in a browser never becomes a person's session."""
    async with team() as made:
        planted = (await made.browser("cy")).client.cookies[COOKIE]
        victim, address = await begin(made)
        victim.client.cookies.set(COOKIE, planted, domain="team.localhost")
        entered = await victim.come_back(address)
        session = next(each for each in entered.headers.get_list("set-cookie") if each.startswith(COOKIE))
        assert "HttpOnly" in session
        assert "SameSite=strict" in session
        assert planted not in session
        assert made.running.page.access.session(planted) is None


async def test_signing_out_ends_the_session_here_and_leads_to_the_provider():
    """The cookie is worth nothing afterwards, wherever it was copied to."""
    async with team() as made:
        ann = await made.browser("ann")
        secret = ann.client.cookies[COOKIE]
        left = await ann.post("/sign-out")
        there = left.text.partition("url=")[2].partition('"')[0]
        assert there.startswith(f"{made.provider.url}/end?id_token_hint=ey")
        assert "post_logout_redirect_uri=http://team.localhost" in there
        copied = await made.browser()
        copied.client.cookies.set(COOKIE, secret, domain="team.localhost")
        assert not await is_let_in(copied)
        ended = (await copied.client.get("/signed-out", headers={"Accept-Language": "en"})).text
        assert "Sign in" in ended
        assert '<html lang="en"' in ended
