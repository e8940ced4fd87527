"""The environment in which AgentDojo's suites are served: pinned, outside the repository, made once.

Owns where it is and what is in it. ``tests/interop/setup.sh`` makes it as well, so it imports nothing but the standard
library: ``python3 -m benchmarks.agentdojo.environment``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

PACKAGE = "agentdojo==0.1.35"
ROOT = Path(__file__).parent.parent.parent


def find_folder() -> Path:
    """Return the folder of the environment, beside those of the other peers of the benchmarks."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ANTIPHON_BENCHMARKS_DIR") or Path(cache) / "antiphon-benchmarks") / "agentdojo"


def make_environment() -> Path:
    """Return the environment's interpreter; installs what is missing. The library's own code is taken from here."""
    folder = find_folder()
    python, stamp = folder / "bin" / "python", folder / "installed"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = " ".join([PACKAGE, *project["dependencies"]])
    if not stamp.is_file() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # With the library come its dependencies; its modules are then those of the checkout.
        subprocess.run([*pip, PACKAGE, str(ROOT)], check=True)
        stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    sys.stdout.write(f"{make_environment()}\n")
