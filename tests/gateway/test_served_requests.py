"""What a gateway does with a request: it arrives as it was sent, and so does what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client, Context, Server, Tool
from antiphon.errors import InvalidParams, PeerError, ResourceNotFound
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Queue, Rule, Scripted
from antiphon.host.store import MemoryStore
from antiphon.testing import Recorder
from tests.support.behind_gateway import CELLS, ERAS, host, shop
from tests.support.raw_client import RawClient, raw_client
from tests.support.raw_server import RawServer


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_errors_arrive_as_they_were(client_era: str, server_era: str) -> None:
    """With their code, message and data."""
    gateway = Gateway({"shop": shop(server_era)}, host())
    async with Client(gateway.server, revision=client_era) as client:
        with pytest.raises(InvalidParams, match="Unknown tool: shop__nothing"):
            await client.call_tool("shop__nothing")
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("shop://hat/colour/x")
        assert caught.value.data == {"uri": "shop://hat/colour/x"}
        with pytest.raises(InvalidParams, match="topic"):
            await client.get_prompt("shop__ask", {"nothing": "x"})


async def test_a_refusal_is_a_result_for_the_model() -> None:
    """What the host does not let be called is no error of the protocol."""
    refusing = Host(Scripted([]), policy=Policy(default="deny"))
    async with Client(Gateway({"shop": shop(ERAS[0])}, refusing).server) as client:
        result = await client.call_tool("shop__count")
    assert result.is_error
    assert "refused" in result.text


@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("tool", ["describe", "order"])
async def test_a_result_says_where_a_question_waited_that_nobody_saw(server_era: str, tool: str) -> None:
    """Some hosts show their users results only, and a server knows nothing but that it was refused."""
    store = MemoryStore()
    calls = Policy(default="ask", rules=[Rule(effect="allow", kind="tool")])
    unseen = Host(Scripted([]), policy=calls, reviewer=Queue(store), store=store, review_timeout=0.05)
    arguments = {"product": "hats"} if tool == "describe" else {}
    async with Client(Gateway({"shop": shop(server_era)}, unseen).server) as client:
        try:
            told = (await client.call_tool(f"shop__{tool}", arguments)).text
        except PeerError as error:
            told = error.message
    assert "nobody decided in time: run antiphon review (in a terminal)" in told


async def test_a_cause_is_told_once() -> None:
    """The next result of the same server says nothing of the call before."""
    calls = Policy(default="ask", rules=[Rule(effect="allow", kind="tool")])
    unseen = Host(Scripted([]), policy=calls, reviewer=None)
    async with Client(Gateway({"shop": shop(ERAS[0])}, unseen).server) as client:
        told = (await client.call_tool("shop__describe", {"product": "hats"})).content[1].text
        assert told.startswith("The server's question was not answered: nobody can be asked: ")
        assert len((await client.call_tool("shop__count")).content) == 1


async def test_what_belongs_to_one_connection_is_not_passed_on() -> None:
    """Members of anybody's in ``_meta`` arrive; the protocol's own are those of the connection behind."""
    behind = Server("inside")
    seen: list[dict[str, Any]] = []

    @behind.tool
    async def look(ctx: Context) -> str:
        seen.append(ctx.request.meta)
        return "seen"

    recorder = Recorder()
    async with Client(Gateway({"in": behind}, host()).server, revision="2026-07-28", wrap=recorder) as client:
        await client.call_tool("in__look", meta={"example.com/trace": "1", "io.modelcontextprotocol/odd": "2"})
    assert "io.modelcontextprotocol/odd" in recorder.sent("tools/call")[0]["_meta"]
    assert seen[0]["example.com/trace"] == "1"
    assert "io.modelcontextprotocol/odd" not in seen[0]
    assert "progressToken" not in seen[0]


OF_CONNECTION = "io.modelcontextprotocol/odd"
ODD_RESULT = {
    "content": [{"type": "text", "text": "said", "x-block": {"a": [1]}}, {"type": "hologram", "y": 1}],
    "structuredContent": {"n": 1.0},
    "x-result": True,
    "_meta": {"example.com/trace": 1, OF_CONNECTION: 2},
}
ODD_TOOL = {
    "name": "odd", "inputSchema": {"type": "object", "x-schema": 1}, "annotations": {"x-hint": True},
    "x-tool": {"a": 1}, "_meta": {"example.com/kind": "k"},
}  # fmt: skip


class OddServer(RawServer):
    """Speaks one era, and says more than any revision knows."""

    def __init__(self, era: str) -> None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if era == ERAS[1] else {}
        super().__init__(
            tools_list=lambda _: {"tools": [ODD_TOOL], **modern},
            prompts_list=lambda _: {"prompts": [{"name": "p", "x-prompt": 1}], **modern},
            resources_list=lambda _: {"resources": [{"uri": "x://1", "name": "r", "x-resource": 1}], **modern},
            resources_templates_list=lambda _: {
                "resourceTemplates": [{"uriTemplate": "x://{n}/t", "name": "t", "x-template": 1}],
                **modern,
            },
            tools_call=self.call,
            prompts_get=lambda _: {"messages": [], "x-result": 1, **modern},
            resources_read=lambda _: {
                "contents": [{"uri": "x://1", "text": "t", "x-contents": 1}],
                "x-read": 1,
                **modern,
            },
        )
        self._modern = modern
        if era != ERAS[1]:
            self.replies["server/discover"] = self.refuse

    def refuse(self, message: dict[str, Any]) -> None:
        """Know no discovery."""
        self.send({"id": message["id"], "error": {"code": -32601, "message": "no"}})

    def call(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Answer, or fail as odd as that."""
        if message["params"].get("arguments") == {"fail": True}:
            self.send({"id": message["id"], "error": {"code": 4711, "message": "odd", "data": {"deep": [1.0, None]}}})
            return None
        return {**ODD_RESULT, **self._modern}


async def test_the_wish_for_an_experimental_task_ends_at_the_gateway() -> None:
    """A server behind would answer with a task that nobody here looks after; the call is served as any other."""
    behind = OddServer("2025-11-25")
    async with raw_client(Gateway({"in": behind}, host(), names="none").server) as raw:
        await raw.handshake("2025-11-25")
        reply = await raw.reply(raw.request("tools/call", name="odd", arguments={}, task={"ttl": 60_000}))
    assert reply["result"]["content"][0]["text"] == "said"
    (call,) = (each["params"] for each in behind.received if each.get("method") == "tools/call")
    assert "task" not in call


async def sent(client: RawClient, era: str, method: str, **params: Any) -> dict[str, Any]:
    """Make a request by hand, in the way of an era; return the reply."""
    meta = {"example.com/trace": "t", OF_CONNECTION: 1, **params.pop("meta", {})}
    if era == ERAS[1]:
        return await client.reply(client.modern(method, meta=meta, **params))
    return await client.reply(client.request(method, _meta=meta, **params))


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_what_nobody_knows_arrives_as_it_was_sent(client_era: str, server_era: str) -> None:
    """Members of params, results, blocks, definitions and errors, both ways; not what belongs to one connection."""
    behind = OddServer(server_era)
    async with raw_client(Gateway({"in": behind}, host()).server) as client:
        if client_era == ERAS[0]:
            await client.handshake()
        reply = await sent(client, client_era, "tools/call", name="in__odd", arguments={"v": 1.0}, **{"x-params": [1]})
        result = reply["result"]
        assert result["content"] == ODD_RESULT["content"]
        assert result["x-result"] is True
        assert result["_meta"]["example.com/trace"] == 1
        assert OF_CONNECTION not in result["_meta"]
        params = (await behind.request("tools/call"))["params"]
        assert (params["name"], params["arguments"], params["x-params"]) == ("odd", {"v": 1.0}, [1])
        assert params["_meta"]["example.com/trace"] == "t"
        assert OF_CONNECTION not in params["_meta"]
        failed = await sent(client, client_era, "tools/call", name="in__odd", arguments={"fail": True})
        assert failed["error"] == {"code": 4711, "message": "odd", "data": {"deep": [1.0, None]}}
        read = (await sent(client, client_era, "resources/read", uri="x://1"))["result"]
        assert (read["contents"][0]["x-contents"], read["x-read"]) == (1, 1)
        assert ("ttlMs" in read) is (client_era == ERAS[1])
        assert (await sent(client, client_era, "prompts/get", name="in__p"))["result"]["x-result"] == 1


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_definitions_are_listed_as_they_are_defined(client_era: str, server_era: str) -> None:
    """With every member, known or not, but for the name."""
    async with raw_client(Gateway({"in": OddServer(server_era)}, host()).server) as client:
        if client_era == ERAS[0]:
            await client.handshake()
        lists = {
            "tools": {**ODD_TOOL, "name": "in__odd"},
            "prompts": {"name": "in__p", "x-prompt": 1},
            "resources": {"uri": "x://1", "name": "r", "x-resource": 1},
        }
        for kind, expected in lists.items():
            assert (await sent(client, client_era, f"{kind}/list"))["result"][kind] == [expected]
        templates = (await sent(client, client_era, "resources/templates/list"))["result"]["resourceTemplates"]
        assert templates == [{"uriTemplate": "x://{n}/t", "name": "t", "x-template": 1}]


async def test_a_list_is_encoded_once_in_the_form_of_each_revision() -> None:
    """Until a server changes its tools."""
    behind = Server("inside")
    behind.add_tool(Tool(name="odd", input_schema={"type": "object", "properties": {"any": True}}), lambda _: "")
    gateway = Gateway({"in": behind}, host())
    async with (
        Client(gateway.server, revision="2025-11-25") as old,
        Client(gateway.server, revision="2026-07-28") as new,
    ):
        for client, form in ((old, {}), (new, True), (old, {}), (new, True)):
            listed = await client.list_tools()
            assert [tool.input_schema["properties"]["any"] for tool in listed.tools] == [form]
        (group,) = gateway._groups.values()
        assert set(group.catalogue.encoded) == {"2025-11-25", "2026-07-28"}
        async with new.listen(tools=True) as changes:
            behind.tool(name="new")(lambda: "")
            assert (await anext(aiter(changes))).kind == "tools"
        assert [tool.name async for tool in old.tools()] == ["in__odd", "in__new"]
