"""How connections read requests: one by one or together, in pieces, with the same head again; and how they end."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from antiphon.transports.http.server.connections import BoundedConnection


class Transport(asyncio.Transport):
    """What lies under a connection."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def connect(app):
    """Make a connection to an application, and what lies under it."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, proxy_headers=False)
    config.load()
    made = BoundedConnection(config, ServerState(), {"of": "the application"})
    made.connection_made(Transport())
    return made, made.transport


def post(body=b"", *lines, version=b"1.1"):
    """Write a request."""
    head = b"\r\n".join([b"POST /a HTTP/" + version, b"Host: a", *lines, b"Content-Length: %d" % len(body)])
    return head + b"\r\n\r\n" + body


async def seen_of(*pieces):
    """Send bytes in these pieces; return what the application sees of each request."""
    seen = []

    async def app(scope, receive, send):
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        seen.append((scope, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    connection, _ = connect(app)
    for piece in pieces:
        connection.data_received(piece)
        for _ in range(10):
            await asyncio.sleep(0)
    assert not connection.tasks
    return seen


FIRST = post(b"first", b"X: 1")


@pytest.mark.parametrize(
    "following",
    [
        post(b"first", b"X: 1"),
        post(b"a longer body", b"X: 1"),
        post(b"", b"X: 1"),
        post(b"first", b"X: 2"),
        post(b"first"),
        post(b"first", b"X: 1", version=b"1.0"),
        post(b"first", b"X: 1", b"Connection: close"),
        b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n" + post(b"first", b"X: 1"),
    ],
)
async def test_what_a_request_says_does_not_depend_on_the_one_before(following):
    """Each head is parsed, however like the one before it is."""
    (alone,) = await seen_of(following)
    _, after_another = await seen_of(FIRST, following)
    assert after_another == alone


@pytest.mark.parametrize("cut", range(1, len(FIRST)))
async def test_a_request_that_comes_in_pieces_is_the_same(cut):
    """Wherever it is cut."""
    again = await seen_of(FIRST, FIRST[:cut], FIRST[cut:], FIRST)
    assert again == [again[0]] * 3


async def test_requests_in_one_piece_are_parsed():
    """One head does not stand for two."""
    again = await seen_of(FIRST, FIRST + FIRST, FIRST)
    assert again == [again[0]] * 4


@pytest.mark.parametrize("pieces", [1, 2, 7])
async def test_a_request_that_offers_http_2_keeps_its_body(pieces):
    """Clients in Java and Kotlin offer it with each first request; a server that has only HTTP/1.1 ignores it."""
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAAB")
    body = b"a\r\nupgrade: h2c\r\nb"
    head, gap, rest = post(body, *offer).partition(b"\r\n\r\n")
    size = -(-len(rest) // pieces)
    (seen,) = await seen_of(*[(head + gap, b"")[at > 0] + rest[at : at + size] for at in range(0, len(rest), size)])
    assert seen[1] == body
    chunked = head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked") + gap
    first, second = await seen_of(chunked, b"3\r\nabc\r\n", b"0\r\n\r\n", FIRST)
    assert (first[1], second[1]) == (b"abc", b"first")


async def test_what_is_no_request_is_refused():
    """By the parser."""
    connection, transport = connect(None)
    connection.data_received(b"POST / HTTP/1.1\r\nHost a\r\n\r\n")
    assert transport.written.startswith(b"HTTP/1.1 400 ") and transport.closed


async def test_each_request_has_its_own_headers_and_state():
    """What an application does to them is its own affair."""
    first, second = await seen_of(FIRST, FIRST)
    for name in ("headers", "state"):
        assert first[0][name] is not second[0][name]


async def test_whoever_serves_a_client_that_left_learns_it_though_more_was_asked():
    """With pipelined requests, too: a stream that is carried to nobody would be carried for ever."""
    seen = []

    async def app(scope, receive, send):
        while True:
            message = await receive()
            seen.append(message["type"])
            if message["type"] == "http.disconnect":
                return

    connection, _ = connect(app)
    connection.data_received(FIRST + FIRST)
    connection.data_received(FIRST)
    tasks = list(connection.tasks)
    await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.gather(*tasks)
    assert seen == ["http.request", "http.disconnect"]
    assert not connection.tasks


async def test_a_task_that_is_done_at_once_is_not_kept():
    """As an eager one may be."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    class Done:
        def done(self):
            return True

    def run_at_once(work):
        with pytest.raises(StopIteration):
            work.send(None)
        return Done()

    connection, transport = connect(app)
    connection.loop = type("Loop", (), {"create_task": staticmethod(run_at_once)})
    connection.data_received(FIRST)
    assert not connection.tasks and transport.written.startswith(b"HTTP/1.1 200 ")
