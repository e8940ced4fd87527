"""A program that makes hosts which are killed: each answers a stream of requests over one store until it dies.

    python -m tests.support.dying STORE LOG [model-api]

With the last word its requests come through the model API, and some of its clients hang up.
Reads a seed per line, and forks a child for it: everything is imported already, so that a child lives at once. Each
writes its process id: with an even seed at once, with an odd one when its first request is answered, however busy the
machine is. When it has been killed, an empty line follows. The children write to LOG what they sent and answered.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout

from antiphon.host import Approve, Budget, Cap, Host, Limits, ModelPrice, Policy, Queue, Rule, Terms, digest
from antiphon.host.models.selection import Chosen
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.store.sql_store import SqlStore
from antiphon.model_api.endpoint import ModelEndpoint
from antiphon.sql.runner import SqliteRunner
from antiphon.wire.content import TextContent
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage, text_answer

SERVERS = ("command:allowed", "command:granted", "command:reviewed")
PRICE = ModelPrice(input=Decimal(3), output=Decimal(15))
NO_LIMITS = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)


class Provider:
    """Takes a moment, and notes for whom it worked."""

    name = "dying"
    tools = False
    personal = False

    def __init__(self, log: int, chance: random.Random) -> None:
        self._log = log
        self._chance = chance

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        return (await self.generate(params)).result

    async def generate(
        self, params: CreateMessageRequestParams, *, model: str | None = None, fallbacks: tuple[str, ...] = ()
    ) -> Completion:
        name = params.metadata["ask"] if params.metadata else params.messages[0].text
        os.write(self._log, f"sent {name}\n".encode())
        await asyncio.sleep(self._chance.random() * 0.003)
        usage = Usage(input_tokens=self._chance.randrange(50), output_tokens=self._chance.randrange(50))
        return Completion(result=text_answer("done", "dying"), usage=usage)


async def approve(queue: Queue) -> None:
    """Be a person who approves everything, and now and then allows three requests more."""
    count = 0
    async for _ in queue.changes():
        for question in await queue.pending():
            count += 1
            granted = question.identity == SERVERS[1]
            decision = Approve(
                digest=digest(question.item.params),
                scope="always" if granted else "once",
                terms=Terms(uses=3) if granted else None,
            )
            await queue.decide(question.id, decision, by="the child", hash=question.hash)


async def live(store: SqlStore, seed: int, log: int) -> None:
    """Answer requests, four at once, for ever."""
    told = asyncio.Event()
    if not seed % 2:
        _tell(told)
    chance = random.Random(seed)
    queue = Queue(store)
    host = Host(
        Provider(log, chance),
        reviewer=queue,
        policy=Policy(rules=(Rule(effect="allow", server=SERVERS[0]),)),
        store=store,
        limits=NO_LIMITS,
        budget=Budget(call=Cap(), day=Cap()),
        choose=lambda params, origin, left: Chosen(prices={None: PRICE}),
    )
    numbers = iter(range(1_000_000))
    if "model-api" in sys.argv:
        await asyncio.gather(approve(queue), *(call(host, seed, numbers, chance, log, told) for _ in range(4)))

    async def ask() -> None:
        for number in numbers:
            name = f"{seed}-{number}"
            # Those that are reviewed are the same after each restart.
            server = SERVERS[number % 3]
            shown = str(number) if server == SERVERS[2] else name
            message = SamplingMessage(role="user", content=TextContent(text=shown))
            params = CreateMessageRequestParams(messages=[message], max_tokens=50, metadata={"ask": name})
            call = OriginCall(id=f"call-{number}", method="tools/call", name=shown)
            await host(params, Origin(id=name, identity=server, target=server, call=call))
            os.write(log, f"answered {name}\n".encode())
            _tell(told)

    await asyncio.gather(approve(queue), *(ask() for _ in range(4)))


async def call(
    host: Host, seed: int, numbers: Iterator[int], chance: random.Random, log: int, told: asyncio.Event
) -> None:
    """Be a program that calls a vendor's API, one request after the other; a tenth it does not wait for."""
    endpoint = ModelEndpoint(host)
    async with ClientSession() as client:
        for number in numbers:
            name, server = f"{seed}-{number}", SERVERS[number % 2]
            # A process of its own for each: what comes late is still its own request.
            env = (await endpoint.equip(partial(Origin, id=name, identity=server, target=server))).environment({})
            said = [{"role": "user", "content": name}]
            body = {"model": "m", "messages": said, "max_tokens": 50, "stream": chance.random() < 0.5}
            patience = ClientTimeout(total=0.001 if chance.random() < 0.1 else 60)
            url, headers = env["OPENAI_BASE_URL"], {"authorization": f"Bearer {env['OPENAI_API_KEY']}"}
            try:
                async with client.post(
                    f"{url}/chat/completions", json=body, headers=headers, timeout=patience
                ) as response:
                    is_answered = b"done" in await response.read()
            except TimeoutError:
                continue
            if is_answered:
                os.write(log, f"answered {name}\n".encode())
                _tell(told)


def _tell(told: asyncio.Event) -> None:
    if not told.is_set():
        told.set()
        print(os.getpid(), flush=True)


def main() -> None:
    """Fork a child for each seed."""
    path, log_path = map(Path, sys.argv[1:3])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            log = os.open(log_path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            asyncio.run(live(SqlStore(SqliteRunner(path)), int(line), log))
        os.waitpid(child, 0)
        print(flush=True)


if __name__ == "__main__":
    main()
