"""The logins of commands: where they are stored, which one belongs to a server, and how a person signs in.

Chooses between a browser on this machine and an address that is pasted. ``antiphon.auth`` does the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from yarl import URL

from antiphon.auth.client.access import access_to
from antiphon.auth.client.authorization_code import open_browser
from antiphon.auth.client.discovery import discover_server
from antiphon.auth.client.fetch import open_fetch
from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.oauth import OAuth, OpenPage
from antiphon.auth.client.store import Login, LoginStore
from antiphon.client.connection.targets import Address
from antiphon.errors import ConfigError, Unauthorized
from antiphon.host.checks.visible import make_inert
from antiphon.host.store.store_location import state_folder
from antiphon.machine.browser import has_browser


def open_logins(principal: str | None = None) -> LoginStore:
    """Return this user's stored logins.

    ``principal``: return the logins that this user's gateway uses for this client instead.
    """
    folder = state_folder(os.environ)
    if principal is None:
        return FileLogins(folder / "logins")
    # Each client has a file of its own, so that no mistake in a look-up gives its login to another client.
    return FileLogins(folder / "clients" / hashlib.sha256(principal.encode()).hexdigest() / "logins")


def server_of(address: Address) -> str:
    """Return the address of a server as it is in ``Login.server``."""
    access = access_to(address.url, OAuth(), ssl=address.ssl, proxy=address.proxy)
    return str(getattr(access, "server", ""))


async def find_login(store: LoginStore, server: str) -> Login | None:
    """Return the latest login to a server."""
    found = [one for one in (await store.read()).logins if one.server == server]
    return max(found, key=lambda one: one.obtained_at, default=None)


def settings_of(login: Login | None, store: LoginStore, page: OpenPage | None) -> OAuth:
    """Return the settings with which a login was obtained."""
    if login is None:
        return OAuth(store=store, open_page=page)
    issuer = login.metadata.issuer if login.is_issuer_set else None
    if login.label == "registered":
        return OAuth(issuer=issuer, store=store, open_page=page)
    identity = login.identity
    # The ID of a client that was registered beforehand may be an address, too; only it has no method of its own.
    if login.label.startswith("https://") and (identity.client_id, identity.method) != (login.label, None):
        return OAuth(client_metadata_url=login.label, issuer=issuer, store=store, open_page=page)
    # The secret stays with the issuer that it was given to.
    issuer = login.metadata.issuer if identity.secret is not None else issuer
    return OAuth(client_id=login.label, client_secret=identity.secret, issuer=issuer, store=store, open_page=page)


async def auth_for(address: Address, headers: Mapping[str, str] | None) -> OAuth | None:
    """Return the authorization of a command: the stored login, or a sign-in by the person at this terminal.

    Returns ``None`` if the headers contain credentials, or nobody is there to sign in.
    """
    server = _find_server(address, headers)
    if server is None:
        return None
    store = open_logins()
    login = await find_login(store, server)
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if login is None and not at_terminal:
        return None
    settings = settings_of(login, store, choose_page() if at_terminal else None)
    if not at_terminal:
        settings.unattended = f"the login has ended, and nobody is here to sign in again: antiphon login {server}"
    return settings


async def auth_of_client(address: Address, principal: str) -> OAuth | None:
    """Return the authorization of a gateway for one of its clients: the login that was stored for this client only.

    Returns ``None`` if the configuration has credentials.
    """
    server = _find_server(address)
    if server is None:
        return None
    store = open_logins(principal)
    settings = settings_of(await find_login(store, server), store, None)
    remedy = f"antiphon login {server} --for {shlex.quote(principal)}"
    settings.unattended = f"it requires a login for this client of the gateway; on the gateway's machine: {remedy}"
    return settings


def _find_server(address: Address, headers: Mapping[str, str] | None = None) -> str | None:
    """Return the server that a login may be for; ``None`` if the headers contain credentials."""
    if any(name.lower() == "authorization" for name in (*(address.headers or ()), *(headers or ()))):
        return None
    try:
        return server_of(address)
    except ConfigError:
        # Over plain http to another machine no token is sent.
        return None


async def describe_sign_in(address: Address) -> str:
    """Return what a server requires from a client that signs in.

    Raises ``Unauthorized``: the server does not say it, or its answer cannot be used; the message says why.
    """
    server = URL(server_of(address))
    async with open_fetch(server, ssl=address.ssl, proxy=address.proxy) as fetch:
        found = await discover_server(fetch, server, None)
    ways = "takes only clients that were registered there beforehand (--client-id)"
    if found.server.registration_endpoint:
        ways = "registers clients by itself"
    elif found.server.client_id_metadata_document_supported:
        ways = "takes clients that describe themselves (--client-metadata)"
    scopes = " ".join(found.scopes or ()) or "none named"
    return f"sign in at {found.server.issuer}, which {ways}: antiphon login {server} (scopes: {scopes})"


def choose_page(*, paste: bool = False) -> OpenPage:
    """Choose how a page is shown: in this machine's browser, or by pasting the address if there is none."""
    return _ask_for_address if paste or not has_browser(os.environ) else _open_in_browser


async def _open_in_browser(address: str) -> str | None:
    sys.stderr.write("Opening your browser to sign in. If nothing opens, go to this address:\n")
    sys.stderr.write(f"{make_inert(address)}\n")
    await open_browser(address)
    return None


async def _ask_for_address(address: str) -> str | None:
    sys.stderr.write(
        "Open this address in a browser, on any machine, and sign in:\n"
        f"{make_inert(address)}\n"
        "The last page may fail to load. Paste its whole address here: "
    )
    sys.stderr.flush()
    line = (await asyncio.to_thread(sys.stdin.readline)).strip()
    if not line:
        raise Unauthorized("signing in failed: nothing was pasted")
    return line


def describe_validity(login: Login) -> str:
    """Say how long a login is valid, as far as known."""
    if login.refresh_token is not None:
        return "renewed by itself"
    if login.expires_at is None:
        return "until it is revoked"
    return f"until {datetime.fromtimestamp(login.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
