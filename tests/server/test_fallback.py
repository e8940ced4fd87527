"""The server's own model: for clients that offer none, and never against a refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import (
    CallTimeout,
    ConfigError,
    Context,
    CreateMessageRequestParams,
    MissingCapability,
    Rejected,
    SamplingFailed,
    SamplingUnavailable,
    Server,
)
from antiphon.host import Scripted
from antiphon.testing import Recorder, connected
from tests.server.models import REVISIONS, WITH_TOOLS, Model, asked, asking, use, wants


def stock(product: str) -> int:
    """Tell how many are left."""
    return len(product)


async def own(params: CreateMessageRequestParams) -> str:
    """Complete for the server."""
    return f"own {params.messages[-1].text}"


async def call(server: Server, revision: str = "2026-07-28", **options: Any) -> Any:
    """Call the tool "ask"."""
    async with connected(server, revision=revision, **options) as client:
        return await client.call_tool("ask")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_client_without_sampling_is_not_needed(revision: str) -> None:
    """On every revision; the author can tell whose model it was."""
    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=own)
    recorder = Recorder()
    await call(server, revision, wrap=recorder)
    assert (seen[0].text, seen[0].by, seen[0].model) == ("own q", "server", "unnamed")
    assert asked(recorder) == 0


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_clients_model_comes_first(revision: str) -> None:
    """It is its user's, who pays for nothing twice."""
    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=own)
    await call(server, revision, sampling=Model("theirs"))
    assert (seen[0].text, seen[0].by) == ("theirs", "client")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_loop_of_tools_runs_on_the_servers_model(revision: str) -> None:
    """Where the client, or its revision, takes no tools: all turns of it."""
    model = Model(wants(use("stock", product="hat")), "Three.")
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]), sampling_fallback=model)
    recorder = Recorder()
    await call(server, revision, sampling=Model(tools=False), wrap=recorder)
    assert (seen[0].text, seen[0].by, seen[0].turns) == ("Three.", "server", 2)
    assert [result.text for result in model.results()] == ["3"]
    assert asked(recorder) == 0


async def test_a_typed_answer_may_come_from_the_server() -> None:
    """With its repair."""
    server, seen = asking(lambda ctx: ctx.sample("q", result_type=int), sampling_fallback=Model("five", "5"))
    await call(server)
    assert (seen[0].value, seen[0].by, seen[0].turns) == (5, "server", 2)


async def test_a_refusal_is_an_answer() -> None:
    """Who says no to one model has not said yes to another."""
    model = Model("never")
    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=model)
    await call(server, "2025-11-25", sampling=Model(Rejected("User rejected sampling request")))
    assert isinstance(seen[0], Rejected)
    assert model.requests == []


async def test_a_client_that_fails_is_not_replaced() -> None:
    """At 2026-07-28 a handler would not even learn of it; both eras behave alike."""
    model = Model("never")
    server, seen = asking(lambda ctx: ctx.sample("q", timeout=0.01), sampling_fallback=model)

    async def forever(params: Any, origin: Any) -> str:
        await asyncio.Event().wait()
        return ""

    await call(server, "2025-11-25", sampling=forever)
    assert isinstance(seen[0], CallTimeout)
    assert model.requests == []


async def test_an_author_may_do_without() -> None:
    """For a question that only the client's model should hear."""
    server, seen = asking(lambda ctx: ctx.sample("q", fallback=False), sampling_fallback=own)
    with pytest.raises(MissingCapability):
        await call(server)
    assert isinstance(seen[0], SamplingUnavailable)


async def test_a_step_has_it_as_well() -> None:
    """The same ladder."""
    server, seen = asking(lambda ctx: ctx.sample_step("q"), sampling_fallback=own)
    await call(server)
    assert seen[0].by == "server"


@pytest.mark.parametrize("given", [own, Model("own q"), Scripted(["own q"])])
async def test_it_may_be_a_function_or_a_provider(given: Any) -> None:
    """Those of a host are some."""
    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=given)
    await call(server)
    assert seen[0].text == "own q"


@pytest.mark.parametrize("given", ["echo", 5, lambda: None, lambda params, origin: None])
def test_anything_else_is_refused(given: Any) -> None:
    """When the server is made; an answerer for clients takes more than a server has."""
    with pytest.raises(ConfigError, match="sampling_fallback= must be an async function of one argument"):
        Server("s", sampling_fallback=given)


async def test_its_failure_is_not_told() -> None:
    """Keys stay here; the author's log has it."""

    async def fails(params: Any) -> str:
        raise RuntimeError("401: sk-secret")

    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=fails)
    result = await call(server)
    assert isinstance(seen[0], SamplingFailed)
    assert result.text == "ask: The server's own model failed: RuntimeError"


async def test_it_has_no_longer_than_the_author_gives_it() -> None:
    """As a client."""

    async def forever(params: Any) -> str:
        await asyncio.Event().wait()
        return ""

    server, seen = asking(lambda ctx: ctx.sample("q", timeout=0.01), sampling_fallback=forever)
    await call(server)
    assert isinstance(seen[0], CallTimeout)


async def test_what_is_no_answer_is_a_failure() -> None:
    """Of the function."""

    async def odd(params: Any) -> Any:
        return {"text": "x"}

    server, seen = asking(lambda ctx: ctx.sample("q"), sampling_fallback=odd)
    await call(server)
    assert "gave a dict" in str(seen[0])


class Plain:
    """A provider that takes no tools."""

    tools = False

    async def complete(self, params: CreateMessageRequestParams) -> str:
        """Answer."""
        return "plain"


async def test_a_model_without_tools_is_not_offered_any() -> None:
    """Then there is nobody."""
    server, seen = asking(lambda ctx: ctx.sample("q", tools=[stock]), sampling_fallback=Plain())
    with pytest.raises(MissingCapability):
        await call(server)
    assert isinstance(seen[0], SamplingUnavailable)


@pytest.mark.parametrize(
    ("fallback", "needed", "stands"),
    [
        (Plain(), "sampling", True),
        (Plain(), "sampling.tools", False),
        (own, "sampling.tools", True),
        (own, "roots", False),
    ],
)
def test_it_stands_for_what_it_can_do(fallback: Any, needed: str, stands: bool) -> None:
    """Tools that require more stay out of reach."""
    server = Server("s", sampling_fallback=fallback)
    assert server._service.core.fallback is not None
    assert server._service.core.fallback.stands_for(needed) is stands


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_tools_that_require_sampling_are_within_reach(revision: str) -> None:
    """They are listed and served."""
    server = Server("s", sampling_fallback=own)

    @server.tool(requires="sampling")
    async def describe(ctx: Context) -> str:
        return (await ctx.sample("q")).text

    async with connected(server, revision=revision) as client:
        assert [tool.name async for tool in client.tools()] == ["describe"]
        assert (await client.call_tool("describe")).text == "own q"
