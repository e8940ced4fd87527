"""A worker: this process serves connections that its parent has accepted, and ends when the parent does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from antiphon.machine.asyncio_tasks import start_in
from antiphon.server.serving.worker_link import (
    Closed,
    Ends,
    Leave,
    Link,
    Message,
    Move,
    Others,
    Ready,
    Take,
    Welcome,
)
from antiphon.transports.cluster.unix import UnixCluster

if TYPE_CHECKING:
    from antiphon.server.serving.service import Service
    from antiphon.transports.http.server.shutdown import GracefulServer

__all__ = ["LAST", "serve_as_worker", "watch_parent"]

LAST = 15.0
"""Seconds that a worker has to end by itself after the process that started it is gone."""


def watch_parent(ends: Ends) -> None:
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


async def serve_as_worker(service: Service, make: Callable[[], GracefulServer], ends: Ends) -> None:
    """Serve the connections that come, until told to stop by a signal.

    ``make``: makes the network server; called after the cluster of the workers was joined, which it needs.
    """
    has_cluster = service.replicas is not None
    if not has_cluster:
        service.join(UnixCluster(ends.shared))
    link = Link(ends.messages)
    worker = _Serving(service, make(), link, has_cluster=has_cluster)
    serving = asyncio.ensure_future(worker.serve())
    link.start(worker.got, lambda: None)
    try:
        await serving
    finally:
        link.close()


class _Serving:
    def __init__(self, service: Service, network: GracefulServer, link: Link, *, has_cluster: bool) -> None:
        self._service = service
        self._network = network
        self._link = link
        self._has_cluster = has_cluster
        """Whether the program gave the server a cluster, by which replicas agree on a key."""
        self._welcome = asyncio.Event()
        self._taking: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._ended = 0
        self._others: frozenset[str] = frozenset()
        """The workers that take connections, by their names in the cluster."""
        self._leaves = False

    async def serve(self) -> None:
        await self._welcome.wait()
        network = self._network
        network.on_started, network.on_look, network.give = self._started, self._report, self._give
        await network.serve(sockets=[])
        for task in self._taking:
            task.cancel()

    def _started(self) -> None:
        signal.signal(signal.SIGINT, _leave_to_parent)
        replicas = self._service.replicas
        assert replicas is not None
        self._link.send(Ready(replicas.own_name))

    def _report(self) -> None:
        """Report how many connections have ended, if the number has changed since the last report."""
        ended = self._taken - len(self._taking) - len(self._network.server_state.connections)
        if ended != self._ended:
            self._ended = ended
            self._link.send(Closed(ended))

    def got(self, message: Message, connection: socket.socket | None) -> None:
        match message:
            case Welcome():
                if not self._has_cluster:
                    self._service.share(message.key)
                self._welcome.set()
            case Take() if connection is not None:
                self._taken += 1
                start_in(self._taking, self._take(connection, message.request))
            case Others():
                self._others = frozenset(message.replicas)
            case Leave():
                self._leaves = True
                self._network.leave(message.grace)
            case _:
                pass

    def _give(self, connection: socket.socket, request: bytes, replica: str) -> bool:
        """Give a connection, through the parent, to the worker that has its session, or to any if this one leaves."""
        is_wanted = replica in self._others or (self._leaves and not replica)
        return is_wanted and self._link.hand_over(connection, Move(replica, request))

    async def _take(self, connection: socket.socket, request: bytes) -> None:
        try:
            await self._network.take(connection, request)
        except OSError:
            # It was closed already, or its TLS handshake failed.
            connection.close()
