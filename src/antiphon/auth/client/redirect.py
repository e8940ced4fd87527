"""The person's browser: opened at the page of a sign-in, and the local port to which it is redirected afterwards.

Owns the socket, a minimal HTTP server (RFC 8252, section 7.3), and the page that says that it may be closed. The caller
validates the answer; here only the first request with the right path and state counts. Without a browser the address of
the page is printed. Only http(s) addresses are opened, whatever a server names.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import webbrowser
from collections.abc import Mapping
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from antiphon.auth.client.addresses import checked_address
from antiphon.errors import ConfigError

__all__ = ["PATH", "Receiver", "has_browser", "open_browser"]

PATH = "/callback"

MAX_HEAD = 32 * 1024
"""Bytes of a request's head at most; an authorization code may be long."""

_HEAD_PATIENCE = 10.0
"""Seconds a browser has to send the head."""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:1.1rem system-ui,sans-serif;max-width:34rem;margin:20vh auto;padding:0 1rem}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""
_DONE = _PAGE.format(title="Back to your program", text="It goes on by itself. You may close this page.")
_NOT_THIS = _PAGE.format(title="Nothing is waiting here", text="Start signing in again from your program.")


class Receiver:
    """Waits for one redirect to ``redirect_uri``; made by ``open``."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state: str | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, redirect_uri: str | None = None) -> Self:
        """Listen at the given address of this machine, by default at a free port.

        Raises:
            OSError: the port is in use.
            ConfigError: the address is not of this machine.
        """
        if redirect_uri is None:
            made = cls("")
            made._server = await asyncio.start_server(made._serve, "127.0.0.1", 0, limit=MAX_HEAD)
            port = made._server.sockets[0].getsockname()[1]
            made.redirect_uri, made._path = f"http://127.0.0.1:{port}{PATH}", PATH
            return made
        parts = urlsplit(redirect_uri)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1") or parts.port is None:
            raise ConfigError("redirect_uri is not http at a port of this machine: give open_page, too, to sign in")
        made = cls(redirect_uri)
        # "localhost" may be IPv4 or IPv6; browsers try both.
        made._server = await asyncio.start_server(made._serve, parts.hostname, parts.port, limit=MAX_HEAD)
        return made

    def expect(self, state: str) -> None:
        """From now on accept the redirect with this state."""
        self._state = state

    async def answer(self) -> str:
        """Wait for the browser, and return the address it was redirected to."""
        return await self._answer

    async def close(self) -> None:
        """Stop listening; responses in progress are completed."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            page = self._page(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
            body = page.encode()
            status = "200 OK" if page is _DONE else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
                "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"
                "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n".encode()
                + body
            )
            async with asyncio.timeout(_HEAD_PATIENCE):
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Another program, or a browser that opened a connection without a request.
            pass
        finally:
            writer.close()

    def _page(self, line: str) -> str:
        """Handle a request, and return the page that answers it."""
        method, _, rest = line.partition(" ")
        target, _, _ = rest.rpartition(" ")
        parts = urlsplit(target)
        if method != "GET" or parts.path != self._path or self._answer.done() or self._state is None:
            return _NOT_THIS
        with contextlib.suppress(ValueError):
            # Anybody can send a request to this port: only one with the state is the redirect.
            if dict(parse_qsl(parts.query, max_num_fields=64)).get("state") == self._state:
                self._answer.set_result(f"{self.redirect_uri}?{parts.query}")
                return _DONE
        return _NOT_THIS


async def open_browser(address: str) -> None:
    """Open a page in the system's browser; without one, print the address on standard error."""
    checked_address(address, "the authorization_endpoint")
    opened = await asyncio.to_thread(webbrowser.open, address)
    if not opened:
        sys.stderr.write(f"Open this page to sign in:\n{address}\n")
        sys.stderr.flush()


def has_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Tell whether this machine has a browser the person can see; over ssh it has none."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    if platform in ("win32", "darwin"):
        return True
    return any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))
