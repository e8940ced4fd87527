"""Running a server over a transport: combines channel, connection and event loop.

Imported only when a server is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from antiphon.errors import ConfigError
from antiphon.server.serving.worker import collect_less, keep_large_blocks
from antiphon.transports.stdio.reaper import MARK

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from antiphon.channel import Channel
    from antiphon.server.serving.network import ServeOptions
    from antiphon.server.serving.service import Service

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD") if hasattr(signal, name)]
"""The signals that servers, event loops and our own processes handle."""

_before: list[Mapping[Any, Any]] = []
"""The handlers before each server that runs in this process."""


@contextlib.contextmanager
def guard_children() -> Generator[None]:
    """Guard the children that are forked meanwhile. Enter it before the event loop sets its handlers.

    A terminal that is closed (SIGHUP) ends the server as SIGTERM does, unless the program ignores that (nohup).
    """
    before, hangup = {number: signal.getsignal(number) for number in _SIGNALS}, getattr(signal, "SIGHUP", None)
    _before.append(before)
    is_default = before.get(hangup) is signal.SIG_DFL and threading.current_thread() is threading.main_thread()
    if is_default and hangup is not None:
        signal.signal(hangup, lambda _number, _frame: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        _before.pop()
        if is_default and hangup is not None:
            signal.signal(hangup, signal.SIG_DFL)


_masks = threading.local()
"""The signal mask of a thread before its fork: signals wait until a child has undone the handlers.

The child would otherwise answer an early signal as its parent does, or wake the event loop of its parent by the
descriptor that both have."""


def _hold_signals() -> None:
    if _before:
        _masks.held = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _release_signals() -> None:
    if (held := _masks.__dict__.pop("held", None)) is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _begin_child() -> None:
    """Undo in a child what the server has set."""
    if _before:
        with contextlib.suppress(ValueError):
            # Not possible outside of the main interpreter, which then has set nothing.
            signal.set_wakeup_fd(-1)
            for number, handler in _before[0].items():
                if callable(signal.getsignal(number)) and signal.getsignal(number) is not handler:
                    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        _before.clear()
    _release_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_begin_child)

MAX_WORKERS = 256
"""Most processes of one server: more than a machine has cores."""


def run_server(service: Service, transport: str, host: str, port: int, options: ServeOptions, workers: int = 1) -> None:
    """Run a server until it ends. See ``Server.run``."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ConfigError(
            "run() starts an event loop of its own, and one is running here already: call it from plain code, or "
            "`async with server.listen() as url`, or serve `server.asgi()` with an ASGI server"
        )
    if workers.__class__ is not int or not 1 <= workers <= MAX_WORKERS:
        raise ConfigError(f"workers= is a number from 1 to {MAX_WORKERS}, not {workers!r}")
    if workers > 1 and threading.current_thread() is not threading.main_thread():
        raise ConfigError("workers= needs the main thread, which gets the signals to stop: call run() there")
    if transport == "stdio":
        _check_stdio_options(host=host, port=port, workers=workers, **options)
        if os.isatty(0):
            hint = f" To try it: antiphon dev {sys.argv[0]}" if sys.argv[0].endswith(".py") else ""
            sys.stderr.write(f"{service.core.name!r} waits for a client over stdio. Ctrl-C ends it.{hint}\n")
        serving = serve_stdio(service)
    else:
        if is_stdio_child():
            raise ConfigError(
                f"a client has started this program to speak over stdio, but it would serve {transport}: start it by "
                "itself, and give its URL to the client; or call server.run()"
            )
        from antiphon.server.serving.network import serve_network, serve_with_workers

        keep_large_blocks()
        serving = (
            serve_network(service, transport, host, port, options)
            if workers == 1
            else serve_with_workers(service, transport, host, port, options, workers)
        )
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError), guard_children():
        run_loop(serving)


def _check_stdio_options(**given: object) -> None:
    usual = {"host": "127.0.0.1", "port": 8000, "workers": 1}
    for name, value in given.items():
        if value != usual.get(name):
            raise ConfigError(f"{name}= is for a network, not for stdio: write server.run('http', {name}=...)")


def is_stdio_child() -> bool:
    """Return whether a client of this library has started this very process, and speaks to it over its streams."""
    if MARK not in os.environ or sys.platform == "win32":
        return False
    # What the child itself starts inherits the mark, but does not lead a session that reads from a pipe.
    return os.getsid(0) == os.getpid() and all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (0, 1))


async def serve_stdio(service: Service) -> None:
    """Serve the parent process over standard input and output until it ends."""
    from antiphon.transports.stdio.server import StdioServerChannel

    channel = await StdioServerChannel.open()
    collect_less()
    serving = asyncio.current_task()
    if serving is not None and sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        await service.serve(_Lent(channel))
    finally:
        await channel.close()


class _Lent:
    """A channel that stays open when its connection is closed.

    While the lifespan ends, standard output still belongs to the protocol, and ``print`` writes to standard error.
    """

    def __init__(self, channel: Channel) -> None:
        self.receive = channel.receive
        self.send = channel.send
        self.closed_error = channel.closed_error
        self.network = "pipe"

    async def close(self) -> None:
        """Do nothing: the owner closes it."""


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed, which takes half the time for a message through pipes."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
