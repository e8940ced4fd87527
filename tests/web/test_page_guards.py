"""What stands before the page: each check by itself, over real HTTP."""

from __future__ import annotations

import hmac

import httpx
import pytest

from antiphon.host import MemoryStore
from antiphon.host.store.base import Store
from antiphon.web.page_guards import (
    COOKIE,
    CSP,
    MAX_BODY,
    MAX_SESSIONS,
    MAX_TOKENS,
    SESSION_AGE,
    BrowserSession,
    PageAccess,
)
from antiphon.web.page_server import ReviewPage
from tests.web.pages import Desk, desk, routes_of, visitor


def changes(page: ReviewPage) -> list[str]:
    """List the addresses that change something, with ids filled in."""
    found = [path for path, methods in routes_of(page) if "POST" in methods and path != "/open"]
    return [path.replace("{id}", "x").replace("{action}", "approve") for path in found]


def reads(page: ReviewPage) -> list[str]:
    """List the addresses that show something."""
    filled = {"{id}": "x", "{of}": "request", "{number:int}": "0", "{form}": "audit.csv"}
    found: list[str] = []
    for path, methods in routes_of(page):
        if "GET" in methods and path not in ("/open", "/alive"):
            whole = path
            for place, value in filled.items():
                whole = whole.replace(place, value)
            found.append(whole)
    return found


async def raw(page: Desk, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"") -> httpx.Response:
    """Send exactly these headers, and the session."""
    cookies = "; ".join(f"{name}={value}" for name, value in page.client.cookies.items())
    async with visitor(base_url=page.running.origin) as client:
        return await client.request(method, path, headers=[("Cookie", cookies), *headers], content=body)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil.example", "0123.localhost"],
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
        for cookie in ("", f"{COOKIE}=invented"):
            headers = {"Cookie": cookie, "Origin": page.running.origin, "X-CSRF-Token": page.csrf}
            async with visitor(base_url=page.running.origin) as client:
                for path in reads(page.running.page):
                    assert (await client.get(path, headers=headers)).status_code == 401, path
                for path in changes(page.running.page):
                    assert (await client.post(path, headers=headers)).status_code == 401, path


async def test_every_change_needs_the_token_of_the_page():
    """Without it, and with that of another browser, all of them are refused."""
    async with desk() as page:
        access = page.running.page.access
        other = access.session(await access.redeem(access.issue()))
        assert other is not None
        for path in changes(page.running.page):
            for token in ("", "wrong", other.csrf):
                refused = await page.post(path, {}, **{"X-CSRF-Token": token})
                assert refused.status_code == 403, path


async def test_a_form_carries_its_token_itself():
    """So that it can be sent without a script; a wrong one is refused as well."""
    async with desk() as page:
        for token, status in ((page.csrf, 303), ("wrong", 403), ("", 403)):
            form = {"csrf": token, "language": "en", "theme": "dark", "name": ""}
            sent = await page.client.post("/settings", data=form, headers={"Origin": page.running.origin})
            assert sent.status_code == status


async def test_no_cookie_counts_under_a_plain_name():
    """Cookies of 127.0.0.1 are sent to every port of it: there the session travels in a header, and only there."""
    async with desk() as page, visitor(base_url=page.running.plain) as client:
        secret = page.client.cookies[COOKIE]
        assert (await client.get("/", headers={"Cookie": f"{COOKIE}={secret}"})).status_code == 401
        assert (await client.get("/", headers={"X-Antiphon-Session": secret})).status_code == 200
        async with visitor(base_url=page.running.origin) as named:
            assert (await named.get("/", headers={"X-Antiphon-Session": secret})).status_code == 401


async def test_a_plain_name_never_sets_the_cookie():
    """Its token becomes a session that the script keeps; whoever opens the address gets the script, and no more."""
    async with desk() as page, visitor(base_url=page.running.plain) as client:
        token = page.running.address().partition("token=")[2]
        await page.asked(text="PRIVATE")
        for path in (f"/open?token={token}", "/", "/history"):
            opened = await client.get(path, headers={"Sec-Fetch-Dest": "document"})
            assert (opened.status_code, "Set-Cookie" in opened.headers, "PRIVATE" in opened.text) == (200, False, False)
            assert "JavaScript is needed" in opened.text
        let_in = await client.post("/open", data={"token": token}, headers={"Origin": page.running.plain})
        assert "Set-Cookie" not in let_in.headers
        session = {"X-Antiphon-Session": let_in.json()["session"]}
        assert "PRIVATE" in (await client.get("/", headers=session)).text
        again = await client.post("/open", data={"token": token}, headers={"Origin": page.running.plain})
        assert again.status_code == 403


async def test_one_name_of_the_page_is_another_origin_than_the_other():
    """What is open under a plain name changes nothing under the page's own, and the other way round."""
    async with desk() as page:
        headers = [("Origin", page.running.plain), ("X-CSRF-Token", page.csrf)]
        assert (await raw(page, "POST", "/settings", headers)).status_code == 403


async def test_whoever_is_not_let_in_keeps_no_connection():
    """Connections are counted, and are for those who review."""
    async with desk() as page, visitor(base_url=page.running.origin) as client:
        for path in ("/", "/static/page.css", "/open?token=x"):
            assert (await client.get(path)).headers["Connection"] == "close"
        assert "Connection" not in (await page.get("/")).headers


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
            assert headers["Referrer-Policy"] == "same-origin"
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
    """No script reads it, no other site sends it, and no other host or port of this machine is sent it."""
    async with desk() as page, visitor() as client:
        opened = await client.get(page.running.address())
        cookie = opened.headers["Set-Cookie"].lower()
        assert cookie.startswith(f"{COOKIE}=")
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        # For the host that set it alone.
        assert "domain" not in cookie


async def test_a_form_that_is_too_large_or_no_form_is_refused():
    """Bounded before it is read whole."""
    async with desk() as page:
        headers = [("Origin", page.running.origin), ("X-CSRF-Token", page.csrf)]
        large = await raw(page, "POST", "/settings", headers, b"a=" + b"x" * MAX_BODY)
        many = await raw(page, "POST", "/settings", headers, b"&".join([b"a=1"] * 6_000))
        broken = await raw(page, "POST", "/settings", headers, b"\xff\xfe")
        assert (large.status_code, many.status_code, broken.status_code) == (413, 400, 400)


class Clock:
    """A clock that is set by hand."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def made(store: Store | None = None, page: str = "one", clock: Clock | None = None) -> PageAccess:
    """Make the access of a page, as it is after a start."""
    store = store or MemoryStore(clock=Clock())
    access = PageAccess(store, page, clock=clock or Clock())
    await access.load()
    return access


async def let_in(access: PageAccess) -> BrowserSession:
    """Let a browser in."""
    session = access.session(await access.redeem(access.issue()))
    assert session is not None
    return session


async def test_a_token_opens_once():
    """The second use of an address gives nothing."""
    access = await made()
    token = access.issue()
    secret = await access.redeem(token)
    assert secret is not None
    assert await access.redeem(token) is None
    session = access.session(secret)
    assert session is not None
    assert session.number == 1


async def test_nothing_opens_without_a_token():
    """Neither an invented token nor an invented secret, nor what another page gave out."""
    store = MemoryStore(clock=Clock())
    access, other = await made(store), await made(store, "two")
    assert await access.redeem("") is None
    assert await access.redeem(other.issue()) is None
    assert access.session(None) is None
    assert access.session((await let_in(other)).secret) is None


async def test_a_restart_lets_nobody_out():
    """The browser keeps its session and its token; whoever comes next has the next number."""
    store = MemoryStore(clock=Clock())
    before = await let_in(await made(store))
    again = await made(store)
    after = again.session(before.secret)
    assert after == before
    assert (await let_in(again)).number == 2


async def test_the_page_proves_that_it_is_the_one_a_session_came_from():
    """After a restart too; to each session by a key of its own, which is in no request and not the session's secret."""
    store = MemoryStore(clock=Clock())
    access = await made(store)
    sessions = [await let_in(access), await let_in(access)]
    for one in (access, await made(store)):
        proofs = [one.proof(session.number, "name:1 abc") for session in sessions]
        keys = [session.proof_key.encode() for session in sessions]
        assert proofs == [hmac.digest(key, b"name:1 abc", "sha256").hex() for key in keys]
        assert proofs[0] != proofs[1]
        assert one.proof(3, "name:1 abc") is None
    assert sessions[0].proof_key not in (sessions[0].secret, sessions[0].csrf)


async def test_the_store_has_no_secret():
    """Only its digest, which opens nothing."""
    store = MemoryStore(clock=Clock())
    access = await made(store)
    session = await let_in(access)
    [(digest, body)] = (await store.timed_rows("browser one")).items()
    assert session.secret not in body
    assert access.session(digest) is None


async def test_a_session_ends_after_a_month():
    """A cookie that was copied long ago is worth nothing."""
    clock = Clock()
    access = await made(clock=clock)
    session = await let_in(access)
    clock.now += SESSION_AGE + 1
    assert access.session(session.secret) is None


async def test_secrets_are_long_and_all_different():
    """Token, session and CSRF token have 256 bits each."""
    access = await made()
    token = access.issue()
    secret = await access.redeem(token)
    session = access.session(secret)
    assert secret is not None
    assert session is not None
    assert len({token, secret, session.csrf}) == 3
    assert min(map(len, (token, secret, session.csrf))) >= 43


async def test_a_session_allows_its_own_token_only():
    """The CSRF token of another browser is refused, whatever characters it is made of."""
    access = await made()
    one, other = await let_in(access), await let_in(access)
    assert one.allows(one.csrf)
    assert not one.allows(other.csrf)
    assert not one.allows("\udc80é")


async def test_a_stamp_says_when_something_was_sent():
    """To this browser, and about this; another moment, subject or browser makes it worth nothing."""
    access = await made()
    one, other = await let_in(access), await let_in(access)
    stamp = one.stamp("question", 12.5)
    assert one.read_stamp("question", stamp) == 12.5
    assert one.read_stamp("another", stamp) is None
    assert other.read_stamp("question", stamp) is None
    assert one.read_stamp("question", stamp.replace("12500", "11500")) is None
    assert [one.read_stamp("question", wrong) for wrong in ("", ".", "x.y", "9" * 40, "\udc80.é")] == [None] * 5


async def test_tokens_and_sessions_are_bounded():
    """The oldest go first."""
    access = await made()
    tokens = [access.issue() for _ in range(MAX_TOKENS + 1)]
    assert await access.redeem(tokens[0]) is None
    secrets = [await access.redeem(access.issue()) for _ in range(MAX_SESSIONS + 1)]
    assert access.session(secrets[0]) is None
    assert access.session(secrets[-1]) is not None
