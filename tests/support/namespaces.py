"""What the system of the tests lets a user take from a program."""

from __future__ import annotations

import shutil
import subprocess
import sys


def may_close_network() -> bool:
    """Tell by another program whether the system lets a user start one without a network; many containers do not."""
    if sys.platform != "linux" or (unshare := shutil.which("unshare")) is None:
        return False
    return subprocess.run([unshare, "--user", "--net", "true"], capture_output=True, check=False).returncode == 0
