"""Where the peers are, and how to run the programs that use them.

Paths and processes only; the fixtures are in ``conftest``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["OUR_SERVER", "SURVEYING_SERVER", "Peers"]

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
OUR_SERVER = [sys.executable, str(HERE / "our_server.py")]
SURVEYING_SERVER = [*OUR_SERVER, "--survey"]
PATIENCE = 90
"""Seconds a peer program may take; the slowest takes six."""


@dataclass(frozen=True)
class Peers:
    """The programs that ``setup.sh`` installed."""

    root: Path

    @classmethod
    def installed(cls) -> Peers:
        """Find what was installed.

        Raises:
            RuntimeError: ``setup.sh`` was not run.
        """
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        root = Path(os.environ.get("ANTIPHON_INTEROP_DIR") or cache / "antiphon-interop")
        if not (root / "installed").is_file():
            raise RuntimeError(f"The interop peers are not installed in {root}: run tests/interop/setup.sh")
        return cls(root)

    @cached_property
    def node(self) -> str:
        """The Node that was installed with the packages."""
        return str(self.root / "npm" / "node_modules" / ".bin" / "node")

    @cached_property
    def hosts(self) -> Path:
        """The folder with the programs of other hosts."""
        return self.root / "hosts" / "node_modules" / ".bin"

    def server(self, name: str) -> list[str]:
        """Return the command line of a server of others by the name of its program; arguments follow it."""
        program = self.root / "servers" / "node_modules" / ".bin" / name
        if program.exists():
            return [self.node, str(program.resolve())]
        found = (self.root / venv / "bin" / name for venv in ("python1", "pythonservers"))
        return [str(next(path for path in found if path.exists()))]

    @cached_property
    def python2_server(self) -> list[str]:
        """Command line of our server written with the official Python SDK 2.x."""
        return [str(self.root / "python2" / "bin" / "python"), str(PROGRAMS / "python2_server.py")]

    @cached_property
    def ts2_server(self) -> list[str]:
        """Command line of our server written with the TypeScript SDK v2; ``stdio`` or a port follows it.

        It is told where the packages are on its way in: a client hands its own environment to no server.
        """
        return ["env", f"ANTIPHON_INTEROP_DIR={self.root}", self.node, str(PROGRAMS / "ts2_server.mjs")]

    @cached_property
    def everything(self) -> list[str]:
        """Command line of the reference server."""
        return [self.node, self._package("server-everything", "dist/index.js"), "stdio"]

    def client(self, name: str, era: str) -> list[str]:
        """Return the command line of a client program; the server's command line follows it."""
        if name.startswith("python"):
            return [str(self.root / name / "bin" / "python"), str(PROGRAMS / f"{name}_client.py"), era]
        return [self.node, str(PROGRAMS / f"{name}_client.mjs"), era]

    def program(self, name: str) -> list[str]:
        """Return the command line of a program by its name, which begins with that of the peer; arguments follow it."""
        if name.startswith("python"):
            return [str(self.root / name.partition("_")[0] / "bin" / "python"), str(PROGRAMS / f"{name}.py")]
        return [self.node, str(PROGRAMS / f"{name}.mjs")]

    def walk(self, name: str, era: str, server: list[str]) -> dict[str, Any]:
        """Let a client program walk through a server, and return what it saw."""
        done = self.run([*self.client(name, era), *server])
        if done.returncode != 0:
            raise RuntimeError(f"{name} ({era}) failed with exit code {done.returncode}:\n{done.stderr[-4000:]}")
        return json.loads(done.stdout)

    def inspect(
        self, home: Path, era: str, *arguments: str, server: Sequence[str] = OUR_SERVER
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line of the Inspector on our server; its settings stay in ``home``."""
        program = self._package("inspector", "clients/launcher/build/index.js")
        options = ["--protocol-era", era, "--format", "json", "--quiet"]
        return self.run([self.node, program, "--cli", *server, *options, *arguments], HOME=str(home))

    def run(self, command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, with its output captured."""
        return subprocess.run(
            command,
            capture_output=True,
            check=False,
            encoding="utf-8",
            env={**os.environ, "ANTIPHON_INTEROP_DIR": str(self.root), **env},
            timeout=PATIENCE,
        )

    def _package(self, name: str, path: str) -> str:
        return str(self.root / "npm" / "node_modules" / "@modelcontextprotocol" / name / path)
