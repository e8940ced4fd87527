"""What the tests of the model API are made of: an endpoint over a host, the vendors' own clients, a slow provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import httpx
import msgspec

from antiphon.host.host import Host
from antiphon.host.providers.base import Completion, Growth, Usage
from antiphon.model_api.endpoint import ModelEndpoint
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, text_answer
from tests.host.asks import origin

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic  # long to import: only where they are used
    from openai import AsyncOpenAI

_asks = count(1)


class Door:
    """An endpoint, with the equipment of one process."""

    def __init__(self, endpoint: ModelEndpoint, env: dict[str, str], equipment) -> None:
        self.endpoint = endpoint
        self.equipment = equipment
        self.env = env
        self.address = env["ANTHROPIC_BASE_URL"]
        self.token = env["OPENAI_API_KEY"]

    @property
    def calls(self):
        """The requests of this process that the endpoint knows."""
        return self.equipment._token.calls

    def openai(self, **more) -> AsyncOpenAI:
        """Make OpenAI's client."""
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=self.env["OPENAI_BASE_URL"], api_key=self.token, **more)

    def anthropic(self, **more) -> AsyncAnthropic:
        """Make Anthropic's client."""
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(base_url=self.address, api_key=self.token, **more)

    def plain(self, headers: Mapping[str, str] | None = None, **more) -> httpx.AsyncClient:
        """Make a client that sends what it is told."""
        known = {"authorization": f"Bearer {self.token}", **(headers or {})}
        more = {"timeout": 60, **more}
        return httpx.AsyncClient(base_url=self.address, headers=known, trust_env=False, **more)


def who() -> Origin:
    """Say who asks: each ask is one of its own."""
    return origin(f"api-{next(_asks)}", call=None)


@asynccontextmanager
async def door(host: Host, make=who) -> AsyncIterator[Door]:
    """Serve a host within a block."""
    endpoint = ModelEndpoint(host)
    equipment = await endpoint.equip(make)
    try:
        yield Door(endpoint, dict(equipment.environment({})), equipment)
    finally:
        await endpoint.aclose()


class Slow:
    """A provider that streams the pieces it is given when it is told to: ``None`` is the end."""

    name = "slow"
    tools = True
    personal = False

    def __init__(self, usage: Usage | None = None) -> None:
        self.pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.began = asyncio.Event()
        self.requests = 0
        self.usage = usage or Usage(input_tokens=7, output_tokens=5)

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        raise AssertionError("it streams")

    async def stream(
        self, params: CreateMessageRequestParams, growth: Growth, *, model=None, fallbacks=()
    ) -> Completion:
        self.requests += 1
        said = []
        growth.begin(model)
        self.began.set()
        while (piece := await self.pieces.get()) is not None:
            said.append(piece)
            growth.add(piece)
        return Completion(result=text_answer("".join(said), self.name), usage=self.usage, by=model)

    async def generate(self, params: CreateMessageRequestParams, *, model=None, fallbacks=()) -> Completion:
        self.requests += 1
        self.began.set()
        said = []
        while (piece := await self.pieces.get()) is not None:
            said.append(piece)
        return Completion(result=text_answer("".join(said), self.name), usage=self.usage, by=model)


def asked(text: str = "hello", **more) -> dict:
    """Write the body of a chat completion."""
    return {"model": "gpt-5", "messages": [{"role": "user", "content": text}], **more}


def steps(host: Host, ask: str) -> list[str]:
    """Return the steps of an ask, as the audit has them."""
    return [record.step for record in host.audit.records(ask)]


def bare(value: msgspec.Struct) -> dict:
    """Return a value as plain data."""
    return msgspec.to_builtins(value)
