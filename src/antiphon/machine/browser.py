"""Whether a browser that is opened on this machine appears in front of the person."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def has_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Return whether a browser that is opened here appears in front of the person at the terminal.

    ``BROWSER`` decides if it is set; its empty value means none. Over SSH the person sits at another machine.
    """
    if "BROWSER" in environ:
        return bool(environ["BROWSER"])
    if any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "CI")):
        return False
    # Without a display a text-mode browser would use the terminal.
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return platform in ("darwin", "win32") or any(environ.get(name) for name in displays)
