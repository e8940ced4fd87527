"""Tokens and sessions: once each, bounded, kept over a restart; and what a session can prove."""

from __future__ import annotations

import hmac

from antiphon.host import MemoryStore
from antiphon.host.store.base import PageRow, Store
from antiphon.web.access import MAX_SESSIONS, MAX_TOKENS, SESSION_AGE, Access, Session


class Clock:
    """A clock that is set by hand."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def made(store: Store | None = None, page: str = "one", clock: Clock | None = None) -> Access:
    """Make the access of a page, as it is after a start."""
    store = store or MemoryStore()
    if all(row.name != page for row in await store.pages()):
        await store.keep_page(PageRow(name=page, port=8000, used=1.0), most=5)
    access = Access(store, page, clock=clock or Clock())
    await access.load()
    return access


async def let_in(access: Access) -> Session:
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
    store = MemoryStore()
    access, other = await made(store), await made(store, "two")
    assert await access.redeem("") is None
    assert await access.redeem(other.issue()) is None
    assert access.session(None) is None
    assert access.session((await let_in(other)).secret) is None


async def test_a_restart_lets_nobody_out():
    """The browser keeps its session and its token; whoever comes next has the next number."""
    store = MemoryStore()
    before = await let_in(await made(store))
    again = await made(store)
    after = again.session(before.secret)
    assert after == before
    assert (await let_in(again)).number == 2


async def test_the_page_proves_that_it_is_the_one_a_session_came_from():
    """After a restart too; to each session by a key of its own, which is in no request and not the session's secret."""
    store = MemoryStore()
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
    store = MemoryStore()
    access = await made(store)
    session = await let_in(access)
    [row] = await store.browsers("one")
    assert session.secret not in str(row)
    assert access.session(row.digest) is None


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
    assert one.stamped("question", stamp) == 12.5
    assert one.stamped("another", stamp) is None
    assert other.stamped("question", stamp) is None
    assert one.stamped("question", stamp.replace("12500", "11500")) is None
    assert [one.stamped("question", wrong) for wrong in ("", ".", "x.y", "9" * 40, "\udc80.é")] == [None] * 5


async def test_tokens_and_sessions_are_bounded():
    """The oldest go first."""
    access = await made()
    tokens = [access.issue() for _ in range(MAX_TOKENS + 1)]
    assert await access.redeem(tokens[0]) is None
    secrets = [await access.redeem(access.issue()) for _ in range(MAX_SESSIONS + 1)]
    assert access.session(secrets[0]) is None
    assert access.session(secrets[-1]) is not None
