"""Bodies of requests: which are decoded, and what large ones cost everybody else."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from antiphon.host import Host
from antiphon.host.checks.redact import Redaction
from antiphon.host.review.review import Deny
from antiphon.model_api import endpoint
from antiphon.model_api.dialects.asked import Failure
from antiphon.model_api.endpoint import MAX_VALUES, App, examine_json, read_json
from antiphon.model_api.model_calls import Tokens
from antiphon.transports.http.server.asgi import Http
from tests.host.asks import approve
from tests.model_api.served import Slow, asked, door, who

JSON = (b"content-type", b"application/json")

BODY = b'{"model": "m", "stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}'


def sent(raw: bytes, *headers: tuple[bytes, bytes]) -> Http:
    """Make a request whose body comes at once."""
    parts = [{"type": "http.request", "body": raw}]

    async def receive():
        return parts.pop()

    async def send(message):
        raise AssertionError("nothing is sent")

    scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": [JSON, *headers]}
    return Http(scope, receive, send)


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
    assert examine_json(raw) == b""


async def test_large_body_is_examined_while_others_run(monkeypatch: pytest.MonkeyPatch):
    """Its values are counted in another process: here it is neither searched nor decoded before that."""
    ours = asyncio.Event()
    aside = endpoint.run_aside

    async def slow(work, payload):
        assert work is examine_json
        await ours.wait()
        return await aside(work, payload)

    monkeypatch.setattr(endpoint, "run_aside", slow)
    reading = asyncio.create_task(read_json(sent(b'{"a":[' + b"{}," * 500_000 + b"0]}")))
    small = await read_json(sent(b'{"b":1}'))
    assert (small.members, reading.done()) == ({"b": 1}, False)
    ours.set()
    with pytest.raises(Failure, match="holds too much"):
        await reading


async def test_body_that_cannot_be_examined_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Too much other work waits: the program is told, and nothing is decoded unseen."""

    async def busy(work, payload):
        raise endpoint.TooCostly("too much")

    monkeypatch.setattr(endpoint, "run_aside", busy)
    with pytest.raises(Failure):
        await read_json(sent(b'{"a":[' + b"0," * 100_000 + b"0]}"))


class Thinker:
    """A person who decides when told to."""

    available = True

    def __init__(self, decision) -> None:
        self.decides = asyncio.Event()
        self._decision = decision

    async def review(self, item):
        await self.decides.wait()
        return self._decision(item)


async def streamed(host: Host, path: str, seen) -> bytes:
    """Serve one request for a stream, without a network and without patience; ``seen`` gets each part."""
    tokens = Tokens()
    text, _ = tokens.issue(who)
    app = App(host, tokens, ["here"], keep_alive=0.0)
    headers = [(b"host", b"here"), (b"x-api-key", text.encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    sent: list[bytes] = []
    bodies = [{"type": "http.request", "body": BODY}]

    async def receive():
        if bodies:
            return bodies.pop()
        await asyncio.Event().wait()
        return None

    async def send(message):
        sent.append(message.get("body", b""))
        seen(sent[-1])

    await app(scope, receive, send)
    return b"".join(sent)


@pytest.mark.parametrize(
    ("path", "sign", "end"),
    [
        ("/v1/chat/completions", b": keep-alive\n\n", b"data: [DONE]\n\n"),
        ("/v1/messages", b"event: ping\n", b"event: message_stop\n"),
    ],
)
async def test_stream_lives_while_a_person_thinks(path: str, sign: bytes, end: bytes):
    """Signs of life come before the answer begins, in the vendor's own form."""
    person = Thinker(approve)
    sent = await streamed(
        Host("echo", reviewer=person), path, lambda part: person.decides.set() if part == sign or sign in part else None
    )
    assert sent.index(sign) < sent.index(b"[echo] hello") < sent.index(end)


async def test_refusal_after_a_sign_of_life_is_an_error_inside_the_stream():
    """The status was sent long ago: the client raises what the event says."""
    person = Thinker(lambda item: Deny(reason="no"))
    host = Host("echo", reviewer=person)
    sent = await streamed(host, "/v1/chat/completions", lambda part: person.decides.set() if part else None)
    assert sent.endswith(b"\n\n")
    assert b'"code":"refused_user"' in sent
    assert b"no" not in sent.partition(b"refused_user")[2]


async def test_refusal_before_anything_was_sent_has_its_status():
    """A stream that never began is refused as any request is."""
    import openai

    async with door(Host("echo", reviewer=None)) as here, here.openai() as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(**asked(stream=True))


async def test_secret_in_a_flowing_answer_is_masked():
    """What flows is masked as the whole answer would be, wherever its pieces are cut."""
    provider = Slow()
    host = Host(provider, review="never", redaction=Redaction(response="mask"))
    async with door(host) as here, here.openai() as client:
        key = "sk-proj-" + "a1B2c3D4e5F6" * 4
        for piece in ("The key is ", key[:20], key[20:], " and so it is that we go on and on.", None):
            provider.pieces.put_nowait(piece)
        stream = await client.chat.completions.create(**asked(stream=True))
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert key[:20] not in said
    assert said.endswith(" and so it is that we go on and on.")


async def test_answer_with_a_secret_is_held_where_secrets_are_blocked():
    """Where a secret blocks an answer nothing of it may flow, because nobody knows yet what will come."""
    import openai

    provider = Slow()
    host = Host(provider, review="never", redaction=Redaction(response="block"))
    async with door(host) as here, here.openai() as client:
        for piece in ("A long beginning that is harmless by itself ", "sk-proj-" + "a1B2c3D4e5F6" * 4, None):
            provider.pieces.put_nowait(piece)
        with pytest.raises(openai.PermissionDeniedError) as refused:
            await client.chat.completions.create(**asked(stream=True))
    assert refused.value.code == "refused_secret"
