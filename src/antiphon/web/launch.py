"""Opens the page for the person at this machine: prints the address, and opens a browser if there is one.

Owns the messages at the terminal and the choice of a browser, and keeps the address from other accounts of the machine.
``serve`` serves the page.
"""

from __future__ import annotations

import os
import platform
import sys
import webbrowser
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from html import escape
from pathlib import Path
from tempfile import mkstemp
from threading import Thread

from antiphon.host.config.settings import Config
from antiphon.host.own_request import Asker
from antiphon.host.review.behind_gateway import Servers
from antiphon.host.store.base import Store
from antiphon.machine.loopback import is_loopback
from antiphon.web.serve import RunningPage, running_page

__all__ = ["has_browser", "leading_to", "opened_page"]


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
    asker: Asker | None = None,
    servers: Servers | None = None,
) -> AsyncGenerator[RunningPage]:
    """Serve the page within a block; print an address that opens it once, to standard error, and open it in a browser.

    Arguments as for ``running_page``; ``browse=False`` only prints.

    Raises:
        ConfigError: as for ``running_page``.
    """
    serving = running_page(
        store, host=host, port=port, config=config, remote=remote, undo=undo, asker=asker, servers=servers
    )
    async with serving as running:
        address = running.address()
        sys.stderr.write(f"Review page: {address}\n(the address opens it once, in one browser)\n")
        elsewhere = address.replace(running.origin, running.plain, 1)
        if not is_loopback(host, subdomains=False):
            sys.stderr.write(
                "Not encrypted: this address, the session that it opens, all questions and all answers. Who can "
                "read this network can decide, too. Use ssh -L or a proxy with TLS unless you trust it.\n"
            )
        sys.stderr.write(f"If the browser does not find it: {elsewhere} (needs JavaScript)\n")
        sys.stderr.flush()
        with ExitStack() as ended:
            if browse and has_browser(os.environ, sys.platform):
                # Another address, so that the printed one stays valid for a different browser. Not
                # awaited: some browsers return only when their window is closed.
                Thread(target=webbrowser.open, args=(_shown(running, ended),), daemon=True).start()
            yield running


def _shown(running: RunningPage, ended: ExitStack) -> str:
    """Return what the browser is started with: a temporary file that redirects to an address, removed once it has.

    The command line of a browser is readable by all accounts of the machine, so the address must not be in it.
    """
    if not _reads_files(sys.platform, platform.release()):
        return running.address()
    # A browser in a snap can read only files in the home folder that are not hidden, and no temporary folder.
    file, name = mkstemp(".html", "antiphon-", Path.home() if Path("/snap").is_dir() else None)
    remove = partial(Path(name).unlink, missing_ok=True)
    ended.callback(remove)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(leading_to(running.address(remove)))
    return Path(name).as_uri()


def leading_to(address: str) -> str:
    """Build a page that redirects to an address, with a link as well."""
    there = escape(address)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Antiphon</title>'
        f'<meta http-equiv="refresh" content="0;url={there}"><p><a href="{there}">Antiphon</a></p>\n'
    )


def _reads_files(system: str, release: str) -> bool:
    """Tell whether browsers can open our files: those of Windows cannot from within WSL.

    On Windows other accounts cannot read a command line.
    """
    return system != "win32" and "microsoft" not in release.lower()


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Tell whether a browser opened here appears in front of the person at the terminal."""
    if "BROWSER" in environ:
        return bool(environ["BROWSER"])
    if "SSH_CONNECTION" in environ or "CI" in environ:
        return False
    # Without a display a text-mode browser would use the terminal.
    return platform in ("darwin", "win32") or "DISPLAY" in environ or "WAYLAND_DISPLAY" in environ
