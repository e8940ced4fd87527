"""What a person is told whose server hangs up, or answers with what is no HTTP: our words, no library's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon import Client
from antiphon.errors import AntiphonError

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CUTS = {
    "at once": b"",
    "no HTTP": b"PEER-TEXT\r\n\r\n",
    "within the head": b"HTTP/1.1 200 OK\r\nContent-",
    "within the body": JSON + b'content-length: 100\r\n\r\n{"json',
    "no length": JSON + b"content-length: PEER-TEXT\r\n\r\n{}",
    "no chunk": JSON + b"transfer-encoding: chunked\r\n\r\nPEER-TEXT\r\n{}",
    "no compression": JSON + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "a header too long": b"HTTP/1.1 200 OK\r\nx: " + b"PEER-TEXT" * 10_000 + b"\r\n\r\n",
    "within an event": b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata:",
}

INTERNALS = re.compile(
    r"PEER-TEXT|aiohttp|yarl|asyncio|Expected HTTP/|when reading|Invalid character|message=|b'|<\w+|\n|\[Errno|"
    r"Client\w*Error|ServerDisconnected|Payload|object at"
)
"""Marks of what aiohttp, its parser and Python say of themselves, and of what the peer has sent."""


@asynccontextmanager
async def cutting_off(answer: bytes) -> AsyncIterator[int]:
    """Serve on a port: every connection gets these bytes and is closed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if answer:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/mcp", "ws://127.0.0.1:{}/mcp"])
async def test_a_cut_connection_is_reported_in_our_words(address: str, cut: str) -> None:
    """On one line, with the address, and without the name, the words or the objects of a library."""
    async with cutting_off(CUTS[cut]) as port:
        with pytest.raises(AntiphonError) as raised:
            async with Client(address.format(port), timeout=30) as client:
                await client.list_tools()
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert INTERNALS.findall(str(raised.value)) == []
