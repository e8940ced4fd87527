"""Many processes, one login whose refresh token rotates: once for each expiry, whoever is killed when."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from msgspec import structs
from yarl import URL

from antiphon.auth.client.access import SignedIn
from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.errors import Unauthorized
from tests.support.authority import Person, protected


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
        new = await access.renewed(old)
        assert (await access.renewed(old)).access_token == new.access_token
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
        await access.renewed(await access.login())
    assert [claim.pid for claim in looked] == [os.getpid()]


async def test_a_login_is_given_back_when_it_could_not_be_renewed(tmp_path):
    """Whoever is next may try at once; the token stays."""
    async with protected() as resource:
        access = await signed_in(resource, tmp_path / "logins", lasts=3600)
        before = await access.login()
        resource.authority.answer = lambda what, request: 1 / 0
        with pytest.raises(Unauthorized):
            await access.renewed(before)
        assert await access.login() == before


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
        assert (await access.renewed(await access.login())).access_token == "theirs"
