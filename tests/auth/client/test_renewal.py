"""Many processes, one login whose refresh token rotates: once for each expiry, whoever is killed when."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

import pytest
from aiohttp import web
from msgspec import structs
from yarl import URL

from antiphon.auth.challenge import Challenge
from antiphon.auth.client.access import SignedIn
from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.renewal import CLAIM, claim_is_void, claim_of
from antiphon.auth.client.store import Claim
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.errors import Unauthorized
from tests.support.authority import Person, protected
from tests.support.network import until


async def signed_in(resource, path, *, lasts=0):
    """Sign in to a server whose tokens are over at once; return what may be shared."""
    resource.authority.lasts = lasts
    oauth = OAuth(store=FileLogins(path, keyring=False), open_page=Person())
    access = SignedIn(oauth, URL(resource.url), ssl=True, proxy=None)
    await access.sign_in(None, None)
    return access


async def process(resource, path, times, *point):
    """Run a process that shares the login; return what it printed."""
    command = (sys.executable, "-m", "tests.support.renewing", str(path), resource.url, str(times), *point)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    return said.decode().split()


async def share(path, processes, times):
    """Let so many processes renew a login so often."""
    async with protected() as resource:
        await signed_in(resource, path)
        said = await asyncio.gather(*(process(resource, path, times) for _ in range(processes)))
        authority = resource.authority
        sent = [what["refresh_token"] for what in authority.seen("/token") if what["grant_type"] == "refresh_token"]
        assert said == [["renewed"] * times] * processes
        assert authority.ended == 0
        assert len(sent) == len(set(sent))
        assert len(sent) >= times


async def test_processes_that_share_a_login_never_send_a_refresh_token_twice(tmp_path):
    """The authorization server would take it for stolen, and end the login for all."""
    await share(tmp_path / "logins", 6, 10)


@pytest.mark.slow
async def test_a_hundred_processes_share_a_login(tmp_path):
    """As many as a busy developer's editors and agents, and more; it expires a thousand times and more often."""
    await share(tmp_path / "logins", 100, 1_000)


async def test_a_process_that_is_killed_before_it_sends_costs_nothing(tmp_path):
    """Its claim is taken over as soon as it is gone: nobody waits for its time to pass."""
    async with protected() as resource:
        await signed_in(resource, tmp_path / "logins")
        assert await process(resource, tmp_path / "logins", 1, "claimed") == []
        assert await process(resource, tmp_path / "logins", 2) == ["renewed", "renewed"]
        assert resource.authority.ended == 0


async def test_a_process_that_is_killed_before_it_writes_costs_one_new_login(tmp_path):
    """Nobody knows the token it got; the one before is refused, and forgotten."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins")
        assert await process(resource, tmp_path / "logins", 1, "answered") == []
        assert await process(resource, tmp_path / "logins", 1) == ["none"]
        assert await access.login() is None
        await access.sign_in(None, None)
        assert await process(resource, tmp_path / "logins", 1) == ["renewed"]


async def test_a_login_that_was_renewed_by_others_is_not_renewed_again(tmp_path):
    """Whoever comes late takes what there is."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        old = await access.login()
        new = await access.renew(old)
        assert (await access.renew(old)).access_token == new.access_token
        assert len(resource.authority.seen("/token")) == 2


async def test_nobody_else_is_kept_waiting_by_a_lock_while_one_renews(tmp_path, monkeypatch):
    """The store can be read and changed while a request is on its way: no lock is held across it."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        other = FileLogins(tmp_path / "logins", keyring=False)
        looked = []
        request = TokenEndpoint.request

        async def watched(self, form):
            document = await other.change(lambda kept: list(kept.logins))
            looked.append(document[0].claim)
            return await request(self, form)

        monkeypatch.setattr(TokenEndpoint, "request", watched)
        await access.renew(await access.login())
    assert [claim.pid for claim in looked] == [os.getpid()]


async def test_a_login_is_given_back_when_it_could_not_be_renewed(tmp_path):
    """Whoever is next may try at once; the token stays."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        before = await access.login()
        resource.authority.answer = lambda what, request: 1 / 0
        with pytest.raises(Unauthorized):
            await access.renew(before)
        assert await access.login() == before


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, "invalid_request"), (429, "rate_limit_exceeded"), (400, "temporarily_unavailable"), (403, None)],
)
async def test_a_login_is_kept_when_its_issuer_has_trouble(status, error, tmp_path):
    """Nothing was said about the refresh token, which is used again as soon as the trouble is over."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        before = await access.login()
        body = {"error": error} if error else {}
        resource.authority.answer = lambda what, request: web.json_response(body, status=status)
        with pytest.raises(Unauthorized, match=error or str(status)):
            await access.renew(before)
        assert await access.login() == before
        resource.authority.answer = None
        assert await access.renew(before) is not None


async def test_a_claim_from_before_the_clock_was_set_back_is_taken_over(tmp_path):
    """It would else be waited for as long as the clock was ahead, since its process cannot be seen from here."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins")
        before = await access.login()
        claim = Claim(owner="elsewhere", until=time.time() + 24 * 3600)
        await access.settings.store.change(lambda kept: kept.put(structs.replace(before, claim=claim)))
        async with asyncio.timeout(10):
            renewed = await access.renew(before)
        assert renewed.access_token != before.access_token


async def test_an_answer_that_comes_after_its_claim_was_taken_over_is_not_written(tmp_path, monkeypatch):
    """A process that was stopped for minutes must not put an old token in the place of a new one."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        request = TokenEndpoint.request

        async def slow(self, form):
            answer = await request(self, form)

            def took_over(kept):
                login = kept.logins[0]
                kept.put(structs.replace(login, access_token="theirs", claim=None))

            await access.settings.store.change(took_over)
            return answer

        monkeypatch.setattr(TokenEndpoint, "request", slow)
        assert (await access.renew(await access.login())).access_token == "theirs"


class Slow(Person):
    """Somebody who signs in when told to, or leaves."""

    def __init__(self, *, leaves=False):
        super().__init__()
        self.asked_for = asyncio.Event()
        self.may = asyncio.Event()
        self.leaves = leaves

    async def __call__(self, address):
        self.asked_for.set()
        await self.may.wait()
        if self.leaves:
            raise Unauthorized("signing in failed: the person has left")
        return await super().__call__(address)


def access(resource, path, person, **options):
    """One of several processes, as far as they know of each other: by the file."""
    oauth = OAuth(store=FileLogins(path, keyring=False), open_page=person, **options)
    return SignedIn(oauth, URL(resource.url), ssl=True, proxy=None)


async def signing_in(access, challenge=None):
    """Begin to sign in, and wait until the person sees the page."""
    task = asyncio.create_task(access.sign_in(challenge, None))
    await access.settings.open_page.asked_for.wait()
    return task


async def test_whoever_comes_second_waits_for_the_first(tmp_path):
    """One page for both, and one login; nothing is left of the claim."""
    async with protected() as resource:
        first, second = Slow(), Person()
        one = await signing_in(access(resource, tmp_path / "logins", first))
        waiting = access(resource, tmp_path / "logins", second)
        other = asyncio.create_task(waiting.sign_in(None, None))
        first.may.set()
        assert (await one).access_token == (await other).access_token
        assert second.pages == []
        assert (await waiting.settings.store.read()).signing_in == []


async def test_whoever_waits_is_told_why(tmp_path, caplog):
    """By the log, which a program without one shows on standard error."""
    caplog.set_level(logging.WARNING, "antiphon.auth")
    async with protected() as resource:
        store = FileLogins(tmp_path / "logins", keyring=False)
        # Of a process whose start is not known, as on another machine.
        elsewhere = Claim(owner="x", until=time.time() + 60)
        waiting = access(resource, tmp_path / "logins", Person())
        key = (str(waiting.server), waiting.settings.label)
        await store.change(lambda kept: kept.begin_sign_in(*key, elsewhere))
        other = asyncio.create_task(waiting.sign_in(None, None))
        await until(lambda: caplog.messages)
        assert caplog.messages == [f"another process is signing in to {resource.url}: waiting for it"]
        await store.change(lambda kept: kept.end_sign_in(*key, "x"))
        await other


async def test_a_person_who_gives_up_leaves_the_other_to_ask(tmp_path):
    """Each process has a person of its own."""
    async with protected() as resource:
        first, second = Slow(leaves=True), Person()
        one = await signing_in(access(resource, tmp_path / "logins", first))
        other = asyncio.create_task(access(resource, tmp_path / "logins", second).sign_in(None, None))
        first.may.set()
        with pytest.raises(Unauthorized, match="has left"):
            await one
        assert (await other).access_token
        assert len(second.pages) == 1


async def test_a_login_without_the_scopes_that_are_needed_is_widened(tmp_path):
    """By a page of its own, which asks for the scopes of both."""
    async with protected() as resource:
        first, second = Slow(), Person()
        one = await signing_in(
            access(resource, tmp_path / "logins", first), Challenge(scheme="bearer", parameters={"scope": "read"})
        )
        wider = Challenge(scheme="bearer", parameters={"scope": "write"})
        other = asyncio.create_task(access(resource, tmp_path / "logins", second).sign_in(wider, None))
        first.may.set()
        await one
        assert set((await other).asked) == {"read", "write"}


async def test_a_process_that_is_killed_while_its_person_signs_in_costs_nothing(tmp_path):
    """The next one asks at once."""
    async with protected() as resource:
        command = (sys.executable, "-m", "tests.support.renewing", str(tmp_path / "logins"), resource.url, "0", "page")
        child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert await child.stdout.readline() == b"page\n"
        child.kill()
        await child.communicate()
        person = Person()
        later = access(resource, tmp_path / "logins", person)
        assert len((await later.settings.store.read()).signing_in) == 1
        assert (await later.sign_in(None, None)).access_token
        assert len(person.pages) == 1


async def test_nobody_waits_for_ever(tmp_path):
    """Where one process after another signs in and fails, say."""
    async with protected() as resource:
        waiting = access(resource, tmp_path / "logins", Person(), timeout=-CLAIM)
        claim = Claim(owner="x", until=time.time() + 60)
        await waiting.settings.store.change(
            lambda kept: kept.begin_sign_in(str(waiting.server), waiting.settings.label, claim)
        )
        with pytest.raises(Unauthorized, match="other processes"):
            await waiting.sign_in(None, None)


def test_a_claim_of_this_process_holds():
    """For its seconds."""
    claim = claim_of("x", 60)
    assert not claim_is_void(claim, claim.until - 1)
    assert claim_is_void(claim, claim.until)


@pytest.mark.parametrize(
    ("claim", "void"),
    [
        ({}, False),
        ({"until": -1.0}, True),
        ({"started": "another boot pid:[1]:1"}, False),
        ({"started": "PLACE:1"}, True),
        ({"pid": 2**22 + 1}, True),
        ({"pid": 2**70}, True),
        ({"pid": 0}, True),
        ({"pid": 2**22 + 1, "started": ""}, False),
    ],
)
def test_a_claim_is_taken_over_when_its_time_or_its_process_is_over(claim, void):
    """A process of another machine or container, which cannot be seen from here, has its time."""
    made = claim_of("x", 60.0)
    if claim.get("started"):
        claim = {**claim, "started": claim["started"].replace("PLACE", made.started.rpartition(":")[0])}
    now = time.time()
    fields = {"owner": "x", "pid": made.pid, "started": made.started, **claim}
    fields["until"] = now + fields.get("until", CLAIM)
    assert claim_is_void(Claim(**fields), now) is void
