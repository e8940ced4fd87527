"""``Proxy``: one server of another process as a ``Server``, to be mounted on other servers, or to be served.

``Server.mount`` finds this module by its name when it is given a target instead of a server.
"""

from __future__ import annotations

from typing import Unpack

from antiphon.auth.client.oauth import Auth
from antiphon.client.connection.targets import Target
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.terms import RunOptions, SignIn
from antiphon.host.host import Host
from antiphon.server.app import Server

__all__ = ["Proxy"]


class Proxy:
    """Offer one server of another process: ``server.mount(Proxy("https://..."), prefix="shop")``.

    This is a ``Gateway`` with one server, which keeps its names. The server is started on first use.

    Args:
        target: as ``Client`` takes it: a URL, a command line, a ``.py`` file, an entry of a configuration, a server.
        host: decides which tools may be called, and answers what the server asks; by default every call is passed on,
            and the client that made the call answers.
        auth: what ``Client(auth=)`` takes, for a URL. The token of a client is never passed on.
        name: the name of the server in messages.
        options: how the server is run; see ``RunOptions``.

    Raises:
        ConfigError: an option cannot be used.
    """

    def __init__(
        self,
        target: Target,
        *,
        host: Host | None = None,
        auth: Auth | None = None,
        name: str = "proxied",
        **options: Unpack[RunOptions],
    ) -> None:
        if auth is not None:
            options["sign_in"] = _always(auth)
        self._gateway = Gateway({name: target}, host, asks="relay" if host is None else "host", names="none", **options)

    @property
    def server(self) -> Server:
        """The server that serves its requests."""
        return self._gateway.server


def _always(auth: Auth) -> SignIn:
    async def sign_in(_server: str, _principal: str | None) -> Auth:
        return auth

    return sign_in
