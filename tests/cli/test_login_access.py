"""Logins as commands use them: signing in at a terminal, by a browser or by pasting, and what is used afterwards."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from pathlib import Path

import pytest
from aiohttp import web
from msgspec import structs

from antiphon import Client
from antiphon.auth.client.renewal import claim_of
from antiphon.auth.client.store import Document, Login
from antiphon.auth.metadata import ClientIdentity
from antiphon.cli.login_access import auth_of_client, describe_validity, open_logins, settings_of
from antiphon.client.connection.targets import Address
from antiphon.errors import Unauthorized
from tests.auth.client.test_file_store import login
from tests.cli.conftest import Cli
from tests.cli.program import at_terminal, ended
from tests.support.authority import protected


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user without logins, whose browser signs in at once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("SSH_CONNECTION", "SSH_TTY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    pages = []

    def browse(address):
        pages.append(address)
        with urllib.request.urlopen(address) as page:
            assert "You may close this page" in page.read().decode()
        return True

    monkeypatch.setattr("webbrowser.open", lambda address: pages.append(address) or _later(browse, address))
    return pages


def _later(browse, address):
    """As a browser does: the page is opened while the command waits."""
    import threading

    threading.Thread(target=browse, args=(address,), daemon=True).start()
    return True


async def run(cli: Cli, *words):
    """Run a command beside the servers of the test."""
    return await asyncio.to_thread(cli, *words)


async def test_login_opens_a_browser_and_other_commands_use_what_came_of_it(cli: Cli, home):
    """The page returns, the login is listed without a token, the list of tools needs nobody, logout forgets."""
    async with protected() as resource:
        done = await run(cli, "login", resource.url, "--scope", "write")
        assert done.code == 0, done.err
        assert f"Signed in to {resource.url} at {resource.authority.url}" in done.out
        assert "scopes: write; renewed by itself" in done.out

        listed = await run(cli, "tools", resource.url)
        assert listed.code == 0, listed.err
        assert "echo" in listed.out

        logins = await run(cli, "logins")
        assert logins.out.split("\t")[:2] == [resource.url, resource.authority.url]
        tokens = [*resource.authority.tokens, *resource.authority.refresh]
        assert not [token for token in tokens if token in logins.out + done.out + done.err]
        assert (await run(cli, "logins", "--json")).objects[0]["scopes"] == ["write"]

        assert (await run(cli, "logout", resource.url)).code == 0
        assert (await run(cli, "logins")).out == ""
        refused = await run(cli, "tools", resource.url)
        assert refused.code == 1
        assert "antiphon login" in refused.err
        assert len(resource.authority.seen("/authorize")) == 1


async def test_logout_has_the_tokens_revoked_where_they_were_obtained(cli: Cli, home):
    """Both, and the command says so."""
    async with protected() as resource:
        authority = resource.authority
        authority.changes["revocation_endpoint"] = f"{authority.url}/revoke"
        await run(cli, "login", resource.url)
        tokens = {*authority.tokens, *authority.refresh}
        # RFC 7009 has 200; other frameworks answer a POST without content otherwise.
        authority.answers["/revoke"] = lambda what, request: web.Response(status=204)
        assert "were revoked" in (await run(cli, "logout", resource.url)).out
        assert {what["token"] for what in authority.seen("/revoke")} == tokens


@pytest.mark.parametrize(
    ("error", "said"), [("unsupported_token_type", "were revoked"), ("server_error", "could not be revoked")]
)
async def test_a_login_is_forgotten_whatever_its_issuer_says(cli: Cli, home, error, said):
    """Some tokens cannot be revoked (RFC 7009, section 2.2.1): they end by themselves."""
    async with protected() as resource:
        authority = resource.authority
        authority.changes["revocation_endpoint"] = f"{authority.url}/revoke"
        authority.answers["/revoke"] = lambda what, request: web.json_response({"error": error}, status=400)
        await run(cli, "login", resource.url)
        told = (await run(cli, "logout", resource.url)).out
        assert said in told
        assert "signing in" not in told
        assert (await open_logins().read()).logins == []


async def test_a_sign_in_that_fails_leaves_the_login_there_was(cli: Cli, home, monkeypatch: pytest.MonkeyPatch):
    """Whoever says no to the page is as signed in as before."""
    async with protected() as resource:
        await run(cli, "login", resource.url)
        before = (await open_logins().read()).logins
        resource.authority.redirect = {"error": "access_denied", "code": None}
        done = await run(cli, "login", resource.url)
        assert done.code == 1
        assert "declined" in done.err
        assert (await open_logins().read()).logins == before
        assert (await run(cli, "tools", resource.url)).code == 0


async def test_a_server_that_wants_no_login_is_said_to_want_none(cli: Cli, home):
    """Nothing is kept."""
    async with protected() as resource:
        resource._refusal = lambda *_: None
        done = await run(cli, "login", resource.url)
        assert "without a login" in done.out
        assert home == []


async def test_a_server_that_wants_no_login_any_more_leaves_the_login_there_was(cli: Cli, home):
    """Nobody has signed in, and the command does not say so."""
    async with protected() as resource:
        await run(cli, "login", resource.url)
        before = (await open_logins().read()).logins
        resource._refusal = lambda *_: None
        done = await run(cli, "login", resource.url)
        assert "without a login" in done.out
        assert "Signed in" not in done.out
        assert (await open_logins().read()).logins == before


async def test_doctor_says_what_a_server_wants(cli: Cli, home):
    """Where to sign in, and how to be known there."""
    async with protected() as resource:
        resource.changes["scopes_supported"] = ["read"]
        done = await run(cli, "doctor", resource.url)
        assert done.code == 1
        assert f"login: sign in at {resource.authority.url}, which registers clients by itself" in done.out
        assert "scopes: read" in done.out
        resource.authority.changes["registration_endpoint"] = None
        assert "registered there beforehand" in (await run(cli, "doctor", resource.url)).out
        resource.authority.changes["issuer"] = "https://other.example"
        assert "is the metadata of https://other.example" in (await run(cli, "doctor", resource.url)).out


async def test_a_header_of_ones_own_counts(cli: Cli, home):
    """Whoever gives a token is not signed in as somebody else."""
    async with protected() as resource:
        await run(cli, "login", resource.url)
        resource.authority.tokens["mine"] = set()
        seen = len(resource.seen())
        assert (await run(cli, "tools", resource.url, "-H", "authorization: Bearer mine")).code == 0
        assert set(resource.seen()[seen:]) == {"Bearer mine"}


async def test_over_ssh_the_address_is_pasted(tmp_path: Path):
    """As a new user would try it: the call asks to sign in, and prints its result."""
    async with protected() as resource:
        child = await asyncio.to_thread(
            at_terminal, *("call", resource.url, "echo"), SSH_CONNECTION="here", XDG_STATE_HOME=str(tmp_path)
        )
        await asyncio.to_thread(child.expect, r"(http://127.0.0.1:\d+/authorize\?\S+)")
        address = child.match[1]
        await asyncio.to_thread(child.expect, "Paste its whole address here: ")
        child.sendline(await asyncio.to_thread(_ends_at, address))
        await asyncio.to_thread(child.expect, "done")
        assert await asyncio.to_thread(ended, child) == 0


def browser_in(folder: Path) -> Path:
    """Make a program that follows every redirect, as ``BROWSER`` names one, and keeps the last page."""
    browser = folder / "browser"
    program = folder / "browser.py"
    program.write_text(
        "import sys, urllib.request\n"
        f"open({str(folder / 'page')!r}, 'wb').write(urllib.request.urlopen(sys.argv[1]).read())\n"
    )
    # A shebang cannot name a Python whose path has spaces.
    browser.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{program}' \"$1\"\n")
    browser.chmod(0o700)
    return browser


async def test_with_a_browser_the_call_goes_on_by_itself(tmp_path: Path):
    """As a new user would try it: a page opens, comes back and may be closed, and the result is printed."""
    browser = browser_in(tmp_path)
    async with protected() as resource:
        for _ in range(2):
            child = await asyncio.to_thread(
                at_terminal, *("call", resource.url, "echo"), BROWSER=str(browser), XDG_STATE_HOME=str(tmp_path)
            )
            await asyncio.to_thread(child.expect, "done")
            assert await asyncio.to_thread(ended, child) == 0
        assert len(resource.authority.seen("/authorize")) == 1
    assert "You may close this page" in (tmp_path / "page").read_text()


async def test_while_another_process_signs_in_a_command_waits_and_says_so(tmp_path: Path, home):
    """It asks its own person when the other has given up."""
    async with protected() as resource:
        store = open_logins()
        await store.change(lambda kept: kept.begin_sign_in(resource.url, "registered", claim_of("other", 60)))
        child = await asyncio.to_thread(
            at_terminal,
            *("call", resource.url, "echo"),
            BROWSER=str(browser_in(tmp_path)),
            XDG_STATE_HOME=str(tmp_path / "state"),
        )
        await asyncio.to_thread(child.expect, f"another process is signing in to {resource.url}: waiting for it")
        assert resource.authority.seen("/authorize") == []
        await store.change(lambda kept: kept.end_sign_in(resource.url, "registered", "other"))
        await asyncio.to_thread(child.expect, "done")
        assert await asyncio.to_thread(ended, child) == 0


async def test_a_client_of_a_gateway_has_logins_of_its_own(cli: Cli, home):
    """Made with ``--for``, as the error says; neither the user's own nor another client's are used for it."""
    async with protected() as resource:
        where = Address(url=resource.url)
        await run(cli, "login", resource.url)
        missing = await auth_of_client(where, "https://id.example ann")
        assert await missing.store.read() == Document()
        with pytest.raises(Unauthorized, match=f"login {resource.url} --for 'https://id.example ann'"):
            await Client(resource.url, auth=missing).connect()
        # Nothing was begun for it at the authorization server.
        assert len(resource.authority.clients) == 1

        assert (await run(cli, "login", resource.url, "--for", "https://id.example ann")).code == 0
        found = (await (await auth_of_client(where, "https://id.example ann")).store.read()).logins
        own = (await open_logins().read()).logins
        assert [one.server for one in found] == [resource.url]
        assert found[0].access_token != own[0].access_token
        assert (await (await auth_of_client(where, "https://id.example bob")).store.read()).logins == []

        assert (await run(cli, "logins", "--for", "https://id.example ann")).out.startswith(resource.url)
        assert (await run(cli, "logout", resource.url, "--for", "https://id.example ann")).code == 0
        assert len((await open_logins().read()).logins) == 1


class _Stay(urllib.request.HTTPRedirectHandler):
    """A browser on another machine: the page it is sent to does not load there."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        raise urllib.error.URLError(newurl)


def _ends_at(address: str) -> str:
    try:
        urllib.request.build_opener(_Stay).open(address)
    except urllib.error.URLError as error:
        return str(error.reason)
    raise AssertionError("it did not redirect")


async def test_logout_of_a_server_one_is_not_signed_in_to_says_so(cli: Cli, home):
    """A mistyped address is noticed."""
    done = await run(cli, "logout", "https://a.example/mcp")
    assert done.code == 1
    assert "no login" in done.err


@pytest.mark.parametrize("command", ["login", "logout"])
def test_a_server_that_is_started_here_has_no_login(cli: Cli, command):
    """It gets its secrets by its environment."""
    done = cli(command, "python server.py")
    assert done.code == 1
    assert "started on this machine" in done.err


@pytest.mark.parametrize(
    ("label", "kept"),
    [("registered", (None, None)), ("https://a.example/me", (None, "https://a.example/me")), ("mine", ("mine", None))],
)
def test_a_login_is_used_as_it_was_obtained(label, kept):
    """With the same client, and so under the same name."""
    settings = settings_of(login(label=label), open_logins(), None)
    assert (settings.client_id, settings.client_metadata_url) == kept
    assert settings.label == label


def test_the_id_of_a_registered_client_may_be_an_address():
    """Many authorization servers take addresses, with and without a path, as the IDs of clients."""
    for client_id in ("https://app.example", "https://app.example/me"):
        kept = login(label=client_id, identity=ClientIdentity(client_id=client_id))
        settings = settings_of(kept, open_logins(), None)
        assert (settings.client_id, settings.client_metadata_url) == (client_id, None)


async def test_a_command_that_signs_in_notes_whether_an_issuer_was_named(cli: Cli, home):
    """Only what the user named may be in the local network."""
    async with protected() as resource:
        for words, is_set in (((), False), (("--issuer", resource.authority.url), True)):
            assert (await run(cli, "login", resource.url, *words)).code == 0
            assert [kept.is_issuer_set for kept in (await open_logins().read()).logins] == [is_set]


@pytest.mark.parametrize("label", ["registered", "https://a.example/me", "mine"])
def test_an_issuer_that_the_user_named_stays_named(label):
    """So that it may be in the local network when its tokens are renewed, too."""
    kept = login(label=label, identity=ClientIdentity(client_id="mine"))
    assert settings_of(kept, open_logins(), None).issuer is None
    kept = structs.replace(kept, is_issuer_set=True)
    assert settings_of(kept, open_logins(), None).issuer == kept.metadata.issuer


def test_how_long_a_login_lasts_is_said_in_words():
    """As far as is known."""
    one: Login = login()
    assert describe_validity(one) == "renewed by itself"
    assert describe_validity(login(refresh_token=None)) == "until it is revoked"
    assert describe_validity(login(refresh_token=None, expires_at=0.0)) == "until 1970-01-01 00:00 UTC"
