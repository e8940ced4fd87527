"""``antiphon dev``: serve a Python file over HTTP while it is being written, anew after each change.

The process that a person starts never runs the file: it holds the port and starts one worker, which does. After a
change another worker takes its place, with the sessions of its clients (``server/serving/parent``). One that fails
says why, and the old one goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path

import click

from antiphon.cli.commands.serve import File, find_line, find_server, load_file, split_name
from antiphon.cli.config_files import FileWatch
from antiphon.cli.network_options import ListenOptions, ListenPlace
from antiphon.cli.output.formats import Failed
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import make_inert
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.machine.files import TOOL_FOLDERS
from antiphon.middleware import LoggingMiddleware
from antiphon.server.serving import worker_link
from antiphon.server.serving.network import open_sockets
from antiphon.server.serving.parent import Parent
from antiphon.server.serving.run import run_loop
from antiphon.server.state.request_state import check_encryption
from antiphon.transports.stdio.reaper import GUARDIAN

_LOOK = 0.3
"""Seconds between two looks at the files."""
_MAX_ENTRIES = 5_000
"""Most files and folders that are looked at: some 30 ms of each look."""
_SUFFIXES = (".py", ".html", ".css", ".js", ".toml", ".yaml", ".yml")
"""Files that people write. Data, such as JSON and databases, is often written by the server itself."""
_GRACE = 2.0
"""Seconds in which MCP Inspector ends by itself."""
_MAX_SEARCHED = 4_096
"""Most characters of an error that are searched for secrets."""


def command(file: File, *, listening: ListenOptions, inspector: bool = False, messages: bool = True) -> None:
    """Serve a Python file over HTTP, and again whenever it changes.

    Clients keep their sessions. While the file has an error, its line is shown, and the server from before goes on.

    Usage:
        --inspector: Also start MCP Inspector with npx, which may download it.
        --messages/--no-messages: Show each request and its result, shortened and without secrets. On by default.
    """
    place = listening.place or ListenPlace(option="", kind="http", host="127.0.0.1", port=8000)
    if place.kind != "http" or not hasattr(os, "fork"):
        raise ConfigError("antiphon dev serves --http, on systems with Unix sockets; otherwise use antiphon serve")
    if inspector and shutil.which("npx") is None:
        raise ConfigError("--inspector needs Node.js, and there is no npx here")
    path, name = split_name(file)
    options = listening.options(None)
    if worker_link.VARIABLE not in os.environ:
        check_encryption("antiphon dev, which hands sessions to a new process,")
        with contextlib.ExitStack() as beside:

            def print_address(port: int) -> None:
                url = place.url(options, port)
                click.echo(f"Serving {path} at {url}. Ctrl-C ends it.", err=True)
                click.echo(f"Connect: claude mcp add -t http {path.stem} {url}", err=True)
                if inspector:
                    beside.enter_context(_run_inspector(url))

            run_loop(_serve_changing(place, path.absolute().parent, print_address))
        return
    # A file that changes twice within a second would be taken for what was compiled first.
    sys.dont_write_bytecode = True
    with contextlib.redirect_stdout(sys.stderr):
        try:
            server = find_server(load_file(path), name, str(path))
        except SystemExit as error:
            raise Failed(f"{find_line(error, path)}: SystemExit: {error}") from error
    handler = logging.StreamHandler()
    handler.addFilter(partial(_shorten_error, path))
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    if messages:
        shown = logging.getLogger("antiphon.dev")
        shown.setLevel(logging.INFO)
        server.middleware(LoggingMiddleware(shown, include_payloads=True, max_payload_length=300))
    # With more than one this process is a worker; its parent says how many there are.
    server.run("http", host=place.host, port=place.port, workers=2, **options)


async def _serve_changing(place: ListenPlace, folder: Path, greet: Callable[[int], None]) -> None:
    watch = FolderWatch(folder)
    greet_once = cache(greet)

    async def follow_changes(parent: Parent, again: asyncio.Event) -> None:
        while True:
            click.echo(f"{await watch.wait_for_change()} has changed: loading it again.", err=True)
            parent.end_starting()
            (parent.roll if parent.on_listening is None else again.set)()

    with contextlib.ExitStack() as held:
        listening = [held.enter_context(each) for each in open_sockets(place.host, place.port)]
        while True:
            again = asyncio.Event()
            # Copies, since a parent closes what it was given, and the port is held while the file has an error.
            parent = Parent(1, [each.dup() for each in listening], greet_once)
            following = asyncio.create_task(follow_changes(parent, again))
            try:
                await parent.run()
                return
            except AntiphonError:
                for number in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().remove_signal_handler(number)
            finally:
                await end_tasks(following)
            if not again.is_set():
                click.echo("It serves when the file is mended. Ctrl-C ends it.", err=True)
                await watch.wait_for_change()


class FolderWatch(FileWatch):
    """The files below a folder that people write. No links to folders are followed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.is_partial = folder, False
        super().__init__(self._list_files)
        rest = f"; the rest is not watched, beyond {_MAX_ENTRIES} entries" if self.is_partial else ""
        click.echo(f"Watching {len(self.seen)} files below {folder}{rest}.", err=True)

    def _list_files(self) -> Iterator[Path]:
        left = _MAX_ENTRIES
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [each for each in sorted(folders) if each not in TOOL_FOLDERS and not each.startswith(".")]
            yield from (Path(folder, name) for name in files[:left] if name.endswith(_SUFFIXES))
            left -= len(files) + len(folders)
            if left <= 0:
                self.is_partial = True
                break

    async def wait_for_change(self) -> str:
        """Return the name of a file that has changed, once it stays as it is."""
        while True:
            await asyncio.sleep(_LOOK)
            if changed := self.find_changes(await asyncio.to_thread(self.look)):
                return str(min(changed).relative_to(self._folder))


def _shorten_error(path: Path, record: logging.LogRecord) -> bool:
    """Log the line of the file at which an exception was raised, instead of a traceback."""
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f"\n  {find_line(error, path)}: {type(error).__name__}: {mask_text(str(error)[:_MAX_SEARCHED])}"
    record.msg, record.args, record.exc_info = make_inert(text), (), None
    return True


@contextlib.contextmanager
def _run_inspector(url: str) -> Generator[None]:
    """Run MCP Inspector until the end; if this process is killed, the guardian ends it."""
    line = ["npx", "-y", "@modelcontextprotocol/inspector", "--transport", "http", "--server-url", url]
    with GUARDIAN.starting():
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, start_new_session=True)
        GUARDIAN.watch(process.pid, 1.0)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(_GRACE)
        GUARDIAN.forget(process.pid)
