"""Bodies of requests: which are decoded, and what large ones cost everybody else."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from antiphon.model_api import body
from antiphon.model_api.body import MAX_VALUES, examine, read_json
from antiphon.model_api.dialects.failures import Failure
from antiphon.transports.http.server.asgi import AsgiHttp, Http

JSON = (b"content-type", b"application/json")


def sent(raw: bytes, *headers: tuple[bytes, bytes]) -> Http:
    """Make a request whose body comes at once."""
    parts = [{"type": "http.request", "body": raw}]

    async def receive():
        return parts.pop()

    async def send(message):
        raise AssertionError("nothing is sent")

    scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": [JSON, *headers]}
    return AsgiHttp(scope, receive, send)


async def test_body_is_decoded_and_hashed():
    """A large one by other ways, with the same result; a retry has the same hash."""
    for text in ("short, [with] {signs}", "long, [with] {signs} and \\" * 40_000):
        raw = msgspec.json.encode({"text": text})
        read = await read_json(sent(raw))
        assert read.members == {"text": text}
        assert read.digest == hashlib.sha256(b"/v1/x" + raw).digest() == (await read_json(sent(raw))).digest


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100 + b"]" * 100,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":[' + b"[0]," * 100_000 + b"0]}",
        b'{"a":[' + b"0," * (MAX_VALUES + 1) + b"0]}",
        b'{"a":"' + b'","b":"' * 100_000 + b'"}',
        b'{"a":["' + b"\\" * 100_000,
        b"\xff" * 100_000,
        b"",
        b"7",
    ],
    ids=["deep", "large and deep", "many arrays", "many numbers", "many members", "unending", "binary", "none", "bare"],
)
async def test_body_beyond_its_bounds_is_refused(raw: bytes):
    """Before it is decoded, or because it is no object of JSON."""
    with pytest.raises(Failure) as refused:
        await read_json(sent(raw))
    assert refused.value.status == 400


async def test_many_signs_in_a_text_are_no_values():
    """A text of commas and brackets costs no more than any other."""
    raw = msgspec.json.encode({"text": ',[{"\\' * 200_000})
    assert (await read_json(sent(raw))).members["text"].startswith(',[{"')
    assert examine(raw) == b""


async def test_large_body_is_examined_while_others_run(monkeypatch: pytest.MonkeyPatch):
    """Its values are counted in another process: here it is neither searched nor decoded before that."""
    ours = asyncio.Event()
    aside = body.run_aside

    async def slow(work, payload):
        assert work is examine
        await ours.wait()
        return await aside(work, payload)

    monkeypatch.setattr(body, "run_aside", slow)
    reading = asyncio.create_task(read_json(sent(b'{"a":[' + b"{}," * 500_000 + b"0]}")))
    small = await read_json(sent(b'{"b":1}'))
    assert (small.members, reading.done()) == ({"b": 1}, False)
    ours.set()
    with pytest.raises(Failure, match="holds too much"):
        await reading


async def test_body_that_cannot_be_examined_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Too much other work waits: the program is told, and nothing is decoded unseen."""

    async def busy(work, payload):
        raise body.TooCostly("too much")

    monkeypatch.setattr(body, "run_aside", busy)
    with pytest.raises(Failure):
        await read_json(sent(b'{"a":[' + b"0," * 100_000 + b"0]}"))
