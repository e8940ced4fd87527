"""Our client against a server written with the official Python SDK 2.x, over stdio, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from antiphon import Client
from antiphon.errors import InvalidParams, PeerError, ResourceNotFound
from tests.interop.answers import Answerer
from tests.interop.peers import Peers

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "auto"]
NEWEST = ["2025-11-25", "2026-07-28"]
both_eras = pytest.mark.parametrize("revision", NEWEST)
legacy_only = pytest.mark.parametrize("revision", ["2025-11-25"])


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def host() -> Answerer:
    """Answer everything."""
    return Answerer()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(peers: Peers, host: Answerer) -> AsyncIterator[dict[str, Client]]:
    """Connect once for each revision, with everything on offer."""

    def client(revision: str) -> Client:
        return Client(
            peers.python2_server,
            sampling=host.sample,
            elicitation=host.elicit,
            roots=["file:///project"],
            revision=revision,
            log_level="info",
            on_log=host.log,
        )

    connected = {revision: client(revision) for revision in REVISIONS}
    for one in connected.values():
        await one.connect()
    yield connected
    await asyncio.gather(*(one.close() for one in connected.values()))


@pytest.fixture
def client(clients: dict[str, Client], revision: str) -> Client:
    """Give the client of one revision."""
    return clients[revision]


@pytest.fixture
def answerer(host: Answerer) -> Answerer:
    """Give the host of all connections, with an empty memory."""
    host.forget()
    return host


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_revision_is_agreed_on(client: Client, revision: str):
    """What we ask for is what is spoken; by default the newest."""
    assert client.revision == ("2026-07-28" if revision == "auto" else revision)
    assert client.server_info is not None
    assert client.server_info.name == "python2"
    assert (await client.call_tool("echo", {"text": "héllo ☃"})).text == "héllo ☃"


async def test_a_server_that_starts_slowly_is_met(peers: Peers, monkeypatch: pytest.MonkeyPatch):
    """It answers the probe after we gave up on it, and is modern by the time the handshake arrives."""
    monkeypatch.setattr("antiphon.client.link.PROBE_TIMEOUT", 0.1)
    async with Client(peers.python2_server) as client:
        assert client.revision == "2026-07-28"
        assert (await client.call_tool("echo", {"text": "on"})).text == "on"


@both_eras
async def test_structured_content_is_checked_and_returned(client: Client):
    """It fits the schema the server listed."""
    assert (await client.call_tool("add", {"a": 2, "b": 40})).structured_content == {"total": 42}


@both_eras
async def test_a_failing_tool_is_a_result(client: Client):
    """It raises nothing here."""
    result = await client.call_tool("fail", {"reason": "on purpose"})
    assert result.is_error
    assert "on purpose" in result.text


@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_sampling_is_answered(client: Client, answerer: Answerer):
    """By the same answerer, whether it came as a request or in a round."""
    result = await client.call_tool("describe", {"product": "sweater"})
    assert result.text == "ours: answer to Describe sweater"
    (asked,) = answerer.sampled
    assert (asked.system_prompt, asked.max_tokens, asked.temperature) == ("Be brief.", 50, 0.5)


@both_eras
async def test_sampling_with_tools_is_answered(client: Client):
    """With a tool use, which the server sees."""
    assert (await client.call_tool("use_tool", {"city": "Oslo"})).text == "tool_use:weather"


@both_eras
async def test_calls_that_sample_run_side_by_side(client: Client):
    """Each gets its own answer."""
    results = await asyncio.gather(*(client.call_tool("describe", {"product": str(n)}) for n in range(8)))
    assert [result.text for result in results] == [f"ours: answer to Describe {n}" for n in range(8)]


@both_eras
async def test_the_origin_names_the_call(client: Client, answerer: Answerer, revision: str):
    """The answerer knows which tool is behind a request, and in which round it came."""
    await client.call_tool("describe", {"product": "sweater"})
    (origin,) = answerer.origins
    assert origin.call is not None
    assert (origin.call.name, origin.call.arguments) == ("describe", {"product": "sweater"})
    assert (origin.round is not None) is (revision == "2026-07-28")


@both_eras
async def test_elicitation_is_answered(client: Client):
    """With what the user filled in."""
    assert (await client.call_tool("book", {"day": "Friday"})).text == "Friday: 4 guests, window=True"


@both_eras
async def test_elicitation_is_declined(peers: Peers, revision: str):
    """The call goes on and says so."""

    async def decline(params: object, origin: object) -> None:
        """Decline."""

    async with Client(peers.python2_server, elicitation=decline, revision=revision) as client:
        assert (await client.call_tool("book", {"day": "Friday"})).text == "Friday: decline"


@both_eras
async def test_roots_are_told(client: Client):
    """To a tool that asks."""
    assert (await client.call_tool("folders")).text.endswith("=file:///project")


@legacy_only
async def test_pushed_asks_are_answered(client: Client):
    """Imperative asks exist only with the handshake."""
    assert (await client.call_tool("push_describe", {"product": "hat"})).text == "ours: answer to Describe hat"
    assert (await client.call_tool("push_book", {"day": "Friday"})).text == "Friday: accept"


@both_eras
async def test_what_is_not_offered_is_not_asked(peers: Peers, revision: str):
    """The server finds that the client cannot sample."""
    async with Client(peers.python2_server, revision=revision) as client:
        with pytest.raises(PeerError, match="sampling"):
            await client.call_tool("describe", {"product": "sweater"})


@both_eras
async def test_progress_is_reported(client: Client):
    """Each step, in order, with its message."""
    seen: list[tuple[float, float | None, str | None]] = []
    await client.call_tool("count", {"to": 3}, progress=lambda *report: seen.append(report))
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.parametrize("revision", ["2026-07-28"])
async def test_log_messages_keep_to_the_level(client: Client, answerer: Answerer):
    """Every request carries the level that was asked for."""
    await client.call_tool("speak", {"text": "up"})
    assert [(message.level, message.data) for message in answerer.logs] == [("warning", "warning up")]


@both_eras
async def test_a_call_ends_with_its_deadline(client: Client):
    """The server is told to stop, and the session goes on."""
    with pytest.raises(TimeoutError):
        await client.call_tool("linger", timeout=0.3)
    assert (await client.call_tool("echo", {"text": "on"})).text == "on"


@both_eras
async def test_resources_are_listed_and_read(client: Client):
    """A fixed one and one of a template."""
    assert [resource.uri async for resource in client.resources()] == ["note://welcome"]
    assert [one.uri_template async for one in client.resource_templates()] == ["note://{title}"]
    assert getattr((await client.read_resource("note://tuesday")).contents[0], "text", "") == "Note tuesday"


@both_eras
async def test_an_unknown_resource_is_an_error(client: Client):
    """The SDK calls it invalid params in both eras; where the revision does so too, it is told apart."""
    with pytest.raises((InvalidParams, ResourceNotFound), match="Unknown resource"):
        await client.read_resource("nowhere://at/all")


@both_eras
async def test_prompts_are_filled_in_and_completed(client: Client):
    """With arguments, and with what fits what was typed."""
    prompt = await client.get_prompt("review", {"language": "python"})
    assert getattr(prompt.messages[0].content, "text", "") == "Review this python: pass"
    completed = await client.complete("review", "language", "p")
    assert list(completed.completion.values) == ["python", "perl"]
