"""The port of this machine at which a browser comes back from signing in (RFC 8252, section 7.3).

Owns the socket, the few bytes of HTTP that are needed, and the page that says it may be closed. Whose answer it is, is
checked by whoever waits for it; here only the first request for the right path counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from antiphon.errors import ConfigError

__all__ = ["PATH", "Receiver"]

PATH = "/callback"

MAX_HEAD = 32 * 1024
"""Bytes of a request's head that are read: a code may be long."""

_HEAD_PATIENCE = 10.0
"""Seconds a browser has to send it."""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:1.1rem system-ui,sans-serif;max-width:34rem;margin:20vh auto;padding:0 1rem}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""
_DONE = _PAGE.format(title="Back to your program", text="It goes on by itself. You may close this page.")
_NOT_THIS = _PAGE.format(title="Nothing is waiting here", text="Start signing in again from your program.")


class Receiver:
    """Waits for one answer. ``redirect_uri``: where it comes to; made by ``open``."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state: str | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, redirect_uri: str | None = None) -> Self:
        """Listen at the port of an address of this machine, by default at a free one.

        Raises:
            OSError: that port is taken.
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
        # "localhost" may be either; browsers try both.
        made._server = await asyncio.start_server(made._serve, parts.hostname, parts.port, limit=MAX_HEAD)
        return made

    def expect(self, state: str) -> None:
        """Take the answer to the request with this state, from now on."""
        self._state = state

    async def answer(self) -> str:
        """Wait for the browser, and return the address it came with."""
        return await self._answer

    async def close(self) -> None:
        """Stop to listen; pages that are being sent are sent."""
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
            # Some other program, or a browser that only opened a connection.
            pass
        finally:
            writer.close()

    def _page(self, line: str) -> str:
        """Take a request, and return the page that answers it."""
        method, _, rest = line.partition(" ")
        target, _, _ = rest.rpartition(" ")
        parts = urlsplit(target)
        if method != "GET" or parts.path != self._path or self._answer.done() or self._state is None:
            return _NOT_THIS
        with contextlib.suppress(ValueError):
            # Anybody can send something to this port: only what knows the state of the request is its answer.
            if dict(parse_qsl(parts.query, max_num_fields=64)).get("state") == self._state:
                self._answer.set_result(f"{self.redirect_uri}?{parts.query}")
                return _DONE
        return _NOT_THIS
