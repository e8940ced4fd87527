"""Our client signs in with an authorization server that nobody here wrote, and uses our own protected server."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest

from antiphon import Client, OAuth, Server
from antiphon.auth import ClientCredentials, Device, DevicePage, FileLogins, ResourceServer
from antiphon.auth.client.token_endpoint import revoke_login
from antiphon.errors import Unauthorized
from antiphon.server.serving.network import network_server
from tests.auth.server.protected import shop
from tests.cli.program import ROOT
from tests.interop.authorization_server.start import PROGRAM, AuthorizationServer, authorization_server
from tests.interop.browser import Browser
from tests.interop.host_homes import ANTIPHON, Home
from tests.interop.peers import HERE, PROGRAMS, Peers
from tests.interop.test_over_network import listening as started
from tests.support.ports import free_port


@asynccontextmanager
async def serving(peers: Peers, seconds: int = 600, **options: Any) -> AsyncIterator[tuple[AuthorizationServer, str]]:
    """Run an authorization server, and a server that takes its tokens; the value is both, the second by its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with authorization_server(peers, seconds) as authority:
        auth = ResourceServer(authority.issuer, audience=url, **options)
        server: Server = shop()
        network = network_server(server._service, "http", "127.0.0.1", port, {"auth": auth})
        task = asyncio.create_task(network.serve())
        while not network.started:
            await asyncio.wait([task], timeout=0.01)
            assert not task.done()
        try:
            yield authority, url
        finally:
            network.should_exit = True
            await task


async def text(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool and return its text."""
    result = await client.call_tool(tool, arguments)
    return result.content[0].text  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


async def test_a_person_signs_in_and_asks_for_more(peers: Peers) -> None:
    """Registered by itself, with PKCE and a resource; the second tool needs more scopes, the third no more."""
    browser = Browser()
    async with (
        serving(peers) as (authority, url),
        Client(url, auth=OAuth(open_page=browser, client_name="tests")) as client,
    ):
        assert f"{authority.issuer} sub:ann" in await text(client, "whoami")
        assert await text(client, "orders") == "two"
        assert await text(client, "order", what="tea") == "tea"
        assert await text(client, "orders") == "two"
    assert 1 <= len(browser.pages) <= 3


async def test_a_login_is_renewed_with_rotating_tokens(peers: Peers, tmp_path: Path) -> None:
    """Access tokens last two seconds: ten clients and a second store share the login, and nobody signs in again."""
    browser = Browser()
    store = FileLogins(tmp_path / "logins", keyring=False)
    async with serving(peers, seconds=2) as (_, url):
        async with Client(url, auth=OAuth(open_page=browser, store=store)) as client:
            assert await text(client, "whoami")
        other = FileLogins(tmp_path / "logins", keyring=False)
        for kept in (store, other, store):
            clients = [Client(url, auth=OAuth(open_page=browser, store=kept)) for _ in range(5)]
            for client in clients:
                await client.connect()
            said = await asyncio.gather(*(text(client, "whoami") for client in clients))
            assert all("sub:ann" in one for one in said)
            for client in clients:
                await client.close()
    assert len(browser.pages) == 1


def as_program(authority, secret: str) -> OAuth:
    """Make the settings of a program that is registered with the issuer."""
    issuer, grant = authority.issuer, ClientCredentials()
    return OAuth(client_id=PROGRAM[0], client_secret=secret, issuer=issuer, grant=grant, scopes=["orders:read"])


async def test_a_program_signs_in_by_itself(peers: Peers) -> None:
    """Client credentials, with the scopes it asks for."""
    async with serving(peers) as (authority, url), Client(url, auth=as_program(authority, PROGRAM[1])) as client:
        assert f"{authority.issuer} sub:program" in await text(client, "whoami")
        assert await text(client, "orders") == "two"


@pytest.mark.parametrize("as_program", [True, False])
async def test_tokens_are_bound_to_our_key(peers: Peers, *, as_program: bool) -> None:
    """DPoP at both servers: our proofs are taken by theirs, and by ours."""
    secret = {"client_id": PROGRAM[0], "client_secret": PROGRAM[1], "grant": ClientCredentials()}
    async with serving(peers) as (authority, url):
        given: dict[str, Any] = {**secret, "issuer": authority.issuer} if as_program else {"open_page": Browser()}
        oauth = OAuth(**given, dpop=True)
        async with Client(url, auth=oauth) as client:
            assert await text(client, "whoami")
        (login,) = (await oauth.store.read()).logins
        assert login.token_type == "DPoP"
        assert login.key is not None
        async with aiohttp.ClientSession() as web:
            # The token alone opens nothing.
            headers = {"Authorization": f"Bearer {login.access_token}", "Accept": "application/json"}
            async with web.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers) as answer:
                assert answer.status == 401


async def test_a_person_signs_in_on_another_device(peers: Peers) -> None:
    """The device flow: the page is opened elsewhere, while the program asks whether it is done."""
    shown: list[DevicePage] = []

    async def tell(page: DevicePage) -> None:
        shown.append(page)
        await _confirm(page)

    oauth = OAuth(client_id="application", grant=Device(tell), scopes=["openid", "orders:read"])
    async with serving(peers) as (_, url), Client(url, auth=oauth) as client:
        assert "sub:ann" in await text(client, "whoami")
    assert len(shown) == 1


async def _confirm(page: DevicePage) -> None:
    """Do on the other device what the pages ask for."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
        address = page.complete or page.address
        async with web.get(address) as response:
            form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', await response.text()))
        form |= {"user_code": page.code, "confirm": "yes"}
        async with web.post(page.address, data=form, allow_redirects=False) as response:
            place = urljoin(page.address, response.headers["location"])
        for _ in range(10):
            async with web.get(place, allow_redirects=False) as response:
                if "location" not in response.headers:
                    return
                place = urljoin(place, response.headers["location"])


@pytest.mark.parametrize("revision", ["2025-11-25", "auto"])
async def test_a_server_of_the_official_sdk_is_signed_in_to(peers: Peers, revision: str) -> None:
    """Its metadata, its challenge and its check of the audience are other people's."""
    browser = Browser()
    port = free_port()
    async with authorization_server(peers) as authority:
        command = [peers.python2_server[0], str(PROGRAMS / "python2_protected.py"), str(port), authority.issuer]
        async with (
            started(command, port),
            Client(f"http://127.0.0.1:{port}/mcp", auth=OAuth(open_page=browser), revision=revision) as client,
        ):
            assert await text(client, "whoami") == "ann orders:read"
    assert len(browser.pages) == 1


async def test_a_login_that_was_revoked_is_forgotten(peers: Peers) -> None:
    """The issuer says that the refresh token is over: then somebody signs in again."""
    browser = Browser()
    oauth = OAuth(open_page=browser)
    async with serving(peers, seconds=2) as (_, url):
        async with Client(url, auth=oauth) as client:
            await text(client, "whoami")
        (login,) = (await oauth.store.read()).logins
        assert await revoke_login(login)
        async with Client(url, auth=oauth) as client:
            assert "sub:ann" in await text(client, "whoami")
    assert len(browser.pages) == 2


async def test_a_wrong_secret_is_said_to_be_wrong(peers: Peers) -> None:
    """With the issuer's code, and without the secret."""
    async with serving(peers) as (authority, url):
        oauth = as_program(authority, "s3cret-that-is-not-the-right-one")
        with pytest.raises(Unauthorized, match="invalid_client") as caught:
            async with Client(url, auth=oauth):
                pass
    assert "s3cret" not in str(caught.value)


async def test_a_login_that_the_host_had_is_made_anew_after_an_installation(peers: Peers, tmp_path: Path) -> None:
    """The command that ``antiphon install`` names signs in, and the gateway uses the login."""
    browser = shlex.join([sys.executable, str(HERE / "browser.py")])
    home = Home(tmp_path, peers, {"BROWSER": f"{browser} %s", "PYTHONPATH": str(ROOT)})
    home.write(tmp_path / ".config" / "antiphon" / "antiphon.toml", '[policy]\ndefault = "allow"\n')
    async with serving(peers) as (authority, url):
        home.write(
            home.file("claude-code"),
            json.dumps({"mcpServers": {"orders": {"type": "http", "url": url, "headers": {}}}}),
        )
        said = await home.antiphon("install", "claude-code")
        (login,) = re.findall(r"antiphon (login orders .*)", said)
        assert f"Signed in to {url} at {authority.issuer}" in await home.antiphon(*shlex.split(login))
        servers = str(tmp_path / ".config" / "antiphon" / "hosts" / "claude-code.json")
        command = [*ANTIPHON, "gateway", "--config", servers]
        async with Client({"command": command[0], "args": command[1:], "env": home.environ}) as client:
            assert f"{authority.issuer} sub:ann" in await text(client, "orders__whoami")
