"""Shows a person the page at which they sign in: the system's browser.

Owns what is said where there is none. The address is opened only if it is http(s), whatever a server named.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Mapping

from antiphon.auth.client.addresses import checked_address

__all__ = ["has_browser", "open_browser"]


async def open_browser(address: str) -> None:
    """Open a page in the system's browser; where there is none, say on standard error where to go."""
    checked_address(address, "the authorization_endpoint")
    opened = await asyncio.to_thread(webbrowser.open, address)
    if not opened:
        sys.stderr.write(f"Open this page to sign in:\n{address}\n")
        sys.stderr.flush()


def has_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Tell whether a browser of the person's is on this machine. Over ssh it is on another."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    if platform in ("win32", "darwin"):
        return True
    return any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))
