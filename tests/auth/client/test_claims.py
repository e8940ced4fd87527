"""Processes that need the same login: one asks its person, the others wait for it and take over where it ends."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import pytest
from yarl import URL

from antiphon.auth.challenge import Challenge
from antiphon.auth.client.access import SignedIn
from antiphon.auth.client.claims import claim_is_void, claim_of, this_process
from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.renewal import CLAIM
from antiphon.auth.client.store import Claim
from antiphon.errors import Unauthorized
from tests.support.authority import Person, protected
from tests.support.network import until


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
    pid, started = this_process()
    if claim.get("started"):
        claim = {**claim, "started": claim["started"].replace("PLACE", started.rpartition(":")[0])}
    now = time.time()
    fields = {"owner": "x", "pid": pid, "started": started, **claim}
    fields["until"] = now + fields.get("until", CLAIM)
    assert claim_is_void(Claim(**fields), now) is void
