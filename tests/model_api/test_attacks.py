"""What a hostile program, or one that dies, could do at the endpoint: money, memory, connections and secrets."""

from __future__ import annotations

import asyncio
import logging
import os
from decimal import Decimal
from pathlib import Path

import httpx
import msgspec
import pytest

from antiphon.host import Budget, Cap, Host, Limits, ModelPrice, open_store
from antiphon.host.budget import input_estimate, worst_case
from antiphon.host.models.selection import Chosen
from antiphon.host.providers.base import Completion
from antiphon.model_api import endpoint
from antiphon.model_api import endpoint as model_api_body
from antiphon.model_api.dialects.openai import Chat
from antiphon.model_api.model_calls import MAX_OPEN
from antiphon.transports.http.server import connections
from antiphon.wire.sampling import text_answer
from tests.model_api.served import Slow, asked, door

CHAT = "/v1/chat/completions"
PRICE = ModelPrice(input=Decimal(3), output=Decimal(15))


class Greedy:
    """Takes all that it may."""

    name = "greedy"
    tools = True
    personal = False

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        return Completion(result=text_answer("ok", "m"), usage=worst_case(params))


async def test_fifty_calls_at_once_never_overspend_by_one_cent(tmp_path: Path):
    """Of fifty, as many are answered as the budget pays for, and nothing stays reserved."""
    params = Chat.read(asked(max_tokens=100), offers_tools=True).params
    one = 3_000 * input_estimate(params) + 15_000 * 100
    cap = 20 * one + one // 2
    store = open_store(str(tmp_path / "host.db"))
    host = Host(
        Greedy(),
        review="never",
        store=store,
        limits=Limits(concurrent=None, per_minute=None),
        budget=Budget(total=Cap(money=cap), call=Cap()),
        choose=lambda params, origin, left: Chosen(prices={None: PRICE}),
    )
    async with door(host) as here, here.plain({"x-stainless-retry-count": "0"}) as client:
        tasks = [asyncio.create_task(client.post(CHAT, json=asked(max_tokens=100))) for _ in range(50)]
        statuses = [(await task).status_code for task in tasks]
    (total,) = await store.balances_of(["total"])
    await store.aclose()
    assert (statuses.count(200), statuses.count(429)) == (20, 30)
    assert (total.spent.money, total.held.money) == (20 * one, 0)


async def test_open_streams_of_one_program_are_bounded():
    """More than it may have open are refused, whatever else it does; the others go on."""
    provider = Slow()
    host = Host(provider, review="never", limits=Limits(concurrent=None, per_minute=None))
    async with door(host) as here, here.plain() as client:
        body = asked(stream=True)
        tasks = [asyncio.create_task(client.post(CHAT, json=body)) for _ in range(MAX_OPEN + 6)]
        done: set[asyncio.Task] = set()
        while len(done) < 6:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(MAX_OPEN):
            provider.pieces.put_nowait(None)
        statuses = [(await task).status_code for task in tasks]
    assert (statuses.count(429), statuses.count(200)) == (6, MAX_OPEN)


async def test_body_that_never_ends_and_a_head_that_is_too_large_are_given_up(monkeypatch: pytest.MonkeyPatch):
    """The one is refused in the vendor's form, the other's connection is closed; nothing is asked of the host."""
    monkeypatch.setattr(model_api_body, "BODY_SECONDS", 0.0)
    host = Host("echo", review="never")
    async with door(host) as here:
        name, _, port = here.address.removeprefix("http://").partition(":")
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {name}:{port}\r\nAuthorization: Bearer {here.token}\r\n"
        slow, large = await asyncio.gather(*(asyncio.open_connection(name, int(port)) for _ in range(2)))
        slow[1].write(f"{head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode())
        answer = await slow[0].read()
        large[1].write(head.encode() + b"X-Long: " + b"x" * 200_000)
        closed = await asyncio.gather(large[0].read(), return_exceptions=True)
        for _, writer in (slow, large):
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in (slow, large)), return_exceptions=True)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"timeout_error"' in answer
    assert closed == [b""] or isinstance(closed[0], ConnectionError)
    assert host.audit.records() == []


async def test_connections_beyond_the_bound_are_refused_and_then_closed(monkeypatch: pytest.MonkeyPatch):
    """First their requests are refused, beyond more they are closed at once; others are served once they are gone."""
    monkeypatch.setattr(endpoint, "LIMITS", connections.ConnectionLimits(max_connections=40))
    monkeypatch.setattr(endpoint, "SERVED", 20)
    async with door(Host("echo", review="never")) as here:
        name, _, port = here.address.removeprefix("http://").partition(":")
        opened = [await asyncio.open_connection(name, int(port)) for _ in range(20)]
        async with here.plain() as client:
            crowded = await client.get("/v1/models")
        opened += await asyncio.gather(*(asyncio.open_connection(name, int(port)) for _ in range(40)))
        reads = [asyncio.create_task(reader.read()) for reader, _ in opened]
        ended: set[asyncio.Task] = set()
        while len(ended) < 20:
            done, reads = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
            ended |= done
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in opened), return_exceptions=True)
        await asyncio.gather(*reads, *ended, return_exceptions=True)
        async with here.plain() as client:
            assert (await client.get("/v1/models")).status_code == 200
    assert (crowded.status_code, crowded.json()["error"]["code"]) == (429, "refused_limit")


@pytest.mark.slow
async def test_thousand_streams_of_one_program_are_each_answered():
    """As many as it may have are open; each of the others is refused in the vendor's form, and none is dropped."""
    provider = Slow()
    host = Host(provider, review="never", limits=Limits(concurrent=None, per_minute=None))
    everything = httpx.Limits(max_connections=None)
    async with door(host) as here, here.plain(timeout=None, limits=everything) as client:
        here.equipment.started(os.getpid())
        tasks = [asyncio.create_task(client.post(CHAT, json=asked(stream=True))) for _ in range(1_000)]
        refused, waiting = set(), set(tasks)
        while len(refused) < 1_000 - MAX_OPEN:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
        for _ in range(MAX_OPEN):
            provider.pieces.put_nowait(None)
        served = [await task for task in waiting]
        after = await client.get("/v1/models")
    answers = [task.result() for task in refused]
    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {(429, "refused_limit")}
    assert ([each.status_code for each in served], after.status_code) == ([200] * MAX_OPEN, 200)


async def test_stream_that_is_never_read_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """A client that does not read holds neither memory nor a connection for long."""
    monkeypatch.setattr(endpoint, "LIMITS", connections.ConnectionLimits(stall=0.0))
    provider = Slow()
    host = Host(provider, review="never", limits=Limits(max_tokens=None))
    async with door(host) as here:
        name, _, port = here.address.removeprefix("http://").partition(":")
        _, writer = await asyncio.open_connection(name, int(port), limit=1)
        body = msgspec.json.encode(asked(stream=True, max_tokens=10_000_000))
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {name}:{port}\r\nAuthorization: Bearer {here.token}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await provider.began.wait()
        given_up = asyncio.Event()
        detach = here.calls.detach
        monkeypatch.setattr(here.calls, "detach", lambda call: (detach(call), given_up.set()))
        for _ in range(200):
            # 20 MB in all, more than the buffers of any system hold.
            provider.pieces.put_nowait("word " * 20_000)
        await given_up.wait()
        provider.pieces.put_nowait(None)
        writer.transport.abort()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def files(folder: Path) -> list[Path]:
    """List the files of a folder."""
    return [path for path in folder.iterdir() if path.is_file()]


async def test_token_is_nowhere_but_in_the_environment(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Neither logs nor errors, the audit or the files of the store have it."""
    caplog.set_level(logging.DEBUG)
    store = open_store(str(tmp_path / "host.db"))
    host = Host("echo", review="never", store=store, keep_content=True)
    async with door(host) as here, here.plain() as client:
        said = await client.post(CHAT, json=asked())
        wrong = await client.post(CHAT, json=asked(logprobs=True))
        foreign = await client.post(CHAT, json=asked(), headers={"host": "evil.example"})
        secret = here.token
        assert (said.status_code, wrong.status_code, foreign.status_code) == (200, 400, 403)
        bodies = said.text + wrong.text + foreign.text + str([*said.headers.items(), *wrong.headers.items()])
    await store.aclose()
    kept = b"".join(map(Path.read_bytes, files(tmp_path)))
    assert secret not in caplog.text + bodies + repr(host.audit.records())
    assert secret.encode() not in kept
