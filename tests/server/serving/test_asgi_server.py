"""Whether the server that serves us was told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from antiphon.server.serving import asgi_server
from antiphon.server.serving.asgi_server import StopWatch, told_to_stop


class Served:
    """What uvicorn's server has: a handler of signals, and a flag."""

    def __init__(self, grace: float | None = None) -> None:
        self.should_exit = False
        self.config = SimpleNamespace(timeout_graceful_shutdown=grace)

    def handle_exit(self, *_: object) -> None:
        """Be a handler of signals."""
        self.should_exit = True


@pytest.fixture
def handled() -> Iterator[None]:
    """Put the handlers of signals back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handled")
def test_a_server_that_was_told_to_stop_is_seen() -> None:
    """By the method that handles its signals, and only then."""
    server = Served()
    signal.signal(signal.SIGTERM, server.handle_exit)
    assert told_to_stop() is None
    server.should_exit = True
    assert told_to_stop() is server


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(("grace", "left"), [(None, None), (3, 2.25), (0, 0.0)])
async def test_the_application_has_what_the_server_leaves(
    grace: float | None, left: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than the server's own grace, so that it never has to cancel anything."""
    monkeypatch.setattr(asgi_server, "_LOOK", 0.01)
    server, given = Served(grace), asyncio.get_running_loop().create_future()

    async def stop(seconds: float | None) -> None:
        given.set_result(seconds)

    watch = StopWatch(stop)
    signal.signal(signal.SIGTERM, server.handle_exit)
    watch.start()
    server.should_exit = True
    async with asyncio.timeout(30):
        seconds = await given
    assert seconds == (None if left is None else pytest.approx(left, abs=0.25))
    watch.end()


async def test_a_watch_that_has_ended_looks_no_more() -> None:
    """Also where it never began."""
    watch = StopWatch(lambda _grace: asyncio.sleep(0))
    watch.end()
    watch.start()
    watch.end()
    assert watch._timer is None
