"""Tags, versions, features that only some principals see, and how long clients may keep what they got."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError
from antiphon.middleware import ResponseCachingMiddleware
from antiphon.testing import connected
from tests.support.raw_client import RawClient, raw_client
from tests.support.tasking import tasking


def is_ann(principal: str | None) -> bool:
    """Tell whether it is Ann."""
    return principal == "ann"


def shop(**options: Any) -> Server:
    """Make a server with one feature of each kind that Ann alone sees, and one for everybody."""
    server = Server("shop", **options)
    for name, visible in (("secret", is_ann), ("open", None)):
        more: dict[str, Any] = {} if visible is None else {"visible": visible}
        server.tool(name=name, task="allowed", **more)(lambda: "done")
        server.prompt(name=name, **more)(lambda who="all": f"for {who}")
        server.resource(f"shop://{name}", **more)(lambda: "text")
        server.resource(f"shop://{name}/{{item}}", **more)(lambda item: item)
        server.complete(name, "who")(lambda value: ["all"])
        server.complete(f"shop://{name}/{{item}}", "item")(lambda value: ["hat"])
    return server


LISTS = {
    "tools/list": ("tools", "name", ["secret", "open"]),
    "prompts/list": ("prompts", "name", ["secret", "open"]),
    "resources/list": ("resources", "uri", ["shop://secret", "shop://open"]),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", ["shop://secret/{item}", "shop://open/{item}"]),
}


async def listed(raw: RawClient) -> list[list[str]]:
    """List what a client is offered of each kind."""
    found: list[list[str]] = []
    for method, (member, key, _) in LISTS.items():
        result = (await raw.reply(raw.modern(method)))["result"]
        found.append([item[key] for item in result[member]])
    return found


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_what_is_hidden_is_not_listed(*, is_mounted: bool) -> None:
    """Each principal has a list of its own; nobody gets that of another from a cache of ours."""
    server = shop()
    if is_mounted:
        server = Server("front")
        server.mount(shop())
    for _ in range(2):
        for principal in ("ann", "ben", None):
            async with raw_client(server, principal=principal) as raw:
                expected = [names if principal == "ann" else names[1:] for _, _, names in LISTS.values()]
                assert await listed(raw) == expected


@pytest.mark.parametrize("around", ["plain", "middleware", "mounted"])
async def test_what_is_hidden_is_unknown_to_every_request(around: str) -> None:
    """The error is the same as for a name that nothing has, word by word."""
    server = shop()
    if around == "middleware":
        server.middleware(lambda request, call_next: call_next(request))
    elif around == "mounted":
        server, inner = Server("front"), server
        server.mount(inner)

    def requests(name: str) -> list[tuple[str, dict[str, Any]]]:
        prompt = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": ""}}
        template = {
            "ref": {"type": "ref/resource", "uri": f"shop://{name}/{{item}}"},
            "argument": {"name": "item", "value": ""},
        }
        return [
            ("tools/call", {"name": name, "arguments": {}}),
            ("prompts/get", {"name": name}),
            ("resources/read", {"uri": f"shop://{name}"}),
            ("resources/read", {"uri": f"shop://{name}/hat"}),
            ("completion/complete", prompt),
            ("completion/complete", template),
        ]

    async with raw_client(server, principal="ben") as raw:
        for (method, hidden), (_, unknown) in zip(requests("secret"), requests("absent"), strict=True):
            refused = (await raw.reply(raw.modern(method, **hidden)))["error"]
            expected = (await raw.reply(raw.modern(method, **unknown)))["error"]
            assert str(refused).replace("secret", "absent") == str(expected)
    async with raw_client(server, principal="ann") as raw:
        for method, params in requests("secret"):
            assert "result" in await raw.reply(raw.modern(method, **params)), method


async def test_a_task_of_a_hidden_tool_is_not_begun() -> None:
    """A call that becomes a task is a call."""
    async with tasking(shop(), principal="ann") as client:
        assert await client.text(await client.start("secret")) == "done"
    async with raw_client(shop(), principal="ben") as raw:
        extensions = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        error = await raw.error("tools/call", name="secret", arguments={}, capabilities=extensions)
        assert "Unknown tool" in error["message"]


async def test_nobody_hears_of_changes_of_what_is_hidden() -> None:
    """A subscription is accepted as for a URI that does not exist, and nothing comes of it."""
    server = shop()
    async with raw_client(server, principal="ben") as ben, raw_client(server, principal="ann") as ann:
        for raw in (ben, ann):
            await raw.handshake()
            for name in ("secret", "open"):
                assert "result" in await raw.reply(raw.request("resources/subscribe", uri=f"shop://{name}"))
        server.resource_updated("shop://secret")
        server.resource_updated("shop://open")
        for raw, expected in ((ben, ["shop://open"]), (ann, ["shop://secret", "shop://open"])):
            await raw.reply(raw.request("ping"))
            updated = [
                n["params"]["uri"] for n in raw.notifications if n["method"] == "notifications/resources/updated"
            ]
            assert updated == expected


async def test_tags_and_versions_are_sent_and_found() -> None:
    """Also of definitions that were written by hand; ``meta=`` of the author stays."""
    server = Server("shop")
    server.tool(name="sell", tags={"write", "till"}, version="2", meta={"x": 1})(lambda: "done")
    server.resource("shop://stock", tags=["till"])(lambda: "ten")
    server.prompt(name="ask", version="1.0")(lambda: "?")
    [tool] = server.list_by_tag("write")
    assert tool.definition.meta == {"x": 1, "antiphon/tags": ["till", "write"], "antiphon/version": "2"}
    found = server.list_by_tag("till")
    assert [repr(each) for each in found] == ["Tool('sell')", "Resource('shop://stock')"]
    assert [each.name for each in found] == ["sell", found[1].definition.name]
    async with connected(server) as client:
        [prompt] = [each async for each in client.prompts()]
        assert prompt.meta == {"antiphon/version": "1.0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tags": "write"}, "tags= is a set"),
        ({"cache": -1}, "cache= is a number of seconds"),
        ({"cache": "5"}, "cache= is a number of seconds, not '5'"),
        ({"timeout": "5"}, "timeout= is a number of seconds, not '5'"),
        ({"visible": True}, "visible= is a function"),
        ({"visibel": is_ann}, "did you mean visible="),
        ({"name": 5}, "name= is text, not 5"),
        ({"title": 5}, "title= is text, not 5"),
        ({"description": b"x"}, "description= is text, not b'x'"),
        ({"version": 2}, "version= is text, not 2"),
        ({"ui": 5}, "ui= is text, not 5"),
        ({"meta": [1]}, r"meta= takes names with their values, not \[1\]"),
        ({"output_schema": "x"}, "output_schema= takes names with their values, not 'x'"),
    ],
)
def test_wrong_options_are_refused(options: Any, words: str) -> None:
    """At the decorator."""
    with pytest.raises(ConfigError, match=words):
        Server("shop").tool(**{"name": "sell", **options})(lambda: "done")


@pytest.mark.parametrize("option", ["name", "title", "description", "mime_type"])
def test_what_is_no_text_is_no_option_of_a_resource_or_a_prompt_either(option: str) -> None:
    """It would make a list that no client can read."""
    given: Any = {option: 5}
    with pytest.raises(ConfigError, match=f"{option}= is text, not 5"):
        Server("shop").resource("shop://stock", **given)(lambda: "ten")
    if option != "mime_type":
        with pytest.raises(ConfigError, match=f"{option}= is text, not 5"):
            Server("shop").prompt(**given)(lambda: "?")


async def hints(server: Server, method: str, principal: str | None = None, **params: Any) -> tuple[int, str]:
    """Return for how long and for whom a result may be kept."""
    async with raw_client(server, principal=principal) as raw:
        result = (await raw.reply(raw.modern(method, **params)))["result"]
        return result["ttlMs"], result["cacheScope"]


async def test_lists_and_resources_say_how_long_they_may_be_kept() -> None:
    """By the server's options, or the resource's; without any of them nothing may be kept."""
    server = Server("shop", cache_ttl=60, cache_scope="public")
    server.tool(name="open")(lambda: "done")
    server.resource("shop://stock")(lambda: "ten")
    server.resource("shop://logo", cache=3_600)(lambda: "logo")
    server.resource("shop://clock", cache=0)(lambda: "now")
    assert await hints(server, "tools/list") == (60_000, "public")
    assert await hints(server, "resources/templates/list") == (60_000, "public")
    for name, seconds in (("stock", 60), ("logo", 3_600), ("clock", 0)):
        assert await hints(server, "resources/read", uri=f"shop://{name}") == (seconds * 1_000, "public")
    assert await hints(shop(), "tools/list") == (0, "private")


async def test_a_result_is_private_where_a_principal_is_known_or_something_is_hidden() -> None:
    """Another caller may get another one, whatever the author says."""
    server = shop(cache_ttl=60, cache_scope="public")
    assert await hints(server, "tools/list") == (60_000, "private")
    assert await hints(server, "resources/read", uri="shop://open") == (60_000, "public")
    assert await hints(server, "resources/read", "ben", uri="shop://open") == (60_000, "private")
    assert await hints(Server("shop", cache_ttl=1, cache_scope="public", declares=["tools"]), "tools/list", "ann") == (
        1_000,
        "private",
    )


async def test_what_a_person_answered_is_not_to_be_kept() -> None:
    """A resource that asks depends on the answer; an author's own hint is left alone."""
    server = Server("shop", cache_ttl=60)

    @server.resource("shop://wish")
    async def wish(ctx: Context) -> str:
        return (await ctx.sample("What?")).text

    async def model(params: Any, origin: Any) -> str:
        return "a hat"

    async with connected(server, sampling=model) as client:
        assert (await client.read_resource("shop://wish")).ttl_ms == 0


async def test_ready_caching_goes_by_the_option_of_a_tool() -> None:
    """The protocol has no hint for the results of calls."""
    server, runs = Server("shop"), list[int]()
    server.middleware(ResponseCachingMiddleware())

    @server.tool(cache=60)
    def count() -> int:
        runs.append(1)
        return len(runs)

    async with connected(server) as client:
        for _ in range(2):
            assert (await client.call_tool("count")).text == "1"


def test_hints_that_cannot_be_given_are_refused() -> None:
    """When the server is made."""
    wrong: Any = "everybody"
    with pytest.raises(ConfigError, match="cache_ttl"):
        Server("shop", cache_ttl=-1)
    with pytest.raises(ConfigError, match="cache_scope"):
        Server("shop", cache_scope=wrong)


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_an_async_function_is_refused_as_visible(kind: str) -> None:
    """Its coroutine would count as true, so that everybody saw the feature."""

    async def is_ann(principal: str | None) -> bool:
        return principal == "ann"

    class IsAnn:
        async def __call__(self, principal: str | None) -> bool:
            return principal == "ann"

    server = Server("s")
    add: Any = partial(server.resource, "a://b") if kind == "resource" else getattr(server, kind)
    for visible in (is_ann, partial(is_ann), IsAnn()):
        with pytest.raises(ConfigError, match="visible= is a function of the principal that is not async"):
            add(name="x", visible=visible)(lambda: "")


@pytest.mark.filterwarnings("ignore:coroutine")
async def test_a_coroutine_hides_a_feature() -> None:
    """A lambda may return one as well, which nobody can see beforehand."""

    async def is_ann(principal: str | None) -> bool:
        return principal == "ann"

    server = Server("s")
    server.tool(name="x", visible=lambda _: is_ann("ann"))(lambda: "")
    async with Client(server) as client:
        assert [tool.name async for tool in client.tools()] == []
