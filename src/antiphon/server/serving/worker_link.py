"""The link between a parent and one of its workers: messages, and connections to serve.

Made before the worker, which inherits one end. A second pair of sockets only tells whether the other process lives: the
system closes its end when it dies in any way, and a thread notices that even if the event loop is blocked.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError

VARIABLE = "ANTIPHON_WORKER"
"""Environment variable with the numbers of the file descriptors that connect a worker to its parent; not secret."""

_HEAD = 4
_MAX = 64 * 1024
_FILES = 16
"""Most connections that are received at once."""


class Welcome(Struct, frozen=True, tag=True):
    """The first message to a worker."""

    key: bytes
    """Seals request states if the program has no keys of its own."""


class TakeConnection(Struct, frozen=True, tag=True):
    """A connection to serve comes with this message."""

    request: bytes = b""
    """What another worker has read from it: a request without an answer, or nothing."""


class Move(Struct, frozen=True, tag=True):
    """A connection for another worker comes with this message."""

    name: str
    """Name of that worker in the cluster; empty for any."""
    request: bytes
    """What was read from it: a request without an answer, or nothing."""


class Ready(Struct, frozen=True, tag=True):
    """The worker serves from now on."""

    name: str
    """Its name in the cluster."""


class Others(Struct, frozen=True, tag=True):
    """Which workers take connections now."""

    names: list[str]
    """Their names in the cluster."""


class Leave(Struct, frozen=True, tag=True):
    """The worker was replaced: it gives its connections back, and ends."""

    grace: float
    """Seconds that its open requests have."""


class Closed(Struct, frozen=True, tag=True):
    """How many of the connections that a worker was given have ended so far."""

    count: int


Message = Welcome | TakeConnection | Move | Ready | Others | Leave | Closed

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


class WorkerLink:
    """One end of a link. Nothing is awaited: messages are few and small, and a connection may be refused."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._buffer = bytearray()
        self._files: deque[int] = deque()
        self._unsent = bytearray()
        self._reading = False

    def start(self, got: Callable[[Message, socket.socket | None], object]) -> None:
        """Call ``got`` for each message from now on, with its connection if it has one and there was room for it."""
        self._reading = True
        asyncio.get_running_loop().add_reader(self._end.fileno(), self._receive_messages, got)

    def send(self, message: Message) -> None:
        """Send a message; if there is no room, keep it and those after it in memory until there is."""
        data = _encode(message)
        self._unsent += len(data).to_bytes(_HEAD, "big") + data
        if len(self._unsent) == _HEAD + len(data):
            self._write()

    def hand_over(self, connection: socket.socket, message: TakeConnection | Move) -> bool:
        """Send a connection with its message; return ``False`` if the other end has no room for it now."""
        if self._unsent:
            return False
        data = _encode(message)
        frame = len(data).to_bytes(_HEAD, "big") + data
        try:
            sent = socket.send_fds(self._end, [frame], [connection.fileno()])
        except OSError:
            return False
        if sent < len(frame):
            self._unsent += frame[sent:]
            self._await_room()
        return True

    def close(self) -> None:
        """Close this end."""
        if self._end.fileno() >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._end.fileno())
            loop.remove_writer(self._end.fileno())
        self._end.close()
        while self._files:
            os.close(self._files.popleft())

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            sent = self._end.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The other end is gone, which the reader notices.
            self._unsent.clear()
            sent = 0
        del self._unsent[:sent]
        if self._unsent:
            self._await_room()
        elif self._end.fileno() >= 0:
            loop.remove_writer(self._end.fileno())

    def _await_room(self) -> None:
        asyncio.get_running_loop().add_writer(self._end.fileno(), self._write)

    def _receive_messages(self, got: Callable[[Message, socket.socket | None], object]) -> None:
        try:
            data, files, _, _ = socket.recv_fds(self._end, _MAX, _FILES)
        except BlockingIOError:
            return
        except OSError:
            data, files = b"", []
        self._files += files
        if not data:
            asyncio.get_running_loop().remove_reader(self._end.fileno())
            return
        self._buffer += data
        for message in self._complete():
            connection = None
            # The system drops a connection that comes while too many files are open here.
            if isinstance(message, TakeConnection | Move) and self._files:
                connection = socket.socket(fileno=self._files.popleft())
            got(message, connection)

    def _complete(self) -> Sequence[Message]:
        """Remove and return the complete messages that have arrived."""
        found: list[Message] = []
        start = 0
        while len(self._buffer) - start >= _HEAD:
            end = start + _HEAD + int.from_bytes(self._buffer[start : start + _HEAD], "big")
            if len(self._buffer) < end:
                break
            found.append(_decode(self._buffer[start + _HEAD : end]))
            start = end
        del self._buffer[:start]
        return found


class Ends(Struct, frozen=True):
    """The worker's ends of a link."""

    messages: socket.socket
    life: socket.socket
    shared: socket.socket
    """Connects to the state that the workers share (``UnixCluster``)."""


def take_inherited_ends() -> Ends | None:
    """Return the ends that this process has inherited; ``None`` if it is no worker. Its child processes inherit none.

    Raises ``ConfigError``: the variable is set, but its descriptors are not open.
    """
    said = os.environ.pop(VARIABLE, None)
    if said is None:
        return None
    try:
        return Ends(*[_open_socket(int(number)) for number in said.split(",")])
    except (ValueError, OSError, TypeError):
        raise ConfigError(f"{VARIABLE} is set by the server that starts workers; do not set it yourself") from None


def _open_socket(number: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise ValueError
    os.set_inheritable(number, False)
    return socket.socket(fileno=number)
