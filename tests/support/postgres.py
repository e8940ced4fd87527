"""A PostgreSQL of one's own: made in a folder, reached over loopback, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

DEBIAN = Path("/usr/lib/postgresql")


def find_program(name: str) -> str:
    """Find a program of PostgreSQL: on the path, or the newest where Debian keeps them all."""
    found = shutil.which(name)
    newest = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: float(path.parent.parent.name))
    if newest:
        return str(newest[-1])
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: this needs the server package of PostgreSQL")
    return found


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server with an empty database. Yields its address."""
    with TemporaryDirectory(prefix="antiphon-pg-") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root.
        user = "postgres" if os.geteuid() == 0 else None
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if user:
            shutil.chown(folder, user)
            shutil.chown(data, user)
        _run(
            [find_program("initdb"), "-D", str(data), "-U", "antiphon", "--auth=trust", "--no-sync", "-E", "UTF8"], user
        )
        port = _free_port()
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        pg_ctl = [find_program("pg_ctl"), "-D", str(data), "-w"]
        _run([*pg_ctl, "-o", options, "-l", str(folder / "log"), "start"], user)
        try:
            yield f"postgresql://antiphon@127.0.0.1:{port}/postgres"
        finally:
            _run([*pg_ctl, "-m", "immediate", "stop"], user)


def _run(command: list[str], user: str | None) -> None:
    done = subprocess.run(
        command,
        user=user,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
