from __future__ import annotations

from antiphon.channel import Oversized
from antiphon.cli.output.progress import format_message
from tests.support.recorded import CALL, heard


async def test_lines_are_readable():
    """An arrow, what it is, its id, and a body without what every message repeats."""
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}'
    notice = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    told = await heard(error, notice, b'{"jsonrpc":"2.0","id":9,"result":{}}', b"\xff{", sent=[CALL])
    assert [format_message(message) for message in told] == [
        '→ tools/call #1  {"name":"describe","arguments":{}}',
        '← error for tools/call #1  {"code":-1,"message":"no"}',
        "← notifications/initialized",
        "← result of an unknown request #9  {}",
        "← unreadable  \ufffd{",
    ]


async def test_what_was_too_large_is_told():
    """Its bytes are gone, its size is not."""
    assert format_message((await heard(Oversized(99)))[0]) == "← unreadable  99 bytes, too many to take"


async def test_long_bodies_are_cut():
    """A line stays a line."""
    long = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"' + b"x" * 5000 + b'","requestState":"' + b"s" * 99
    [message] = await heard(long + b'"}}')
    assert len(format_message(message)) < 200
    assert '"requestState":"<99 characters>"' in format_message(message)
