"""Listening sockets of this machine."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["accept_rest"]


def accept_rest(listening: socket.socket) -> list[socket.socket]:
    """Close a listening socket, after accepting the connections that wait there.

    Closing it alone would reset them, with the requests that they have brought.
    """
    accepted: list[socket.socket] = []
    with listening, contextlib.suppress(OSError):
        listening.setblocking(False)
        while True:
            accepted.append(listening.accept()[0])
    return accepted
