"""The options of commands that serve on a network: where they listen, who may connect, and TLS.

Shared by ``serve`` and ``gateway``. ``auth.server`` checks the tokens.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.host.config.settings import AccessTokens
from antiphon.machine.loopback import LOOPBACK, is_loopback
from antiphon.server.serving.network import ServeOptions

if TYPE_CHECKING:
    from antiphon.auth.server.resource_server import ResourceServer

_PASSWORD = "ANTIPHON_TLS_PASSWORD"
_TOKEN = "ANTIPHON_TOKEN"

_PLACES = {"http": "http", "sse": "sse", "ws": "websocket"}
"""The transport of each option that names a place."""


class ListenPlace(Struct, frozen=True, kw_only=True):
    """Where a command serves."""

    option: str
    """The option that says so, as given."""
    kind: str
    """The transport, as ``Server.run`` has it."""
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect to it."""
        return is_loopback(self.host, subdomains=False)

    def url(self, options: ServeOptions, port: int) -> str:
        """Return the address for clients, to be copied. ``port``: where it is served, which the system may choose."""
        if "auth" in options:
            return options["auth"].url
        scheme, path = {"http": ("http", "mcp"), "sse": ("http", "sse"), "websocket": ("ws", "ws")}[self.kind]
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{'s' if 'tls_cert' in options else ''}://{shown}:{port}/{path}"


class ListenOptions(Struct, frozen=True, kw_only=True):
    """The options of a command that serves on a network, as given: an option set.

    Usage:
        --http HOST:PORT: Serve Streamable HTTP at /mcp.
        --sse HOST:PORT: Serve HTTP+SSE (the oldest HTTP transport) at /sse.
        --ws HOST:PORT: Serve WebSocket at /ws.
        --allow-host NAME: A host name that clients may use to reach the server; may be repeated. Default: the names of
            this machine.
        --allow-origin ORIGIN: The origin of a web page that may call the server, such as https://app.example; may be
            repeated. Default: pages of this machine.
        --tls-cert FILE: Serve HTTPS with this certificate (a PEM file).
        --tls-key FILE: The certificate's private key (a PEM file); if it has a password, that is read from
            ANTIPHON_TLS_PASSWORD.
        --token TOKEN: Let in only clients that send this token ('Authorization: Bearer TOKEN'). Better set
            ANTIPHON_TOKEN, which does not show in the list of processes.
        --issuer URL: Let in only clients with an access token of this authorization server (OAuth); may be repeated.
            More settings are in [auth] of antiphon.toml.
        --audience NAME: The audience (aud) that a token must have; may be repeated. Default: the public URL.
        --public-url URL: The URL under which clients reach the server, such as https://host/mcp.
        --scope SCOPE: A scope that every token must have; may be repeated.
    """

    http: str | None = None
    sse: str | None = None
    ws: str | None = None
    allow_host: list[str] | None = None
    allow_origin: list[str] | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    token: str | None = None
    issuer: list[str] | None = None
    audience: list[str] | None = None
    public_url: str | None = None
    scope: list[str] | None = None

    @property
    def given(self) -> str:
        """The options that were given on the command line, for a message; empty if there are none."""
        said = [name for name in self.__struct_fields__ if name not in _PLACES and getattr(self, name)]
        return ", ".join(f"--{name.replace('_', '-')}" for name in said)

    @property
    def place(self) -> ListenPlace | None:
        """Where to serve; ``None`` for stdio."""
        given = [(name, text) for name in _PLACES if (text := getattr(self, name))]
        if len(given) > 1:
            raise ConfigError("choose one of --http, --sse and --ws")
        if not given:
            return None
        name, text = given[0]
        # ``HOST:PORT``, or ``PORT`` for this machine only.
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or not 0 <= int(port) <= 65535:
            raise ConfigError(f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:8000")
        host = host.strip("[]") or "127.0.0.1"
        return ListenPlace(option=f"--{name} {text}", kind=_PLACES[name], host=host, port=int(port))

    def options(self, accepts: AccessTokens | None, environ: Mapping[str, str] = os.environ) -> ServeOptions:
        """Return the options for ``Server.run``."""
        options: ServeOptions = {}
        auth = self._auth(accepts, environ)
        token = self.token if self.token is not None else environ.get(_TOKEN) or None
        if auth is not None:
            options["auth"] = auth
        elif token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ConfigError("--token is one word of printable ASCII; openssl rand -hex 32 makes one")
            expected = token.encode()
            options["check_token"] = lambda given: (
                "token" if hmac.compare_digest(given.encode("utf-8", "replace"), expected) else None
            )
        chosen: dict[str, Any] = {
            "allowed_hosts": self.allow_host
            or ([urlsplit(auth.url).hostname or "", *LOOPBACK] if auth is not None else None),
            "allowed_origins": self.allow_origin,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
            "tls_password": environ.get(_PASSWORD),
        }
        return cast("ServeOptions", {**options, **{name: value for name, value in chosen.items() if value}})

    def _auth(self, accepts: AccessTokens | None, environ: Mapping[str, str]) -> ResourceServer | None:
        said = {
            "issuers": tuple(self.issuer or ()),
            "audience": tuple(self.audience or ()),
            "url": self.public_url,
            "scopes": tuple(self.scope or ()),
        }
        chosen = {name: value for name, value in said.items() if value}
        if chosen and accepts is None and not self.issuer:
            raise ConfigError(
                "--audience, --public-url and --scope are for access tokens: name who issues them, --issuer"
            )
        if not chosen and accepts is None:
            return None
        if self.issuer and self.token is not None:
            raise ConfigError("--token and --issuer exclude each other: take one of them")
        known = {} if accepts is None else msgspec.structs.asdict(accepts)
        try:
            return _resource_server(msgspec.convert({**known, **chosen}, AccessTokens), environ)
        except msgspec.ValidationError as error:
            raise ConfigError(f"--issuer: {error}: --public-url, or --audience") from None


def _resource_server(accepts: AccessTokens, environ: Mapping[str, str]) -> ResourceServer:
    # Imported here, because most servers are started without.
    from antiphon.auth.server.issuer import Introspection, Issuer
    from antiphon.auth.server.proofs import DPoP
    from antiphon.auth.server.resource_server import ResourceServer

    asks: Introspection | None = None
    if accepts.introspection_client is not None:
        secret = environ.get(accepts.introspection_secret or "")
        if not secret:
            raise ConfigError(f"[auth] introspection_secret: the variable {accepts.introspection_secret} is not set")
        asks = Introspection(client_id=accepts.introspection_client, client_secret=secret)
    issuers = [
        Issuer(url=url, token_issuers=accepts.token_issuers, scope_claims=accepts.scope_claims, introspection=asks)
        for url in accepts.issuers
    ]
    audience = accepts.audience or accepts.url or ""
    return ResourceServer(
        issuers, audience, url=accepts.url, scopes=accepts.scopes, dpop=DPoP(required=True) if accepts.dpop else None
    )
