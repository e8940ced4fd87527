"""One server as three processes that share an engine, behind nginx, which takes turns and knows no affinity."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.nginx import await_port, own_nginx
from tests.support.ports import free_port
from tests.support.postgres import running_postgres
from tests.support.redis import own_redis

__all__ = ["ENGINE", "FOLDER", "three_replicas"]

ENGINE = "REPLICAS_ENGINE"
"""Variable of the environment with the engine's address, for the program."""
FOLDER = "REPLICAS_FOLDER"
"""Variable of the environment with a folder that the replicas share."""


@contextmanager
def three_replicas(command: Sequence[str], engine: str = "redis", logs: Path | None = None) -> Iterator[str]:
    """Run a program three times, each with a port as its last argument; yields the address of nginx.

    ``engine``: ``"redis"`` or ``"postgres"``, one of their own. ``logs``: the folder that keeps what they say.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="antiphon-replicas-", ignore_cleanup_errors=True)))
        if engine == "postgres":
            address = stack.enter_context(running_postgres())
        else:
            address = stack.enter_context(own_redis()).url
        environment = {**os.environ, ENGINE: address, FOLDER: str(folder)}
        started = [stack.enter_context(_replica(command, environment, logs or folder, at)) for at in range(3)]
        for port, process, log in started:
            await_port(port, process, log)
        yield stack.enter_context(own_nginx([port for port, _, _ in started]))


@contextmanager
def _replica(
    command: Sequence[str], environment: dict[str, str], logs: Path, number: int
) -> Iterator[tuple[int, subprocess.Popen[bytes], Path]]:
    port, log = free_port(), logs / f"replica-{number}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield port, process, log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
