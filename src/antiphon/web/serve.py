"""Serving the page on this machine, by uvicorn.

Owns the socket, and that it is one only this machine can reach. Who may look is ``guards``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager

import uvicorn

from antiphon.errors import ConfigError
from antiphon.host.config.shape import Config
from antiphon.host.store.base import Store
from antiphon.web.access import Access
from antiphon.web.page import ReviewPage

__all__ = ["RunningPage", "running_page", "serve_page"]

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_STREAMS = 200
"""Connections at once: each browser has one that stays open, and a few for a moment."""


class RunningPage:
    """A page that is being served."""

    def __init__(self, page: ReviewPage, origin: str) -> None:
        self.page = page
        self.origin = origin
        """``"http://127.0.0.1:8765"``."""

    def address(self) -> str:
        """Make an address that opens the page, once."""
        return f"{self.origin}/open?token={self.page.access.issue()}"


async def serve_page(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    config: Config | None = None,
    remote: bool = False,
    started: Callable[[RunningPage], None],
) -> None:
    """Serve the page until cancelled. ``started`` is called once it can be opened; arguments as ``running_page``."""
    async with running_page(store, host=host, port=port, config=config, remote=remote) as running:
        started(running)
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def running_page(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    config: Config | None = None,
    access: Access | None = None,
    remote: bool = False,
) -> AsyncGenerator[RunningPage]:
    """Serve the page in the background of the block. The store stays open.

    ``port`` 0 is any that is free. ``remote`` allows a ``host`` that others can reach: whoever has the address may
    decide, over a connection that is not encrypted. ``access`` keeps the sessions of an earlier page.

    Raises:
        ConfigError: the host is not of this machine alone, and ``remote`` was not said; or the port is taken.
    """
    if not remote and not _is_loopback(host):
        raise ConfigError(f"the page is served on this machine only: {host} can be reached by others")
    listening = _listen(host, port)
    with contextlib.closing(listening):
        number: int = listening.getsockname()[1]
        own = f"[{host}]" if ":" in host else host
        hosts = {f"{name}:{number}" for name in (*_NAMES, own)}
        page = ReviewPage(store, hosts=hosts, config=config, access=access)
        server = _Quiet(_config(page))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield RunningPage(page, f"http://{own}:{number}")
        finally:
            page.site.closing.set()
            server.should_exit = True
            await asyncio.shield(serving)


class _Quiet(uvicorn.Server):
    """Leaves signals to whoever runs the event loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _config(page: ReviewPage) -> uvicorn.Config:
    return uvicorn.Config(
        page,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_STREAMS,
        timeout_graceful_shutdown=2,
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # From here on the system takes connections: nobody has to wait until the server looks at them.
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigError(f"the page cannot be served at {host}:{port}: {error.strerror or error}") from None
    return listening
