"""A Redis of one's own: reached over loopback, stopped and started at will, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port

__all__ = ["OwnRedis", "own_redis"]


class OwnRedis:
    """A server that keeps its data in a folder. It can be stopped, started again, and made to stand still."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None, "install redis-server"
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        self._process = subprocess.Popen(
            [program, *options, "--appendonly", "yes", "--appendfsync", "no", "--logfile", str(self._folder / "log")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < until, "redis-server takes no connections"
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            process, self._process = self._process, None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    def lose_everything(self) -> None:
        """Remove the data of one that is stopped."""
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)

    def stand_still(self) -> None:
        """Stop it where it is: connections stay open, and nothing is answered."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as one:
                one.sendall(b"PING\r\n")
                return one.recv(64).startswith(b"+PONG")
        except OSError:
            return False


@contextmanager
def own_redis() -> Iterator[OwnRedis]:
    """Start a server without any keys."""
    with TemporaryDirectory(prefix="antiphon-redis-", ignore_cleanup_errors=True) as name:
        server = OwnRedis(Path(name))
        server.start()
        try:
            yield server
        finally:
            server.stop()
