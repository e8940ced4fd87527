"""``antiphon login``, ``logins`` and ``logout``: sign in to a server, list where you are signed in, forget a login.

A token is never shown. A login that is forgotten is revoked where it was obtained.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable
from typing import Annotated

from antiphon.auth.client.authorization_code import Device, DevicePage
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.store import Document, Login
from antiphon.auth.client.token_endpoint import revoke_login
from antiphon.cli.config_files import address_of, resolve_target
from antiphon.cli.login_access import choose_page, describe_validity, open_logins, server_of
from antiphon.cli.options import Config, For, Json, TargetText
from antiphon.cli.output.formats import Failed, prefix_errors, print_list, print_text
from antiphon.client.client import Client
from antiphon.client.connection.targets import Address
from antiphon.errors import Unauthorized
from antiphon.host.checks.visible import make_inert

Issuer = Annotated[str | None, "--issuer URL: Sign in at this authorization server only."]


def command(
    target: TargetText,
    *,
    client_id: str | None = None,
    client_metadata: str | None = None,
    scope: list[str] | None = None,
    no_resource: bool = False,
    pkce_unannounced: bool = False,
    issuer: Issuer = None,
    redirect_uri: str | None = None,
    paste: bool = False,
    device: bool = False,
    principal: For = None,
    config: Config = None,
) -> Awaitable[None]:
    """Sign in to a server, for all commands.

    A browser opens. Where there is none, the address to open is printed, and you paste the address at which the browser
    ends.

    Usage:
        --client-id ID: ID of an OAuth client that you have registered; its secret, if it has one, is read from
            ANTIPHON_CLIENT_SECRET.
        --client-metadata URL: URL of a document that describes the client; the URL is then its client ID.
        --scope SCOPE: Ask for this scope, too; may be repeated.
        --no-resource: Do not name the server in requests for tokens, for authorization servers that refuse that
            (Microsoft Entra).
        --pkce-unannounced: Take for granted that the server of --issuer has PKCE (Microsoft Entra, Amazon Cognito).
        --redirect-uri URL: The URL the browser returns to, as registered for the client.
        --paste: Print an address to open in a browser on any machine, and paste here the address at which it ends.
        --device: Show a code to enter on another device, such as a phone.
    """
    settings = OAuth(
        client_id=client_id,
        client_secret=os.environ.get("ANTIPHON_CLIENT_SECRET") if client_id is not None else None,
        client_metadata_url=client_metadata,
        issuer=issuer,
        scopes=scope,
        names_resource=not no_resource,
        pkce_announced=not pkce_unannounced,
        grant=Device(_show_device_page) if device else None,
        redirect_uri=redirect_uri,
        open_page=None if device else choose_page(paste=paste),
        store=open_logins(principal),
    )
    address = address_of(resolve_target(target, config))
    if address is None:
        raise Failed(f"{target}: is started on this machine, and gets its secrets by its environment")
    return _sign_in(address, settings)


async def _sign_in(address: Address, settings: OAuth) -> None:
    server = server_of(address)
    store, label = settings.store, settings.label
    # A stored login may be another person's, or lack scopes: this command always signs in anew.
    before = await store.change(lambda kept: _take_login(kept, server, label))
    try:
        with prefix_errors(server):
            async with Client(address.url, auth=settings, headers=address.headers) as client:
                if client.server_capabilities.tools is not None:
                    # Some servers allow the handshake without a login, and require one for the
                    # rest.
                    await client.list_tools()
    finally:
        login = (await store.read()).find(server, label)
        if login is None and before is not None:
            await store.change(lambda kept: kept.put(before))
    if login is None:
        print_text(f"{server} lets you in without a login")
        return
    print_text(f"Signed in to {server} at {login.metadata.issuer}")
    print_text(f"scopes: {' '.join(login.scopes) or 'none named'}; {describe_validity(login)}")


def _take_login(kept: Document, server: str, label: str) -> Login | None:
    login = kept.find(server, label)
    kept.drop(server, label)
    return login


async def _show_device_page(page: DevicePage) -> None:
    sys.stderr.write(f"On any device, open {make_inert(page.address)} and type this code: {make_inert(page.code)}\n")
    if page.complete is not None:
        sys.stderr.write(f"or open {make_inert(page.complete)}\n")


async def logins(*, principal: For = None, as_json: Json = False) -> None:
    """List where you are signed in."""
    found = sorted((await open_logins(principal).read()).logins, key=lambda one: one.server)
    print_list(
        found,
        {
            "server": lambda one: one.server,
            "signed in at": lambda one: one.metadata.issuer,
            "as client": lambda one: one.identity.client_id,
            "scopes": lambda one: " ".join(one.scopes) or "none named",
            "lasts": describe_validity,
        },
        as_json=as_json,
        nothing="You are signed in nowhere.",
        encode=lambda one: {
            "server": one.server,
            "issuer": one.metadata.issuer,
            "client": one.identity.client_id,
            "scopes": list(one.scopes),
            "expiresAt": one.expires_at,
            "renewable": one.refresh_token is not None,
            "bound": one.key is not None,
        },
    )


def logout(target: TargetText, *, principal: For = None, config: Config = None) -> Awaitable[None]:
    """Forget the login to a server, and have its tokens revoked."""
    address = address_of(resolve_target(target, config))
    if address is None:
        raise Failed(f"{target}: is started on this machine: there is no login to it")
    return _forget_login(server_of(address), principal)


async def _forget_login(server: str, principal: str | None) -> None:
    def forget(kept: Document) -> list[Login]:
        gone = [one for one in kept.logins if one.server == server]
        for login in gone:
            kept.drop(login.server, login.label)
            if not any(other.metadata.issuer == login.metadata.issuer for other in kept.logins):
                # No other login uses this registration; deleting it also helps if the server has lost
                # it.
                kept.unregister(login.metadata.issuer)
        return gone

    gone = await open_logins(principal).change(forget)
    if not gone:
        raise Failed(f"{server}: there is no login to it")
    for login in gone:
        told = "its tokens were revoked"
        try:
            if not await revoke_login(login):
                told = f"{login.metadata.issuer} revokes no tokens: they end by themselves"
        except Unauthorized as error:
            told = f"its tokens could not be revoked ({error.message.removeprefix('signing in failed: ')})"
        print_text(f"Logged out of {server}; {told}")
