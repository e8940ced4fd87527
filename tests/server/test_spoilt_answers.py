"""Answers of a client that break JSON, Unicode or their id: each ask gets an answer or fails at once."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, CreateMessageResult, TextContent
from tests.support.child_server import served

LEGACY = "2025-06-18"
PROGRAM = """
from antiphon import Context, Server
from antiphon.errors import AntiphonError

server = Server("s")


@server.tool
async def ask(ctx: Context) -> str:
    try:
        return "read " + (await ctx.sample("q")).text
    except AntiphonError as error:
        return type(error).__name__


if __name__ == "__main__":
    server.run()
"""
READ = {
    "float id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":%d.0' % number),
    "byte order mark": lambda number, good: b"\xef\xbb\xbf" + good,
    "half a pair": lambda number, good: good.replace(b'"x"', b'"\\ud83d"'),
    "latin-1": lambda number, good: good.replace(b'"x"', b'"\xe9"'),
    "text id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":"%d"' % number),
    "error: null": lambda number, good: good.replace(b'"result"', b'"error":null,"result"'),
    "all that it lacks: null": lambda number, good: good[:-1] + b',"method":null,"params":null}',
}
SPOILT = {
    "null id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":null'),
    "no id": lambda number, good: good.replace(b'"id":%d,' % number, b""),
    "true id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":true'),
    "list id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":[%d]' % number),
    "another id": lambda number, good: good.replace(b'"id":%d' % number, b'"id":%d77' % number),
    "NaN": lambda number, good: good.replace(b'"x"', b"NaN"),
    "raw tab": lambda number, good: good.replace(b'"x"', b'"a\tb"'),
    "cut off": lambda number, good: good[:-8],
    "no version": lambda number, good: good.replace(b'"jsonrpc":"2.0",', b""),
    "result is a text": lambda number, good: b'{"jsonrpc":"2.0","id":%d,"result":"x"}' % number,
    "error is a text": lambda number, good: b'{"jsonrpc":"2.0","id":%d,"error":"no"}' % number,
    "neither result nor error": lambda number, good: b'{"jsonrpc":"2.0","id":%d}' % number,
    "in a batch": lambda number, good: b"[" + good + b"]",
    "with a method": lambda number, good: good[:-1] + b',"method":"sampling/createMessage"}',
    "a dict of Python": lambda number, good: good.replace(b'"', b"'"),
}
FRAMED = {
    "no message": lambda number, good: b"{}",
    "error without an id": lambda number, good: b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}',
}
"""Where other code of a program may print to its output, these may be for a line that it has printed."""


async def answer(params: Any, origin: Any) -> CreateMessageResult:
    """Answer an ask."""
    return CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")


@asynccontextmanager
async def connected(transport: str, folder: Any) -> AsyncGenerator[Client]:
    """Connect to a server in a process of its own."""
    options: dict[str, Any] = {"revision": LEGACY, "timeout": 30, "sampling": answer}
    if transport == "stdio":
        (folder / "program.py").write_text(PROGRAM)
        async with Client([sys.executable, str(folder / "program.py")], **options) as client:
            yield client
        return
    async with served(PROGRAM, folder, f"--{transport}") as (_, place):
        url = {"http": f"http://{place}/mcp", "ws": f"ws://{place}/ws", "sse": f"http://{place}/sse"}[transport]
        async with Client(url, **options) as client:
            yield client


@pytest.mark.parametrize("transport", ["stdio", "http", "ws", "sse"])
async def test_an_ask_waits_for_no_deadline_when_its_answer_is_there(transport, tmp_path, monkeypatch):
    """The next ask of the session is answered as ever."""
    from antiphon.protocol import session

    frame, made = session.result_frame, [lambda number, good: good]
    monkeypatch.setattr(session, "result_frame", lambda number, result: made[-1](number, frame(number, result)))
    cases = {**READ, **SPOILT, **({} if transport == "stdio" else FRAMED)}
    if transport == "ws":
        # RFC 6455, 8.1: a text that is no UTF-8 fails the connection.
        del cases["latin-1"]
    texts: dict[str, str] = {}
    async with connected(transport, tmp_path) as client:
        for how, spoil in cases.items():
            made.append(spoil)
            texts[how] = (await client.call_tool("ask")).text
        made.append(made[0])
        assert (await client.call_tool("ask")).text == "read x"
    failed = {
        how: text
        for how, text in texts.items()
        if text in ("RemoteProtocolError", "InvalidRequest", "ParseError", "PeerError")
    }
    replaced = {"half a pair": "read \ufffd", "latin-1": "read \ufffd"}
    assert texts == {**{how: replaced.get(how, "read x") for how in READ if how in cases}, **failed}
    assert failed.keys() == cases.keys() - READ.keys()
