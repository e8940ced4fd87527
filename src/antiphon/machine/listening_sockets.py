"""Listening sockets of this machine."""

from __future__ import annotations

import contextlib
import socket


def accept_rest(listening: socket.socket) -> list[socket.socket]:
    """Accept the connections that wait at a socket, which closing would reset, and close it."""
    accepted: list[socket.socket] = []
    with listening, contextlib.suppress(OSError):
        listening.setblocking(False)
        while True:
            accepted.append(listening.accept()[0])
    return accepted
