"""A mounted server behaves as the same server alone, and a call costs the same however many are mounted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import antiphon
from antiphon import Client, Server
from antiphon.testing import Script
from tests.support.mounted import noting, outcome, outer_of, shop

ERAS = ["2025-11-25", "2026-07-28"]


# --- it behaves as it does alone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("kind", ["plain", "middleware", "nested", "nested middleware"])
async def test_a_mounted_server_behaves_as_the_same_server_alone(revision: str, kind: str) -> None:
    """Lists, calls, errors, resources, prompts and completions are those of the server, but for the names."""
    alone, inner = shop(), shop()
    if "middleware" in kind:
        noting(inner, [], "inner")
    prefix = "a__b__" if "nested" in kind else "b__"
    server = outer_of((inner, "b"))
    if "nested" in kind:
        server = outer_of((server, "a"))
    async with (
        Client(alone, sampling=Script(["1", "2", "3"]), revision=revision) as direct,
        Client(server, sampling=Script(["1", "2", "3"]), revision=revision) as client,
    ):
        assert [structs.replace(tool, name=prefix + tool.name) async for tool in direct.tools()] == [
            tool async for tool in client.tools()
        ]
        assert [structs.replace(prompt, name=prefix + prompt.name) async for prompt in direct.prompts()] == [
            prompt async for prompt in client.prompts()
        ]
        assert [one async for one in direct.resources()] == [one async for one in client.resources()]
        assert [one async for one in direct.resource_templates()] == [one async for one in client.resource_templates()]
        for call in (
            lambda one, at: one.call_tool(at + "greet", {"name": "Ada"}),
            lambda one, at: one.call_tool(at + "add", {"a": 1, "b": 2}),
            lambda one, at: one.call_tool(at + "add", {"a": "x"}),
            lambda one, at: one.call_tool(at + "fail"),
            lambda one, at: one.call_tool(at + "poem"),
            lambda one, _: one.read_resource("shop://stock"),
            lambda one, _: one.read_resource("shop://hat/price?size=3"),
            lambda one, _: one.read_resource("shop://hat/price?size=x"),
            lambda one, _: one.read_resource("shop://nothing"),
            lambda one, at: one.get_prompt(at + "ask", {"topic": "hats"}),
            lambda one, at: one.get_prompt(at + "ask", {}),
            lambda one, at: one.complete(at + "ask", "topic", "ha"),
            lambda one, _: one.complete("shop://{kind}/price{?size}", "kind", "ha"),
        ):
            assert await outcome(call(client, prefix)) == await outcome(call(direct, ""))


texts = st.text(max_size=20)


@settings(max_examples=20, deadline=None)
@given(name=texts, kind=st.text(alphabet="abc-._~ä%/?&", min_size=1, max_size=10), size=st.integers(-9, 9))
def test_whatever_is_sent_the_answer_is_the_same(name: str, kind: str, size: int) -> None:
    """Arguments, gaps of templates and prefixes of completions pass a mount as they are."""

    async def compare() -> None:
        async with Client(shop()) as direct, Client(outer_of((shop(), "x_y"))) as client:
            for call in (
                lambda one, at: one.call_tool(at + "greet", {"name": name}),
                lambda one, at: one.call_tool(at + "add", {"a": size, "b": name if size > 5 else size}),
                lambda one, _: one.read_resource(f"shop://{kind}/price?size={size}"),
                lambda one, at: one.get_prompt(at + "ask", {"topic": name}),
                lambda one, at: one.complete(at + "ask", "topic", name),
            ):
                assert await outcome(call(client, "x_y__")) == await outcome(call(direct, ""))

    asyncio.run(compare())


# --- what it costs ------------------------------------------------------------------------------------------------

OURS = str(Path(antiphon.__file__).parent)


async def test_a_call_costs_the_same_however_many_servers_are_mounted() -> None:
    """Counted in calls of ours; and 1,000 tools over 20 mounts are listed as fast as those of one server."""

    def made(mounts: int) -> Server:
        server = Server("outer", tool_rate=None)
        for number in range(mounts):
            inner = Server(f"inner{number}", tool_rate=None)
            for tool in range(50):
                inner.tool(name=f"tool{tool}")(lambda: "done")
            inner.resource(f"inner{number}://{{name}}", name="r")(lambda name: name)
            server.mount(inner, prefix=f"m{number}")
        return server

    calls: dict[str, Callable[[Client], Awaitable[Any]]] = {
        "call": lambda client: client.call_tool("m0__tool7"),
        "read": lambda client: client.read_resource("inner0://x"),
        "list": lambda client: client.list_tools(),
    }
    counts: dict[str, list[int]] = {name: [] for name in calls}
    for mounts in (1, 20):
        async with Client(made(mounts)) as client:
            for name, call in calls.items():
                await call(client)
                counts[name].append(await counted(lambda call=call, client=client: call(client)))
    assert counts["call"][0] == counts["call"][1]
    assert counts["read"][0] == counts["read"][1]
    # The client reads each of the 1,000 tools; the server sends bytes that it has.
    assert counts["list"][0] <= counts["list"][1]


async def counted(work: Callable[[], Awaitable[Any]]) -> int:
    """Count the calls of functions of ours."""
    found = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal found
        found += (
            event == "call"
            and frame.f_code.co_filename.startswith(OURS)
            and "/client/" not in (frame.f_code.co_filename)
        )

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await work()
    finally:
        sys.setprofile(before)
    return found
