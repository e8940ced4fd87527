"""nginx as the documentation configures it, in front of replicas on this machine; gone afterwards."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port

__all__ = ["DEPLOY", "MORE_THAN_ONE_MACHINE", "await_port", "own_nginx"]

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
DEPLOY = HOW_TO / "deploy.md"
"""Has the whole configuration, with two replicas."""
MORE_THAN_ONE_MACHINE = HOW_TO / "more-than-one-machine.md"
"""Has three replicas that need no affinity; all else is as in ``DEPLOY``."""


@contextmanager
def own_nginx(replicas: Sequence[int], page: Path = MORE_THAN_ONE_MACHINE) -> Iterator[str]:
    """Run nginx before the replicas at these ports, with the upstream that a page has; yields the server's address."""
    program = shutil.which("nginx")
    assert program is not None, "install nginx-light"
    port = free_port()
    with TemporaryDirectory(prefix="antiphon-nginx-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        file, log = folder / "nginx.conf", folder / "start.log"
        file.write_text(_configuration(port, replicas, page, folder), encoding="utf-8")
        process = subprocess.Popen(
            [program, "-c", str(file), "-e", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await_port(port, process, log)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a program that was started takes connections; if it ends instead, say what it has logged."""
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
            assert time.monotonic() < until, f"nobody takes connections at port {port}"
            time.sleep(0.05)
        else:
            return


def _configuration(port: int, replicas: Sequence[int], page: Path, folder: Path) -> str:
    """Return what the pages say, for these ports, without TLS and without affinity; all else as it is."""
    upstream = _block("upstream shop", page)
    if page == DEPLOY:
        upstream = re.sub(r"\n *hash .*", "", upstream)
    ports = iter(replicas)
    upstream, count = re.subn(r"server \S+:\d+", lambda _: f"server 127.0.0.1:{next(ports)}", upstream)
    assert count == len(replicas), f"{page.name} has {count} replicas"
    server = re.sub(r"\n *ssl_certificate.*", "", _block("server", DEPLOY))
    server = server.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace("mcp.example.com", "127.0.0.1")
    paths = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{ access_log off; {paths} {upstream} {server} }}
"""


def _block(name: str, page: Path) -> str:
    """Return a block of the configuration that a page has."""
    (found,) = re.findall(rf"^{name} \{{\n.*?^\}}$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return found
