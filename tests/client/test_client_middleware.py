"""Middleware of a client: around what it sends, and around what it answers, on every revision."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest
from msgspec import structs

from antiphon import Client, Context, Host, Server
from antiphon.client import BY_HAND, ClientNext, ClientRequest, PendingRound, client_middleware
from antiphon.errors import ConfigError, PeerError, Rejected, SamplingFailed
from antiphon.testing import Script
from antiphon.types import CallToolRequestParams, CallToolResult, EmptyResult, TextContent, ToolAnnotations
from antiphon.wire.lossless import Received
from tests.support.mounted import outcome, shop

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ERAS = ["2025-11-25", "2026-07-28"]


def noting(seen: list[str], name: str = "") -> Any:
    """Make middleware that notes every request on its way out and back."""

    async def note(request: ClientRequest, call_next: ClientNext) -> Any:
        seen.append(f"{name}> {request.direction} {request.method}")
        try:
            return await call_next(request)
        finally:
            seen.append(f"{name}< {request.method}")

    return note


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_request_passes_through(revision: str) -> None:
    """Each method, with the result that the program gets without middleware."""
    seen: list[str] = []
    async with (
        Client(shop(), revision=revision, middleware=[noting(seen)]) as client,
        Client(shop(), revision=revision) as plain,
    ):
        for call in (
            lambda one: one.list_tools(),
            lambda one: one.list_prompts(),
            lambda one: one.list_resources(),
            lambda one: one.list_resource_templates(),
            lambda one: one.call_tool("greet", {"name": "Ada"}),
            lambda one: one.call_tool("add", {"a": "x"}),
            lambda one: one.call_tool("nothing"),
            lambda one: one.read_resource("shop://stock"),
            lambda one: one.read_resource("shop://nothing"),
            lambda one: one.get_prompt("ask", {"topic": "hats"}),
            lambda one: one.complete("ask", "topic", "ha"),
        ):
            assert await outcome(call(client)) == await outcome(call(plain))
        await client.ping()
    assert [line for line in seen if line.startswith("> ")] == [
        f"> sent {method}"
        for method in (
            "tools/list", "prompts/list", "resources/list", "resources/templates/list", "tools/call", "tools/call",
            "tools/call", "resources/read", "resources/read", "prompts/get", "completion/complete",
        )
    ]  # fmt: skip
    assert len(seen) == 22


@pytest.mark.parametrize("revision", ERAS)
async def test_subscriptions_pass_through(revision: str) -> None:
    """By the request of the revision; a refusal is raised, and nothing is sent."""
    server, seen, refused = shop(), list[str](), list[str]()

    async def refuse(request: ClientRequest, call_next: ClientNext) -> Any:
        if refused and request.method in ("resources/subscribe", "subscriptions/listen"):
            raise Rejected("no")
        return await call_next(request)

    async with Client(server, revision=revision, middleware=[noting(seen), refuse]) as client:
        async with client.listen(uris=["shop://stock"]) as changes:
            server.resource_updated("shop://stock")
            async with asyncio.timeout(30):
                assert (await anext(changes)).uri == "shop://stock"
        refused.append("from now on")
        with pytest.raises(Rejected, match="no"):
            async with client.listen(uris=["shop://stock"]):
                raise AssertionError("subscribed")
    sent = [line for line in seen if line.startswith("> ")]
    opened = ["> sent resources/subscribe", "> sent resources/unsubscribe", "> sent resources/subscribe"]
    assert sent == (opened if revision == "2025-11-25" else ["> sent subscriptions/listen"] * 2)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_and_its_asks_pass_once_each_in_order(revision: str) -> None:
    """As layers of an onion: the first given is outermost, in both directions; rounds make no difference."""
    seen: list[str] = []
    middleware = [noting(seen, "a"), noting(seen, "b")]
    async with Client(
        shop(), revision=revision, sampling=Script(["1", "2", "3"]), middleware=middleware
    ) as client:  # fmt: skip
        assert (await client.call_tool("poem")).text == "123"
    assert (seen[:2], seen[-2:]) == (
        ["a> sent tools/call", "b> sent tools/call"], ["b< tools/call", "a< tools/call"]
    )  # fmt: skip
    asks = [line for line in seen if "sampling" in line]
    assert sorted(asks[:8]) == sorted(["a> received sampling/createMessage", "b> received sampling/createMessage",
                                       "b< sampling/createMessage", "a< sampling/createMessage"] * 2)  # fmt: skip
    assert asks[8:] == ["a> received sampling/createMessage", "b> received sampling/createMessage",
                        "b< sampling/createMessage", "a< sampling/createMessage"]  # fmt: skip


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_may_be_changed_answered_refused_and_made_twice(revision: str) -> None:
    """Params, `_meta`, results; and a second attempt."""
    server = shop()
    metas: list[Any] = []

    @server.tool
    async def look(ctx: Context) -> str:
        metas.append(ctx.request.meta.get("example.com/tenant"))
        return "looked"

    async def change(request: ClientRequest, call_next: ClientNext) -> Any:
        if request.method != "tools/call":
            return await call_next(request)
        name = request.params.name
        if name == "cached":
            return CallToolResult(content=[TextContent(text="from here")])
        if name == "forbidden":
            raise Rejected("not here")
        if name == "twice":
            await call_next(request.replace(name="look"))
            name = "look"
        arguments = {key: value * 2 for key, value in request.arguments.items()}
        passed = request.replace(name=name, arguments=arguments, meta={"example.com/tenant": "x"})
        return structs.replace(await call_next(passed), meta={"changed": True})

    async with Client(server, revision=revision, middleware=[change]) as client:
        doubled = await client.call_tool("add", {"a": 1, "b": 2})
        assert (doubled.text, doubled.meta) == ("6", {"changed": True})
        assert (await client.call_tool("cached")).text == "from here"
        with pytest.raises(Rejected, match="not here"):
            await client.call_tool("forbidden")
        assert (await client.call_tool("twice")).text == "looked"
        assert metas == [None, "x"]


def asking() -> Server:
    """Make a server with a tool that tells what became of its asks."""
    server = Server("asking")

    @server.tool
    async def ask(prompt: str, ctx: Context) -> str:
        try:
            said = (await ctx.sample(prompt, max_tokens=500)).text
        except Rejected as error:
            said = error.message
        return f"{said}, {(await ctx.elicit('Which?', str)).action}"

    return server


@pytest.mark.parametrize("revision", ERAS)
async def test_an_ask_may_be_changed_answered_or_refused(revision: str) -> None:
    """Before the answerer sees it; in the short forms that an answerer may give, too."""
    server = asking()
    seen: list[int] = []

    async def model(params: Any, _origin: Any) -> str:
        seen.append(params.max_tokens)
        return "the model's"

    async def around(request: ClientRequest, call_next: ClientNext) -> Any:
        if request.direction == "sent":
            return await call_next(request)
        assert request.origin is not None
        assert request.origin.call is not None
        if request.method == "elicitation/create":
            raise Rejected("no forms")
        match request.params.messages[0].text:
            case "short":
                return "in short"
            case "forbidden":
                raise Rejected("not that")
            case _:
                return await call_next(request.replace(max_tokens=7))

    async def form(_params: Any, _origin: Any) -> Any:
        raise AssertionError("asked")

    async with Client(
        server, revision=revision, sampling=model, elicitation=form, middleware=[around]
    ) as client:  # fmt: skip
        assert (await client.call_tool("ask", {"prompt": "short"})).text == "in short, decline"
        assert (await client.call_tool("ask", {"prompt": "else"})).text == "the model's, decline"
        if revision == "2025-11-25":
            assert (await client.call_tool("ask", {"prompt": "forbidden"})).text == "not that, decline"
        else:
            # A round has no member for a refusal, so it ends the call.
            with pytest.raises(Rejected, match="not that"):
                await client.call_tool("ask", {"prompt": "forbidden"})
    assert seen == [7]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_person_agrees_to_what_middleware_has_made_of_a_call(revision: str) -> None:
    """There is no path around consent: it is asked last, with what is sent."""
    shown: list[dict[str, Any]] = []

    async def confirm(params: Any, origin: Any) -> bool:
        shown.append(origin.call.arguments)
        return params.name == "add"

    async def change(request: ClientRequest, call_next: ClientNext) -> Any:
        if request.method == "tools/call":
            request = request.replace(arguments={**request.arguments, "b": 40})
        return await call_next(request)

    async with Client(shop(), revision=revision, confirm=confirm, middleware=[change]) as client:
        assert (await client.call_tool("add", {"a": 2, "b": 1})).text == "42"
        with pytest.raises(Rejected):
            await client.call_tool("greet", {"name": "x"})
    assert shown == [{"a": 2, "b": 40}, {"name": "x", "b": 40}]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_that_is_forwarded_passes_as_well(revision: str) -> None:
    """With what this library does not know of it: what middleware changes is merged into that, both ways."""
    server = shop()

    @server.tool
    async def raw(ctx: Context, a: int = 0) -> str:
        return f"{a} {sorted(ctx.request.meta)}"

    async def change(request: ClientRequest, call_next: ClientNext) -> Any:
        if request.params.name == "here":
            return CallToolResult(content=[TextContent(text="from here")])
        result = await call_next(request.replace(arguments={"a": 7}))
        return structs.replace(result, meta={"changed": True})

    async with Client(server, revision=revision, middleware=[change]) as client:
        for name, text in (("raw", "7"), ("here", "from here")):
            params = CallToolRequestParams.of(name, {"a": 1})
            given = await client.forward("tools/call", params, Received.of(params))
            assert given.read.text.startswith(text)
            assert (b'"changed"' in bytes(given.raw)) is (name == "raw")


async def test_a_result_from_the_cache_was_not_sent() -> None:
    """What middleware has made of a result is what is kept."""
    seen: list[str] = []

    async def keep(request: ClientRequest, call_next: ClientNext) -> Any:
        seen.append(request.method)
        return structs.replace(await call_next(request), ttl_ms=60_000)

    async with Client(shop(), middleware=[keep]) as client:
        for _ in range(2):
            await client.read_resource("shop://stock")
            await client.list_resources()
    assert seen == ["resources/read", "resources/list"]


async def test_a_call_by_hand_passes_once() -> None:
    """With its first round as what comes back; the next steps are the program's own."""
    seen: list[str] = []
    async with Client(
        shop(), revision="2026-07-28", sampling=BY_HAND, middleware=[noting(seen)]
    ) as client:  # fmt: skip
        step: Any = await client.rounds.call_tool("poem")
        while isinstance(step, PendingRound):
            step = await client.rounds.resume(step, dict.fromkeys(step.asks, "x"))
        assert step.text == "xxx"
    assert seen == ["> sent tools/call", "< tools/call"]


@pytest.mark.parametrize("revision", ERAS)
async def test_what_is_no_result_is_an_error_that_names_the_function(revision: str) -> None:
    """Of what is sent; of an ask, the server learns nothing of ours."""

    async def forgetful(request: ClientRequest, call_next: ClientNext) -> Any:
        await call_next(request)

    async def wrong(request: ClientRequest, call_next: ClientNext) -> Any:
        return EmptyResult() if request.direction == "received" else await call_next(request)

    async with Client(shop(), revision=revision, middleware=[forgetful]) as client:
        with pytest.raises(TypeError, match=r"forgetful returned NoneType for prompts/list.*ListPromptsResult"):
            await client.list_prompts()
    async with Client(shop(), revision=revision, sampling=Script([]), middleware=[wrong]) as client:
        assert "EmptyResult" not in str(await outcome_of(client.call_tool("poem")))


async def outcome_of(call: Any) -> object:
    """Return the result of a call, or its error, be it of the peer or of ours."""
    try:
        return await call
    except (PeerError, SamplingFailed) as error:
        return error
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("wrong", [7, "text", [7], lambda request, call_next: None])
def test_what_is_no_list_of_functions_is_named(wrong: Any) -> None:
    """When the client is made."""
    with pytest.raises(ConfigError, match=r"Client\(middleware="):
        Client(shop(), middleware=wrong)


async def test_middleware_stands_outside_a_host() -> None:
    """An ask that it passes on is decided by the host as ever."""
    seen: list[str] = []
    host = Host(Script(["hello"]), review="never")
    server = Server("s")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def say(ctx: Context) -> str:
        return (await ctx.sample("say")).text

    async with Client(server, sampling=host, middleware=[noting(seen)]) as client:
        assert (await client.call_tool("say")).text == "hello"
    assert "> received sampling/createMessage" in seen


async def test_a_client_without_middleware_runs_none_of_it() -> None:
    """Not one function of the module."""
    met: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == client_middleware.__file__:
            met.append(frame.f_code.co_name)

    async with Client(shop(), sampling=Script(["1", "2", "3"])) as client:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await client.call_tool("poem")
            await client.list_tools()
        finally:
            sys.setprofile(before)
    assert met == []
