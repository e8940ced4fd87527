"""The model API beside LiteLLM's proxy, in one run against the same local endpoint.

    python -m benchmarks.model_api [--rounds 5] [--litellm PATH]

Prints, for each, the time to the first byte of a stream (median) and the calls per second with 16 at once. Ours decides
with policy "allow" and keeps its audit in SQLite; LiteLLM's proxy runs as it is installed, with one worker and without
a database. Needs LiteLLM's proxy (``tests/interop/setup.sh``). Only the ratios count.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path

import msgspec
from aiohttp import ClientError, ClientSession, web

from antiphon.host import Budget, Cap, Host, Limits, Policy, open_store
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.model_api.endpoint import ModelEndpoint
from antiphon.wire.origin import Origin
from tests.support.ports import free_port

CHUNK = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,'
    '"finish_reason":%s}]}\n\n'
)
WORDS = "Here are some words of an answer that is long enough to flow. "
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 12, "total_tokens": 22},
}
FREE = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)
AT_ONCE = 16
START_SECONDS = 120.0


async def answer(request: web.Request) -> web.StreamResponse:
    """Be a vendor that answers at once."""
    body = await request.json()
    if not body.get("stream"):
        return web.json_response(ANSWER)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    delta = msgspec.json.encode({"role": "assistant", "content": WORDS}).decode()
    await response.write((CHUNK % (delta, "null")).encode())
    await response.write((CHUNK % ("{}", '"stop"')).encode())
    usage = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":%s}'
    counted = '{"prompt_tokens":10,"completion_tokens":12,"total_tokens":22}'
    await response.write(f"data: {usage % counted}\n\ndata: [DONE]\n\n".encode())
    return response


@asynccontextmanager
async def program(*words: str, env: dict[str, str] | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program for a while."""
    process = await asyncio.create_subprocess_exec(
        *words, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def vendor(port: int) -> None:
    """Serve the local endpoint."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.get_running_loop().create_future()


async def ours(port: int, folder: str) -> None:
    """Serve the model API; prints its address and token."""
    price = ModelPrice(input=Decimal(1), output=Decimal(2))
    model = Model(
        name="m",
        provider="openai-compatible",
        model="m",
        base_url=f"http://127.0.0.1:{port}/v1",
        price=price,
        context=100_000,
        max_output=4_096,
    )
    host = Host(
        Models(ModelCatalogue((model,)), {}),
        policy=Policy(default="allow"),
        reviewer=None,
        store=open_store(f"{folder}/host.db"),
        limits=FREE,
        budget=Budget(call=Cap(), day=Cap()),
    )
    numbers = iter(range(10**9))
    endpoint = ModelEndpoint(host)
    equipment = await endpoint.equip(lambda: Origin(id=f"b-{next(numbers)}", identity="command:b", target="b"))
    env = equipment.environment({})
    print(env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"], flush=True)
    await asyncio.get_running_loop().create_future()


class Target:
    """One of the two."""

    def __init__(self, name: str, url: str, token: str) -> None:
        self.name = name
        self.url = f"{url}/chat/completions"
        self.headers = {"authorization": f"Bearer {token}"}
        self.first: list[float] = []
        self.rates: list[float] = []

    async def measure(self, session: ClientSession, calls: int) -> None:
        """Take one round."""
        for _ in range(calls):
            began = time.perf_counter()
            async with session.post(self.url, json=body(stream=True), headers=self.headers) as response:
                await response.content.readany()
                self.first.append(time.perf_counter() - began)
                await response.read()
        began = time.perf_counter()
        await asyncio.gather(*(self._calls(session, calls * 4 // AT_ONCE) for _ in range(AT_ONCE)))
        self.rates.append(calls * 4 // AT_ONCE * AT_ONCE / (time.perf_counter() - began))

    async def _calls(self, session: ClientSession, calls: int) -> None:
        for _ in range(calls):
            async with session.post(self.url, json=body(), headers=self.headers) as response:
                assert WORDS.strip() in await response.text(), response.status

    async def wait(self, session: ClientSession) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    async with session.post(self.url, json=body(), headers=self.headers) as response:
                        if response.status == 200:
                            return
                except ClientError:
                    pass
                await asyncio.sleep(0.5)


def body(**more: object) -> dict[str, object]:
    """Write a request."""
    return {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "Say some words."}], **more}


async def compare(litellm: str, rounds: int, calls: int) -> None:
    """Measure both in turn."""
    port, proxy = free_port(), free_port()
    script = [sys.executable, "-m", "benchmarks.model_api"]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "litellm.yaml"
        base = f"http://127.0.0.1:{port}/v1"
        config.write_text(
            "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
            f"      api_base: {base}\n      api_key: none\ngeneral_settings:\n  master_key: sk-bench\n"
        )
        local = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        async with (
            program(*script, "--vendor", str(port)),
            program(*script, "--ours", str(port), "--folder", folder) as serving,
            program(litellm, "--config", str(config), "--host", "127.0.0.1", "--port", str(proxy), env=local),
            ClientSession() as session,
        ):
            assert serving.stdout is not None
            url, token = (await serving.stdout.readline()).decode().split()
            targets = [Target("antiphon", url, token), Target("litellm", f"http://127.0.0.1:{proxy}/v1", "sk-bench")]
            for target in targets:
                await target.wait(session)
            for _ in range(rounds):
                for target in targets:
                    await target.measure(session, calls)
    for target in targets:
        first, rate = statistics.median(target.first) * 1e3, statistics.median(target.rates)
        print(f"{target.name:10} first byte {first:7.2f} ms   {rate:7.0f} calls/s, {AT_ONCE} at once")
    one, other = targets
    first = statistics.median(one.first) / statistics.median(other.first)
    rate = statistics.median(one.rates) / statistics.median(other.rates)
    print(f"antiphon / litellm: first byte {first:.2f}, calls per second {rate:.2f}")


def main() -> None:
    """Run the benchmark, or one of its programs."""
    cache = Path(os.environ.get("ANTIPHON_INTEROP_DIR") or Path.home() / ".cache" / "antiphon-interop")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--litellm", default=str(cache / "pythonapi" / "bin" / "litellm"))
    parser.add_argument("--vendor", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ours", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.vendor is not None:
        asyncio.run(vendor(given.vendor))
    elif given.ours is not None:
        asyncio.run(ours(given.ours, given.folder))
    else:
        asyncio.run(compare(given.litellm, given.rounds, given.calls))


if __name__ == "__main__":
    main()
