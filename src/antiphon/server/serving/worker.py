"""A worker: this process serves connections that its parent has accepted, and ends when the parent does.

Also the memory settings of every process that only serves. The C library returns large blocks to the system as soon as
they are free, and each new one needs pages that must be found and cleared: a third of the time of a call with an
argument of 1 MiB. ``StopWatch`` detects that another ASGI server around us was told to stop, since uvicorn tells an
application only after every response has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from antiphon.machine.asyncio_tasks import start_in
from antiphon.replicas.engines.unix import UnixCluster
from antiphon.server.serving import worker_link

if TYPE_CHECKING:
    from antiphon.server.serving.service import Service
    from antiphon.transports.http.server.shutdown import GracefulServer

LAST = 15.0
"""Seconds that a worker has to end by itself after the process that started it is gone."""


def watch_parent(ends: worker_link.Ends) -> None:
    """End this process when its parent has ended in any way, even if the event loop here is blocked."""
    signal.signal(signal.SIGINT, _leave_to_parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_outlive_nobody, args=(ends.life,), name="parent", daemon=True).start()


def _leave_to_parent(_number: int, _frame: FrameType | None) -> None:
    """Ignore a Ctrl-C in the terminal: the parent gets it, too, and acts on it."""


def _outlive_nobody(life: socket.socket) -> None:
    with contextlib.suppress(OSError):
        life.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(LAST)
    os._exit(1)


async def serve_as_worker(service: Service, make: Callable[[], GracefulServer], ends: worker_link.Ends) -> None:
    """Serve the connections that come, until told to stop by a signal.

    ``make``: makes the network server; called after the cluster of the workers was joined, which it needs.
    """
    has_cluster = service.replicas is not None
    if not has_cluster:
        service.join(UnixCluster(ends.shared))
    link = worker_link.WorkerLink(ends.messages)
    worker = _Serving(service, make(), link, has_cluster)
    serving = asyncio.ensure_future(worker.serve())
    link.start(worker.got)
    try:
        await serving
    finally:
        link.close()


class _Serving(Struct, eq=False):
    _service: Service
    _network: GracefulServer
    _link: worker_link.WorkerLink
    _has_cluster: bool
    """Whether the program gave the server a cluster, by which replicas agree on a key."""
    _welcome: asyncio.Event = field(default_factory=asyncio.Event)
    _taking: set[asyncio.Task[None]] = set()
    _taken: int = 0
    _ended: int = 0
    _others: frozenset[str] = frozenset()
    """The workers that take connections, by their names in the cluster."""
    _leaves: bool = False

    async def serve(self) -> None:
        await self._welcome.wait()
        network = self._network
        network.on_started, network.on_look, network.give = self._report_ready, self._report, self._give
        await network.serve(sockets=[])
        for task in self._taking:
            task.cancel()

    def _report_ready(self) -> None:
        signal.signal(signal.SIGINT, _leave_to_parent)
        replicas = self._service.replicas
        assert replicas is not None
        self._link.send(worker_link.Ready(replicas.cluster.replica))

    def _report(self) -> None:
        """Report how many connections have ended, if the number has changed since the last report."""
        ended = self._taken - len(self._taking) - len(self._network.server_state.connections)
        if ended != self._ended:
            self._ended = ended
            self._link.send(worker_link.Closed(ended))

    def got(self, message: worker_link.Message, connection: socket.socket | None) -> None:
        match message:
            case worker_link.Welcome():
                if not self._has_cluster:
                    self._service.share(message.key)
                self._welcome.set()
            case worker_link.TakeConnection():
                self._taken += 1
                if connection is not None:
                    start_in(self._taking, self._take(connection, message.request))
            case worker_link.Others():
                self._others = frozenset(message.names)
            case worker_link.Leave():
                self._leaves = True
                self._network.leave(message.grace)
            case _:
                pass

    def _give(self, connection: socket.socket, request: bytes, name: str) -> bool:
        """Give a connection, through the parent, to the worker that has its session, or to any if this one leaves."""
        is_wanted = name in self._others or (self._leaves and not name)
        return is_wanted and self._link.hand_over(connection, worker_link.Move(name, request))

    async def _take(self, connection: socket.socket, request: bytes) -> None:
        try:
            await self._network.take(connection, request)
        except OSError:
            # It was closed already, or its TLS handshake failed.
            connection.close()


_YOUNG = 10_000
"""Objects allocated and not freed before the collector runs. With Python's own 700 it examines every batch of sixteen
waiting calls, finds all of them alive, and takes a twentieth of the time."""

_KEPT = 16 * 1024 * 1024
"""Bytes of free memory that are kept: several messages of 1 MiB."""

_LARGE = 4 * 1024 * 1024
"""Size in bytes from which a block is returned to the system when it is free. If such blocks were kept, a few of the
largest messages would fragment the memory."""

# Constants of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def collect_less() -> None:
    """Exclude all present objects from garbage collection (a tenth of a request's time), and run it less often.

    Call it when serving begins, since objects that exist then live as long as the process. A threshold that was raised
    or disabled by someone else is not changed.
    """
    gc.freeze()
    if 0 < gc.get_threshold()[0] < _YOUNG:
        gc.set_threshold(_YOUNG)


def keep_large_blocks() -> bool:
    """Keep up to 16 MiB of free memory for the next messages of about 1 MiB; tell whether this is possible.

    Only with glibc, and only if its settings are not in the environment, where a person has set them.
    """
    is_chosen = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
    if is_chosen or not sys.platform.startswith("linux"):
        return False
    # Imported here, because it takes milliseconds and only network servers need it.
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    # Both, because setting either one ends the library's automatic adjustment of the other.
    return bool(set_option(_TRIM_THRESHOLD, _KEPT)) and bool(set_option(_MMAP_THRESHOLD, _LARGE))


_LOOK = 0.25
"""Seconds between two checks whether the server was told to stop."""

_SPARE = 0.5
"""Seconds of the server's grace period left unused, so that the server never has to cancel anything."""


def find_stopping_server() -> object:
    """Return the server that was told to stop, or ``None``.

    A server of uvicorn's kind handles SIGTERM in a method, and then sets a flag. Other servers are not detected; nor is
    one outside of the main thread, which receives no signals.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        server = getattr(signal.getsignal(number), "__self__", None)
        if getattr(server, "should_exit", False) is True:
            return server
    return None


class StopWatch:
    """Checks whether the surrounding server was told to stop, and has the application end open responses.

    ``stop`` is called with the seconds that the server leaves for this, ``None`` if it sets no limit.
    """

    def __init__(self, stop: Callable[[float | None], Awaitable[None]]) -> None:
        self._stop = stop
        self._timer: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start checking; has no effect if it was started before."""
        if self._timer is None and self._stopping is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def end(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        server = find_stopping_server()
        if server is None:
            self.start()
        else:
            given = getattr(getattr(server, "config", None), "timeout_graceful_shutdown", None)
            # Without a number, the server waits for open requests for ever.
            grace = max(0.0, given - _LOOK - _SPARE) if isinstance(given, int | float) else None
            self._stopping = asyncio.get_running_loop().create_task(self._end(grace))

    async def _end(self, grace: float | None) -> None:
        try:
            await self._stop(grace)
        finally:
            self._stopping = None
