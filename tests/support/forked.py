"""Programs in processes of their own that need not import the library again: each is a fork of one that has done so.

To import it takes most of the time of a small program. What a program can tell apart is that its modules are loaded
already. Where processes are not forked with safety, as on Windows and macOS, each program gets an interpreter.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

PATIENCE = 240
"""Seconds that a program may take."""
LOADED = ("antiphon", "antiphon.host", "antiphon.server", "antiphon.testing", "antiphon.middleware", "antiphon.gateway")
"""What most programs import names from; all these names are loaded."""
ALSO_LOADED = (
    *("antiphon.cli.root", "antiphon.host.store.sql_store", "antiphon.host.terminal.reviewer"),
    *("aiohttp", "subprocess", "typing", "uvicorn", "websockets.server"),
)
"""What many programs load besides."""


class Runner(Protocol):
    """Runs a program of a folder there; returns its exit code, output and errors."""

    def __call__(self, program: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]: ...


def run_in_interpreter(program: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, program.name],
        cwd=program.parent,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def open_runner() -> Iterator[Runner]:
    """Start the process that is forked, and end it."""
    if sys.platform != "linux":
        yield run_in_interpreter
        return
    command = [sys.executable, "-m", "tests.support.forked"]
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(command, cwd=root, stdin=-1, stdout=-1, text=True, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, replies = process.stdin, process.stdout

        def run(program: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
            print(json.dumps([str(program), env]), file=requests, flush=True)
            return subprocess.CompletedProcess([str(program)], *json.loads(replies.readline()))

        try:
            yield run
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _serve() -> tuple[Path, dict[str, str]] | None:
    """Fork for each request and reply with what came of it; return, in the fork, what is to be run."""
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if not child:
                program, env = json.loads(line)
                for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
                    os.dup2(file, number)
                requests.close()
                replies.close()
                return Path(program), env
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = [file.seek(0) or file.read() for file in (out, err)]
        print(json.dumps([code, *texts]), file=replies, flush=True)
    return None


def _load() -> None:
    """Import what the programs will, and leave it to no garbage collection."""
    for place in LOADED:
        module: Any = import_module(place)
        for name in module.__all__:
            getattr(module, name)
    for name in ALSO_LOADED:
        import_module(name)
    gc.collect()
    gc.freeze()


def _leave() -> None:
    """End a fork whose program has run through and whose own exit functions have run: the last of them.

    To end it as Python does would give back all that was loaded, module by module: more than half of the processor
    time of a small program.
    """
    if _ran_through:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _become(program: Path, env: dict[str, str]) -> dict[str, Any]:
    """Be as an interpreter that was started with a program, and return the names of its main module."""
    signal.alarm(PATIENCE)
    os.chdir(program.parent)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [program.name]
    sys.path[0] = str(program.parent)
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__file__=str(program), __builtins__=__builtins__)
    return main.__dict__


_ran_through: list[Path] = []
"""The program of this fork, once it has come to its end without an exception."""

if __name__ == "__main__":
    atexit.register(_leave)  # before anything else is: exit functions run in the opposite order
    _load()
    if found := _serve():
        names = _become(*found)
        exec(compile(found[0].read_text(encoding="utf-8"), names["__file__"], "exec", dont_inherit=True), names)
        _ran_through.append(found[0])
