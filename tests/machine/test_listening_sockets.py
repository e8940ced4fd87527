"""Sockets that stop listening."""

from __future__ import annotations

import socket

import pytest

from antiphon.machine.listening_sockets import accept_rest


def test_connections_that_wait_are_accepted_and_no_others():
    """They have all that was sent; whoever comes later is refused."""
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    clients = [socket.create_connection(address) for _ in range(3)]
    for client in clients:
        client.sendall(b"here")
    accepted = accept_rest(listening)
    assert [each.recv(4) for each in accepted] == [b"here"] * 3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    for each in (*accepted, *clients):
        each.close()
