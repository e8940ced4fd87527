"""A port for a program that is told at which one to listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Find a port of loopback that is free, and that the system gives to nobody who asks for any port.

    A connection has just ended there, and is remembered for a minute (TIME_WAIT): until then the port is only for who
    names it. Without that another test, or a client's end of a connection, may have it before the program starts.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
        with socket.create_connection(place) as near:
            far, _ = listening.accept()
            # Whoever closes first remembers.
            far.close()
            near.recv(1)
        return place[1]
