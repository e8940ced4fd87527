"""What stands before the page: each check by itself, over real HTTP."""

from __future__ import annotations

import httpx
import pytest

from antiphon.web.guards import CSP, MAX_BODY
from antiphon.web.page import ReviewPage
from tests.web.pages import Desk, desk


def changes(page: ReviewPage) -> list[str]:
    """List the addresses that change something, with ids filled in."""
    routes = page.site_routes
    return [path.replace("{id}", "x").replace("{action}", "approve") for path, methods in routes if "POST" in methods]


def reads(page: ReviewPage) -> list[str]:
    """List the addresses that show something."""
    filled = {"{id}": "x", "{of}": "request", "{number:int}": "0", "{form}": "audit.csv"}
    found: list[str] = []
    for path, methods in page.site_routes:
        if "GET" in methods and path != "/open":
            whole = path
            for place, value in filled.items():
                whole = whole.replace(place, value)
            found.append(whole)
    return found


async def raw(page: Desk, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"") -> httpx.Response:
    """Send exactly these headers, and the session."""
    cookies = "; ".join(f"{name}={value}" for name, value in page.client.cookies.items())
    async with httpx.AsyncClient(base_url=page.running.origin) as client:
        return await client.request(method, path, headers=[("Cookie", cookies), *headers], content=body)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil.example"]
)
async def test_a_foreign_host_is_refused(host: str):
    """A name that was made to point here shows nothing, not even the style sheet."""
    async with desk() as page:
        for path in ("/", "/static/page.css", "/open?token=x"):
            refused = await raw(page, "GET", path, [("Host", host)])
            assert refused.status_code in (400, 403)
            assert "Antiphon" not in refused.text


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "file://"]
)
async def test_a_foreign_origin_is_refused(origin: str):
    """Reading and changing, with session and token and all else right."""
    async with desk() as page:
        for method in ("GET", "POST"):
            refused = await raw(page, method, "/settings", [("Origin", origin), ("X-CSRF-Token", page.csrf)])
            assert refused.status_code == 403


async def test_a_change_needs_an_origin():
    """Every browser sends one with a POST."""
    async with desk() as page:
        refused = await raw(page, "POST", "/settings", [("X-CSRF-Token", page.csrf)], b"language=en&theme=auto&name=")
        assert refused.status_code == 403


async def test_a_change_from_another_site_of_this_machine_is_refused():
    """Another port of this host is the same site for cookies, and not for us."""
    async with desk() as page:
        headers = [("Origin", page.running.origin), ("Sec-Fetch-Site", "same-site"), ("X-CSRF-Token", page.csrf)]
        refused = await raw(page, "POST", "/settings", headers, b"language=en&theme=auto&name=")
        assert refused.status_code == 403


async def test_nothing_is_shown_or_changed_without_a_session():
    """Every address but the style sheet wants one; a stale or invented one is none."""
    async with desk() as page:
        for cookie in ("", f"{page.running.page.cookie}=invented"):
            headers = {"Cookie": cookie, "Origin": page.running.origin, "X-CSRF-Token": page.csrf}
            async with httpx.AsyncClient(base_url=page.running.origin) as client:
                for path in reads(page.running.page):
                    assert (await client.get(path, headers=headers)).status_code == 401, path
                for path in changes(page.running.page):
                    assert (await client.post(path, headers=headers)).status_code == 401, path


async def test_every_change_needs_the_token_of_the_page():
    """Without it, and with that of another browser, all of them are refused."""
    async with desk() as page:
        other = page.running.page.access.session(page.running.page.access.redeem(page.running.page.access.issue()))
        for path in changes(page.running.page):
            for token in ("", "wrong", other.csrf):
                refused = await page.post(path, {}, **{"X-CSRF-Token": token})
                assert refused.status_code == 403, path


async def test_other_methods_are_refused():
    """There is nothing to put or delete."""
    async with desk() as page:
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert (await raw(page, method, "/", [])).status_code == 405


async def test_every_answer_says_what_browsers_may_do_with_it():
    """Pages, parts, files, refusals: no framing, no sniffing, no referrer, no copy kept, nothing from elsewhere."""
    async with desk() as page:
        question, _ = await page.asked()
        for path in ("/", f"/review/{question.id}", "/static/page.js", "/nowhere", "/history/audit.csv"):
            headers = (await page.get(path)).headers
            assert headers["Content-Security-Policy"] == CSP
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == "no-store"
        refused = await raw(page, "GET", "/", [("Host", "evil.example")])
        assert refused.headers["Content-Security-Policy"] == CSP


def test_the_policy_has_no_unsafe_parts():
    """Nothing inline, nothing evaluated, nothing by default."""
    assert "unsafe" not in CSP
    assert CSP.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in CSP
    assert "*" not in CSP


async def test_the_session_cookie_is_for_this_page_alone():
    """No script reads it, no other site sends it, no other page of this machine has its name."""
    async with desk() as page, httpx.AsyncClient() as client:
        opened = await client.get(page.running.address())
        cookie = opened.headers["Set-Cookie"]
        port = page.running.origin.rpartition(":")[2]
        assert cookie.startswith(f"antiphon-session-{port}=")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()


async def test_a_form_that_is_too_large_or_no_form_is_refused():
    """Bounded before it is read whole."""
    async with desk() as page:
        headers = [("Origin", page.running.origin), ("X-CSRF-Token", page.csrf)]
        large = await raw(page, "POST", "/settings", headers, b"a=" + b"x" * MAX_BODY)
        many = await raw(page, "POST", "/settings", headers, b"&".join([b"a=1"] * 6_000))
        broken = await raw(page, "POST", "/settings", headers, b"\xff\xfe")
        assert (large.status_code, many.status_code, broken.status_code) == (413, 400, 400)
