"""A PostgreSQL of one's own: made in a folder, reached over loopback, gone afterwards."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port
from tests.support.processes import state_of

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


class Postgres:
    """A server in a folder, that can be stopped, started again, and made to stand still."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder = folder
        self._user = user
        self._data = folder / "data"
        self._port = free_port()
        self._stopped: list[int] = []
        self.address = f"postgresql://antiphon@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._control("-o", options, "-l", str(self._folder / "log"), "start")

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self.go_on()
        self._control("-m", "immediate", "stop")

    def lose_everything(self) -> None:
        """Make an empty database, in place of the one that is stopped, if there is one."""
        shutil.rmtree(self._data, ignore_errors=True)
        _run(["cp", "-a", str(_new_data(self._user)), str(self._data)], self._user)

    def stand_still(self) -> None:
        """Stop all of its processes where they are: connections stay open, and nothing is answered."""
        main = int((self._data / "postmaster.pid").read_text().split()[0])
        self._stopped = [main]
        os.kill(main, signal.SIGSTOP)
        # Only one that stands still starts no further process, which would answer.
        while state_of(main) != "T":
            time.sleep(0.001)
        self._stopped += map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())
        for pid in self._stopped:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        while self._stopped:
            with suppress(ProcessLookupError):
                os.kill(self._stopped.pop(), signal.SIGCONT)

    def _control(self, *arguments: str) -> None:
        _run([find_program("pg_ctl"), "-D", str(self._data), "-w", *arguments], self._user)


@cache
def _new_data(user: str | None) -> Path:
    """Make the files of an empty database, which each server gets a copy of: to make them takes seconds."""
    name = TemporaryDirectory(prefix="antiphon-pg-new-")
    atexit.register(name.cleanup)
    folder = Path(name.name)
    if user:
        shutil.chown(folder, user)
    options = ["-U", "antiphon", "--auth=trust", "--no-sync", "-E", "UTF8"]
    _run([find_program("initdb"), "-D", str(folder / "data"), *options], user)
    return folder / "data"


@contextmanager
def own_postgres() -> Iterator[Postgres]:
    """Start a server with an empty database."""
    with TemporaryDirectory(prefix="antiphon-pg-") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root.
        user = "postgres" if os.geteuid() == 0 else None
        folder.chmod(0o755)
        if user:
            shutil.chown(folder, user)
        server = Postgres(folder, user)
        server.lose_everything()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server with an empty database. Yields its address."""
    with own_postgres() as server:
        yield server.address


@cache
def shared_postgres() -> str:
    """Return the address of a server that all tests of this process share; it is stopped when the process ends."""
    running = running_postgres()
    address = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return address


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
