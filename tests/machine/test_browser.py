"""Where a browser is opened."""

from __future__ import annotations

import pytest

from antiphon.machine.browser import has_browser


@pytest.mark.parametrize(
    ("environ", "platform", "has"),
    [
        ({}, "darwin", True),
        ({}, "win32", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "linux", False),
        ({"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "darwin", False),
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", False),
        ({"CI": "true", "DISPLAY": ":0"}, "linux", False),
        ({"BROWSER": "firefox"}, "linux", True),
        ({"BROWSER": "firefox", "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "linux", True),
        ({"BROWSER": "", "DISPLAY": ":0"}, "linux", False),
    ],
)
def test_a_browser_is_opened_where_the_person_sits(environ: dict[str, str], platform: str, has: bool):
    """A browser is not opened over SSH or without a display; ``BROWSER`` has the last word."""
    assert has_browser(environ, platform) is has
