"""One handler, one await: the same at every revision over every transport; each ask is put once, the body runs once.

What a revision cannot carry is a typed error that names the revision, and nothing is sent.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, ToolUseContent
from antiphon.server.serving.network import server_app
from antiphon.wire.common import ClientCapabilities, SamplingCapability
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from tests.scenarios import one_handler
from tests.support.asgi import running, taking_turns
from tests.support.three_replicas import three_replicas

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
OVER_HTTP = ("http", "replicas", "nginx")
"""One process; three in turns; and three processes behind nginx."""
TRANSPORTS = ("memory", "stdio", "sse", "websocket", *OVER_HTTP)
# Streamable HTTP came with 2025-03-26, and 2026-07-28 has no HTTP+SSE any more.
MISSING = {("sse", "2026-07-28"), *((each, "2024-11-05") for each in OVER_HTTP)}
WAYS = [
    pytest.param(*way, marks=pytest.mark.nginx if way[0] == "nginx" else ())
    for way in itertools.product(TRANSPORTS, REVISIONS)
    if way not in MISSING
]
URLS = {"http": "http://{}/mcp", "sse": "http://{}/sse", "websocket": "ws://{}/ws"}
NUMBERS = itertools.count()
Target = AbstractAsyncContextManager[Any]


@pytest.fixture(scope="module")
def nginx() -> Iterator[str]:
    """Run three processes behind nginx; the value is its address."""
    with three_replicas([sys.executable, "-m", "tests.scenarios.one_handler"]) as url:
        yield url


@pytest.fixture
def target(transport: str, request: pytest.FixtureRequest) -> Target:
    """Return what serves over a transport."""
    return serving(transport, request.getfixturevalue("nginx") if transport == "nginx" else None)


@asynccontextmanager
async def serving(transport: str, nginx: str | None) -> AsyncIterator[Any]:
    """Serve over a transport; yields what a client connects to."""
    if nginx is not None:
        yield nginx
    elif transport == "memory":
        yield one_handler.server
    elif transport == "stdio":
        yield [sys.executable, "-m", "tests.scenarios.one_handler"]
    elif transport == "replicas":
        async with taking_turns(one_handler.handlers) as place:
            yield f"http://{place}/mcp"
    else:
        app = server_app(one_handler.server._service, transport, {})
        async with running(app) as place:
            yield URLS[transport].format(place)
            await app.drain()


class Model:
    """Answers every ask, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.forms = 0

    async def sample(self, params: CreateMessageRequestParams, _: Any) -> str | CreateMessageResult:
        """Complete: echo a short form of the prompt, or use the tool that is offered."""
        if params.tools:
            return self._use_tool(params)
        block: Any = params.messages[-1].content
        self.asked[block.text] += 1
        return f"<{block.text[-12:]}>"

    def _use_tool(self, params: CreateMessageRequestParams) -> str | CreateMessageResult:
        turn = len(params.messages) // 2
        self.asked[f"turn {turn}"] += 1
        if turn == one_handler.TURNS:
            return "done"
        use = ToolUseContent(id=f"u{turn}", name="count", input={"step": turn})
        return CreateMessageResult(role="assistant", content=[use], model="m", stop_reason="toolUse")

    async def elicit(self, _params: Any, _: Any) -> dict[str, Any]:
        """Fill in the form."""
        self.forms += 1
        return {"colour": "red"}


class Asking:
    """An answerer that offers tools."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def capabilities(self) -> ClientCapabilities:
        """Offer sampling with tools."""
        return ClientCapabilities(sampling=SamplingCapability(tools={}))

    async def __call__(self, params: CreateMessageRequestParams, origin: Any) -> str | CreateMessageResult:
        return await self._model.sample(params, origin)


async def called(target: Target, revision: str, tool: str, model: Model, run: str) -> Any:
    """Call a tool at a revision, over a transport."""
    async with (
        target as where,
        Client(where, sampling=Asking(model), elicitation=model.elicit, revision=revision) as client,
    ):
        assert client.revision == revision
        return await client.call_tool(tool, {"run": run})


@pytest.mark.parametrize(("transport", "revision"), WAYS)
async def test_a_chain_of_samples_and_two_at_once(transport: str, revision: str, target: Target) -> None:
    """27 asks, each put to the model exactly once; the result is the same everywhere."""
    model = Model()
    result = await called(target, revision, "chain", model, f"chain-{next(NUMBERS)}")
    assert result.text == expected()
    assert len(model.asked) == one_handler.TURNS + 2
    assert set(model.asked.values()) == {1}


def expected() -> str:
    """Compute by hand what the chain comes to."""
    last = "start"
    for turn in range(one_handler.TURNS):
        last = f"<{f'{turn}: {last}'[-12:]}>"
    left, right = (f"<{f'{side} {last}'[-12:]}>" for side in ("left", "right"))
    return f"{left} | {right} | body ran 1 time(s)"


@pytest.mark.parametrize(("transport", "revision"), WAYS)
async def test_a_form_between_two_samples(transport: str, revision: str, target: Target) -> None:
    """From 2025-06-18; before, the error names the revision, and nobody was asked."""
    model = Model()
    result = await called(target, revision, "form", model, f"form-{next(NUMBERS)}")
    if revision < "2025-06-18":
        assert result.is_error
        assert revision in result.text
        assert model.forms == 0
    else:
        assert result.text == "<dea?> in red> | body ran 1 time(s)"
        assert (model.forms, set(model.asked.values())) == (1, {1})


@pytest.mark.parametrize(("transport", "revision"), [way for way in WAYS if way.values[1] >= "2025-11-25"])
async def test_a_form_of_a_mounted_server(transport: str, revision: str, target: Target) -> None:
    """The same handler behind a prefix, over every transport."""
    model = Model()
    result = await called(target, revision, "mounted__form", model, f"mounted-{next(NUMBERS)}")
    assert result.text == "<dea?> in red> | body ran 1 time(s)"
    assert (model.forms, set(model.asked.values())) == (1, {1})


@pytest.mark.parametrize(("transport", "revision"), WAYS)
async def test_a_tool_loop_of_25_turns(transport: str, revision: str, target: Target) -> None:
    """From 2025-11-25; before, the error names the revision, and the model was not asked."""
    model = Model()
    result = await called(target, revision, "loop", model, f"loop-{next(NUMBERS)}")
    if revision < "2025-11-25":
        assert result.is_error
        assert revision in result.text
        assert not model.asked
    else:
        assert result.text == "done after 25 uses | body ran 1 time(s)"
        assert len(model.asked) == one_handler.TURNS + 1
        assert set(model.asked.values()) == {1}
