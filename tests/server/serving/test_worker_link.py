"""The link to a worker: messages whole and in order, and connections with them."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncGenerator

import pytest

from antiphon import ConfigError
from antiphon.server.serving.worker_link import (
    VARIABLE,
    Closed,
    Message,
    Ready,
    TakeConnection,
    Welcome,
    WorkerLink,
    take_inherited_ends,
)
from tests.support.linked import settle


class Bench:
    """Both ends of a link, and what has come to one of them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.near, self.far = WorkerLink(ours), WorkerLink(theirs)
        self.got: asyncio.Queue[tuple[Message, socket.socket | None]] = asyncio.Queue()

    def listen(self) -> None:
        """Take what comes."""
        self.far.start(lambda message, connection: self.got.put_nowait((message, connection)))


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    """Make a link, and close it at the end."""
    made = Bench()
    yield made
    made.near.close()
    made.far.close()


async def test_messages_and_connections_come_in_order(bench: Bench) -> None:
    """A connection is the one that was handed over, whatever was sent around it."""
    bench.listen()
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        bench.near.send(Welcome(b"k" * 32))
        with accepted:
            assert bench.near.hand_over(accepted, TakeConnection(b"GET"))
        bench.near.send(Closed(3))
        async with asyncio.timeout(30):
            (first, _), (second, taken), (third, _) = [await bench.got.get() for _ in range(3)]
        assert (first, second, third) == (Welcome(b"k" * 32), TakeConnection(b"GET"), Closed(3))
        assert taken is not None
        with taken:
            taken.send(b"hi")
            assert client.recv(2) == b"hi"


async def test_a_connection_that_this_process_has_no_room_for_costs_no_other_message(bench: Bench) -> None:
    """It comes without its connection, so that it is counted as ended."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as any_socket:
        bench.near.send(Closed(1))
        assert bench.near.hand_over(any_socket, TakeConnection())
        bench.near.send(Closed(2))
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
        try:
            bench.listen()
            async with asyncio.timeout(30):
                got = [await bench.got.get() for _ in range(3)]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert got == [(Closed(1), None), (TakeConnection(), None), (Closed(2), None)]


async def test_what_is_not_read_waits(bench: Bench) -> None:
    """A worker that is held up gets no connections, and misses no message."""
    count = 0
    while not bench.near._unsent:
        bench.near.send(Closed(count))
        count += 1
    bench.near.send(Ready("one"))
    with socket.create_server(("127.0.0.1", 0)) as any_socket:
        assert not bench.near.hand_over(any_socket, TakeConnection())
    bench.listen()
    async with asyncio.timeout(30):
        messages = [(await bench.got.get())[0] for _ in range(count + 1)]
    assert messages == [*(Closed(each) for each in range(count)), Ready("one")]


async def test_the_end_of_the_other_side_is_no_message(bench: Bench) -> None:
    """What reads is stopped by it, and may be closed twice after it."""
    bench.listen()
    bench.near.close()
    await settle()
    assert not asyncio.get_running_loop().remove_reader(bench.far._end.fileno())
    bench.far.close()
    bench.far.close()
    assert bench.got.empty()


@pytest.mark.parametrize("value", ["", "1", "a,b", "99998,99999"])
def test_a_variable_that_names_no_link_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has set it by hand."""
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ConfigError, match=f"{VARIABLE} is set by the server that starts workers"):
        take_inherited_ends()
    assert VARIABLE not in os.environ


def test_who_was_started_by_nobody_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment says so."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert take_inherited_ends() is None
