"""Opens the page at which a person signs in, in the system's browser.

Without a browser, it prints the address. Only http(s) addresses are opened, whatever a server names.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Mapping

from antiphon.auth.client.addresses import checked_address

__all__ = ["has_browser", "open_browser"]


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
