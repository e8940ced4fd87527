"""Our client against the reference server, over stdio: what it offers, and what it asks of us."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from antiphon import Client
from antiphon.host.host import Host
from antiphon.wire.content import EmbeddedResource, ImageContent
from tests.interop.answers import Answerer
from tests.interop.peers import Peers

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def host() -> Answerer:
    """Answer forms with a name."""
    return Answerer(form={"name": "Ada", "check": True, "integer": 7})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(peers: Peers, host: Answerer) -> AsyncIterator[Client]:
    """Connect once, with everything on offer."""
    async with Client(
        peers.everything, sampling=host.sample, elicitation=host.elicit, roots=["file:///project"], on_log=host.log
    ) as connected:
        yield connected


@pytest.fixture
def answerer(host: Answerer) -> Answerer:
    """Give the host of the connection, with an empty memory."""
    host.forget()
    return host


async def test_an_older_server_is_recognised(client: Client):
    """It does not know the newest revision; ours falls back to the handshake."""
    assert client.revision == "2025-11-25"
    assert client.server_info is not None
    assert client.server_info.name == "mcp-servers/everything"
    assert client.instructions


async def test_its_tools_are_listed(client: Client):
    """Those it always has and those that depend on what we offer."""
    names = {tool.name async for tool in client.tools()}
    assert {"echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"} <= names


async def test_tools_are_called(client: Client):
    """Text in, text out."""
    assert (await client.call_tool("echo", {"message": "héllo ☃"})).text == "Echo: héllo ☃"
    assert (await client.call_tool("get-sum", {"a": 2, "b": 40})).text == "The sum of 2 and 40 is 42."


async def test_structured_content_is_checked_and_returned(client: Client):
    """It fits the schema the server listed."""
    result = await client.call_tool("get-structured-content", {"location": "Chicago"})
    assert result.structured_content == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}


async def test_other_content_is_typed(client: Client):
    """An image and an embedded resource."""
    image = await client.call_tool("get-tiny-image")
    assert any(isinstance(block, ImageContent) and block.mime_type == "image/png" for block in image.content)
    resource = await client.call_tool("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    assert any(isinstance(block, EmbeddedResource) for block in resource.content)


async def test_sampling_is_answered(client: Client, answerer: Answerer):
    """The answerer gets the request with its origin, the server gets the answer."""
    result = await client.call_tool("trigger-sampling-request", {"prompt": "hello", "maxTokens": 20})
    assert "answer to Resource trigger-sampling-request context: hello" in result.text
    assert answerer.sampled[0].system_prompt == "You are a helpful test server."
    assert answerer.sampled[0].max_tokens == 20
    assert answerer.origins[0].call is not None
    assert answerer.origins[0].call.name == "trigger-sampling-request"


async def test_sampling_is_answered_by_a_host(peers: Peers):
    """A host whose policy asks nobody answers with its provider."""
    host = Host("echo", review="never", reviewer=None)
    async with Client(peers.everything, sampling=host) as client:
        result = await client.call_tool("trigger-sampling-request", {"prompt": "hello"})
    assert "context: hello" in result.text


async def test_a_host_without_a_person_refuses(peers: Peers):
    """What nobody can review is not sent to a model; the tool says so and the session goes on."""
    async with Client(peers.everything, sampling=Host("echo", reviewer=None)) as client:
        result = await client.call_tool("trigger-sampling-request", {"prompt": "hello"})
        assert result.is_error
        assert "rejected" in result.text.lower()
        assert (await client.call_tool("echo", {"message": "on"})).text == "Echo: on"


async def test_elicitation_is_answered(client: Client, answerer: Answerer):
    """A form with every kind of field."""
    result = await client.call_tool("trigger-elicitation-request")
    assert "- Name: Ada" in result.text
    assert "- Favorite Integer: 7" in result.text
    assert answerer.elicited[0].message == "Please provide inputs for the following fields:"


async def test_roots_are_told(client: Client):
    """The server asks for them by itself."""
    assert "file:///project" in (await client.call_tool("get-roots-list")).text


async def test_progress_is_reported(client: Client):
    """Each step, in order."""
    seen: list[tuple[float, float | None]] = []
    result = await client.call_tool(
        "trigger-long-running-operation",
        {"duration": 0.4, "steps": 4},
        progress=lambda progress, total, _: seen.append((progress, total)),
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert "completed" in result.text


async def test_a_call_ends_with_its_deadline(client: Client):
    """The server is told to stop, and the session goes on."""
    with pytest.raises(TimeoutError):
        await client.call_tool("trigger-long-running-operation", {"duration": 30, "steps": 1}, timeout=0.3)
    assert (await client.call_tool("echo", {"message": "on"})).text == "Echo: on"


async def test_many_calls_run_side_by_side(client: Client):
    """Each gets its own answer."""
    results = await asyncio.gather(*(client.call_tool("echo", {"message": str(n)}) for n in range(50)))
    assert [result.text for result in results] == [f"Echo: {n}" for n in range(50)]


async def test_resources_are_listed_and_read(client: Client):
    """Fixed ones, and one of a template."""
    uris = [resource.uri async for resource in client.resources()]
    assert uris
    assert (await client.read_resource(uris[0])).contents
    templates = [template.uri_template async for template in client.resource_templates()]
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    read = await client.read_resource("demo://resource/dynamic/text/7")
    assert "Resource 7" in getattr(read.contents[0], "text", "")


async def test_prompts_are_listed_and_filled_in(client: Client):
    """With arguments."""
    assert "args-prompt" in {prompt.name async for prompt in client.prompts()}
    prompt = await client.get_prompt("args-prompt", {"city": "Oslo"})
    assert getattr(prompt.messages[0].content, "text", "") == "What's weather in Oslo?"


async def test_arguments_are_completed(client: Client):
    """With what was chosen for another argument as the context."""
    first = await client.complete("completable-prompt", "department", "S")
    assert list(first.completion.values) == ["Sales", "Support"]
    second = await client.complete("completable-prompt", "name", "", arguments={"department": "Sales"})
    assert list(second.completion.values) == ["David", "Eve", "Frank"]


async def test_the_log_level_is_set(client: Client, answerer: Answerer):
    """The server accepts it, and nothing below it arrives."""
    await client.set_log_level("emergency")
    await client.call_tool("toggle-simulated-logging")
    await client.call_tool("echo", {"message": "on"})
    await client.call_tool("toggle-simulated-logging")
    assert {message.level for message in answerer.logs} <= {"emergency"}


async def test_the_server_ends_with_the_session(peers: Peers):
    """Closing twice, and from another task, leaves nothing behind."""
    before = asyncio.all_tasks()
    client = Client(peers.everything)
    await client.connect()
    await asyncio.create_task(client.close())
    await client.close()
    assert asyncio.all_tasks() == before
