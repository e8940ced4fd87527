"""Opening the page for the person at this machine: the address is printed, and shown in a browser where there is one.

Owns the words at the terminal, and whether there is a browser to open. Serving is ``serve``'s.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from threading import Thread

from antiphon.host.config.shape import Config
from antiphon.host.store.base import Store
from antiphon.web.serve import RunningPage, running_page

__all__ = ["has_browser", "opened_page"]


@asynccontextmanager
async def opened_page(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    config: Config | None = None,
    remote: bool = False,
    browse: bool = True,
    undo: float | None = None,
) -> AsyncGenerator[RunningPage]:
    """Serve the page for a block; print an address that opens it once, to standard error, and open it in a browser.

    Arguments as ``running_page``; ``browse=False`` only prints.

    Raises:
        ConfigError: as ``running_page``.
    """
    async with running_page(store, host=host, port=port, config=config, remote=remote, undo=undo) as running:
        address = running.address()
        sys.stderr.write(f"Review page: {address}\n(the address opens it once, in one browser)\n")
        elsewhere = address.replace(running.origin, running.plain, 1)
        sys.stderr.write(f"If the browser does not find it: {elsewhere} (needs JavaScript)\n")
        sys.stderr.flush()
        if browse and has_browser(os.environ, sys.platform):
            # Another address: the printed one stays good, for a browser of the person's own choice. Never waited for:
            # some browsers end with their window.
            Thread(target=webbrowser.open, args=(running.address(),), daemon=True).start()
        yield running


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Tell whether a browser that is opened here appears before whoever sits at the terminal."""
    if "BROWSER" in environ:
        return bool(environ["BROWSER"])
    if "SSH_CONNECTION" in environ or "CI" in environ:
        return False
    # Without a display a browser in text mode would take the terminal.
    return platform in ("darwin", "win32") or "DISPLAY" in environ or "WAYLAND_DISPLAY" in environ
