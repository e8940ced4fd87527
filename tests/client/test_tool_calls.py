"""The call of a tool with what goes around it, against servers over HTTP that want arguments in headers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.client.tool_calls import Confirmer, Consent
from antiphon.errors import CallTimeout, ConfigError, HeaderMismatch, Rejected
from antiphon.host import Approve, Deny, Host, Policy, Rule, digest
from antiphon.wire.content import TextContent
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ToolAnnotations
from tests.host.asks import Person
from tests.support.linked import settle
from tests.support.network import let_deadlines_pass
from tests.support.web import result, serving

INFO = {"name": "web", "version": "1"}


def site_of(tools: list[dict[str, Any]], calls: list[Any]) -> Any:
    """Make a modern server that wants the header it announces, and notes each request."""

    async def answers(_request: Any, seen: Any) -> Any:
        from aiohttp import web

        calls.append((seen.body["method"], seen.headers.get("Mcp-Param-Region")))
        done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        if seen.body["method"] == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], {**done, **said})
        if seen.body["method"] == "tools/list":
            return result(seen.body["id"], {**done, "tools": tools})
        if seen.headers.get("Mcp-Param-Region") != seen.body["params"]["arguments"]["region"]:
            error = {"code": -32020, "message": "Header mismatch: Mcp-Param-Region is missing"}
            text = json.dumps({"jsonrpc": "2.0", "id": seen.body["id"], "error": error})
            return web.Response(status=400, text=text, content_type="application/json")
        return result(seen.body["id"], {"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})

    return answers


def definition(name: str, header: str) -> dict[str, Any]:
    """Make a tool as the wire has it."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}
    return {"name": name, "inputSchema": schema}


async def test_a_tool_called_without_being_listed_is_looked_up_and_called_again() -> None:
    """Once, after the server has missed its header."""
    calls: list[Any] = []
    async with serving(site_of([definition("query", "Region")], calls)) as site, Client(site.url) as client:
        assert (await client.call_tool("query", {"region": "eu"})).text == "ok"
    assert calls[1:] == [("tools/call", None), ("tools/list", None), ("tools/call", "eu")]


async def test_a_server_that_is_never_content_is_asked_twice_at_most() -> None:
    """It announces nothing, and misses a header all the same."""
    calls: list[Any] = []
    plain = {"name": "query", "inputSchema": {"type": "object"}}
    async with serving(site_of([plain], calls)) as site, Client(site.url) as client:
        with pytest.raises(HeaderMismatch):
            await client.call_tool("query", {"region": "eu"})
    assert [method for method, _ in calls[1:]] == ["tools/call", "tools/list", "tools/call"]


async def test_a_tool_that_is_not_there_is_not_called_again() -> None:
    """The error of the server stands."""
    calls: list[Any] = []
    async with serving(site_of([], calls)) as site, Client(site.url) as client:
        with pytest.raises(HeaderMismatch):
            await client.call_tool("query", {"region": "eu"})
    assert [method for method, _ in calls[1:]] == ["tools/call", "tools/list"]


async def test_a_list_over_http_leaves_invalid_tools_out() -> None:
    """2026-07-28: clients MUST exclude them."""
    tools = [definition("bad", "not a token"), definition("good", "Region")]
    async with serving(site_of(tools, [])) as site, Client(site.url) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["good"]


def endless(calls: list[Any]) -> Any:
    """Make a modern server whose list of tools has no end, and whose tool cannot be called without it."""

    async def answers(_request: Any, seen: Any) -> Any:
        from aiohttp import web

        method, done = seen.body["method"], {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        calls.append(method)
        if method == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], {**done, **said})
        if method == "tools/list":
            let_deadlines_pass(20)
            return result(seen.body["id"], {**done, "tools": [], "nextCursor": f"page {len(calls)}"})
        if seen.body["params"]["name"] == "checked":
            content = {"content": [], "structuredContent": {"a": 1}}
            return result(seen.body["id"], {"resultType": "complete", **content})
        error = {"code": -32020, "message": "Header mismatch: Mcp-Param-Region is missing"}
        text = json.dumps({"jsonrpc": "2.0", "id": seen.body["id"], "error": error})
        return web.Response(status=400, text=text, content_type="application/json")

    return answers


async def allow(_params: Any, _origin: Any) -> bool:
    """Let every call be made."""
    return True


@pytest.mark.parametrize("need", ["consent", "headers", "schema"])
async def test_a_call_and_the_lists_it_needs_have_one_timeout(need: str) -> None:
    """Pages without end, each of them in time: whatever wants the list, the call ends when its own time is over."""
    calls: list[Any] = []
    options: dict[str, Any] = {"confirm": allow} if need == "consent" else {}
    async with serving(endless(calls)) as site, Client(site.url, **options) as client:
        with pytest.raises(CallTimeout, match="was not answered within 60 s"):
            await client.call_tool("checked" if need == "schema" else "query", {"region": "eu"}, timeout=60)
    assert calls.count("tools/list") > 1
    assert calls.count("tools/call") == (0 if need == "consent" else 1)


@pytest.mark.parametrize("how", ["refused", "broken", "unreadable"])
async def test_a_result_is_not_lost_with_the_list_that_would_check_it(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The call was carried out: whoever gets an error instead, as "nothing was sent", calls a second time."""
    calls: list[Any] = []
    made = endless(calls)

    async def answers(request: Any, seen: Any) -> Any:
        from aiohttp import web

        if seen.body["method"] != "tools/list":
            return await made(request, seen)
        if how == "unreadable":
            return result(seen.body["id"], {"tools": 5})
        if how == "broken":
            request.transport.abort()
        return web.Response(status=503)

    async with serving(answers) as site, Client(site.url, timeout=1) as client:
        assert (await client.call_tool("checked")).structured_content == {"a": 1}
    assert calls.count("tools/call") == 1
    assert "the result of 'checked' is not checked" in caplog.text


async def test_a_persons_decision_takes_none_of_that_time() -> None:
    """Who confirms the call may take longer than it."""
    calls: list[Any] = []

    async def slowly(_params: Any, _origin: Any) -> bool:
        let_deadlines_pass(100)
        await settle()
        return True

    plain = {"name": "query", "inputSchema": {"type": "object"}}
    async with serving(site_of([plain], calls)) as site, Client(site.url, confirm=slowly) as client:
        with pytest.raises(HeaderMismatch):
            await client.call_tool("query", {"region": "eu"}, timeout=60)


ERAS = ["2025-11-25", "2026-07-28"]


class Shop(Server):
    """A server that counts its calls."""

    def __init__(self) -> None:
        super().__init__("shop")
        self.called: list[str] = []
        self.tool(self.order)
        self.tool(annotations=ToolAnnotations(read_only_hint=True))(self.look)

    async def order(self, sku: str) -> str:
        """Order something."""
        self.called.append(sku)
        return f"ordered {sku}"

    async def look(self) -> str:
        """Look around."""
        self.called.append("look")
        return "nice"


@pytest.mark.parametrize("revision", ERAS)
async def test_nothing_is_sent_without_consent(revision: str):
    """A no is raised here; the server hears nothing."""
    shop, person = Shop(), Person(lambda item: Deny(reason="too dear"))
    async with Client(shop, confirm=Host(reviewer=person), revision=revision) as client:
        with pytest.raises(Rejected) as caught:
            await client.call_tool("order", {"sku": "P-1"})
    assert (caught.value.data, shop.called) == ({"reason": "user"}, [])
    assert "too dear" in str(caught.value.__notes__)


@pytest.mark.parametrize("revision", ERAS)
async def test_the_person_sees_what_is_called(revision: str):
    """Server, tool, what the server says of it, and the arguments as they are sent."""
    shop, person = Shop(), Person(lambda item: Approve(digest=digest(item.params)))
    async with Client(shop, confirm=Host(reviewer=person), revision=revision) as client:
        assert (await client.call_tool("order", {"sku": "P-1"})).text == "ordered P-1"
    [item] = person.shown
    assert (item.params.name, bytes(item.params.arguments)) == ("order", b'{"sku":"P-1"}')
    assert item.origin.tool.description.startswith("Order something")
    assert item.origin.call.arguments == {"sku": "P-1"}


async def test_calls_by_hand_are_confirmed_as_well():
    """Once, not in every round."""
    shop = Shop()
    async with Client(shop, confirm=Host(reviewer=Person(lambda item: Deny()))) as client:
        with pytest.raises(Rejected):
            await client.rounds.call_tool("order", {"sku": "P-1"})
    assert shop.called == []


async def test_a_mark_of_the_server_is_not_believed():
    """Read-only is its word; a rule of the user's says whose word counts."""
    shop, person = Shop(), Person(lambda item: Deny())
    async with Client(shop, confirm=Host(reviewer=person)) as client:
        with pytest.raises(Rejected):
            await client.call_tool("look")
    trusted = Policy(rules=(Rule(effect="allow", kind="tool", read_only=True),))
    async with Client(shop, confirm=Host(reviewer=person, policy=trusted)) as client:
        assert (await client.call_tool("look")).text == "nice"
        with pytest.raises(Rejected):
            await client.call_tool("order", {"sku": "P-1"})
    assert len(person.shown) == 2


async def test_any_function_can_confirm():
    """True to call it; anything else is a no."""
    shop, answers = Shop(), iter([True, False, None])

    async def confirm(params: CallToolRequestParams, origin: Origin) -> bool | None:
        return next(answers)

    async with Client(shop, confirm=confirm) as client:
        await client.call_tool("look")
        for _ in range(2):
            with pytest.raises(Rejected):
                await client.call_tool("look")
    assert shop.called == ["look"]


async def test_who_confirms_has_so_much_time():
    """Then it is a no."""

    async def never(params: CallToolRequestParams, origin: Origin) -> bool:
        await asyncio.Event().wait()
        return True

    async with Client(Shop(), confirm=never, answer_timeout=0.01) as client:
        with pytest.raises(Rejected) as caught:
            await client.call_tool("look")
    assert caught.value.data == {"reason": "expired"}


def test_what_cannot_confirm_is_refused_at_once():
    """A mistake of the program's."""
    with pytest.raises(ConfigError, match="confirm="):
        Consent("yes", None)


async def test_one_call_may_be_confirmed_by_somebody_else_as_well():
    """Asked first, with the definition of the tool; whoever is asked anyway is not asked twice."""
    asked: list[tuple[str, str | None]] = []

    class Decider:
        def __init__(self, name: str) -> None:
            self.name = name

        async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool:
            asked.append((self.name, origin.tool and origin.tool.name))
            return True

    server = Server("s")

    @server.tool
    def add() -> str:
        """Add."""
        return "3"

    usual, other = Decider("usual"), Decider("other")
    async with Client(server, confirm=usual) as client:
        assert client.confirmers == (usual,)
        await client.call_tool("add", confirm=other)
        await client.call_tool("add", confirm=usual.confirm)
    assert asked == [("other", "add"), ("usual", "add"), ("usual", "add")]
    asked.clear()
    async with Client(server) as client:
        assert [tool.name async for tool in client.tools()] == ["add"]
        await client.call_tool("add", confirm=other)
    assert asked == [("other", "add")]


async def test_the_next_decider_is_asked_about_the_changed_call():
    """Each sees the arguments that would run; the model is told of every change, in order."""
    seen: list[object] = []

    def changing(**arguments: Any) -> Confirmer:
        async def confirm(params: CallToolRequestParams, origin: Origin) -> ChangedCall | bool:
            seen.append(origin.call and origin.call.arguments)
            if len(seen) > 2:
                return True
            return ChangedCall(params=CallToolRequestParams.of(params.name, arguments), note=f"now {arguments['n']}.")

        return confirm

    server = Server("s")

    @server.tool
    def double(n: int) -> str:
        """Double."""
        return str(2 * n)

    async with Client(server, confirm=changing(n=3)) as client:
        result = await client.call_tool("double", {"n": 1}, confirm=changing(n=2))
    assert seen == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [block.text for block in result.content if isinstance(block, TextContent)] == ["6", "now 2. now 3."]


async def test_an_answer_in_place_of_a_call_ends_the_questions():
    """No other decider is asked about a call that is not made."""

    async def answers(params: CallToolRequestParams, origin: Origin) -> ChangedCall:
        return ChangedCall(result=CallToolResult(content=[TextContent(text="by hand")]))

    async def never(params: CallToolRequestParams, origin: Origin) -> bool:
        raise AssertionError

    server = Server("s")

    @server.tool
    def add() -> str:
        """Add."""
        raise AssertionError

    async with Client(server, confirm=never) as client:
        assert (await client.call_tool("add", confirm=answers)).text == "by hand"


async def test_a_decider_that_was_asked_first_has_to_allow_the_change_of_another():
    """What runs is allowed by all; one that refuses the changed call ends it, and so does a second change."""

    async def strict(params: CallToolRequestParams, origin: Origin) -> bool:
        return origin.call is not None and origin.call.arguments == {"n": 1}

    async def edits(params: CallToolRequestParams, origin: Origin) -> ChangedCall:
        return ChangedCall(params=CallToolRequestParams.of(params.name, {"n": 50_000}))

    async def edits_too(params: CallToolRequestParams, origin: Origin) -> ChangedCall:
        return await edits(params, origin)

    server = Server("s")

    @server.tool
    def pay(n: int) -> str:
        """Pay."""
        raise AssertionError

    async with Client(server, confirm=edits) as client:
        for first, reason in ((strict, "user"), (edits_too, "changed")):
            with pytest.raises(Rejected) as caught:
                await client.call_tool("pay", {"n": 1}, confirm=first)
            assert caught.value.data == {"reason": reason}
