"""Our client and a server written with the TypeScript SDK v2: its asks answered, both eras, both transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from antiphon import Client
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import MissingCapability, RemoteProtocolError
from tests.interop.answers import Answerer
from tests.interop.peers import PATIENCE, Peers
from tests.interop.test_over_network import listening
from tests.support.ports import free_port

WAYS = [("stdio", "2026-07-28"), ("stdio", "2025-11-25"), ("http", "2026-07-28"), ("http", "2025-11-25")]
CHAIN = [f"Question {number}" for number in range(12)]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(peers: Peers) -> AsyncIterator[str]:
    """Run the server for the network, once for all tests."""
    port = free_port()
    async with listening([*peers.ts2_server, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def host() -> Answerer:
    """Answer everything."""
    return Answerer()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS, ids="-".join)
async def client(request: pytest.FixtureRequest, peers: Peers, address: str, host: Answerer) -> AsyncIterator[Client]:
    """Connect once for each transport and era, with everything on offer."""
    transport, revision = request.param
    target = [*peers.ts2_server, "stdio"] if transport == "stdio" else address
    async with Client(
        target,
        sampling=host.sample,
        elicitation=host.elicit,
        roots=["file:///project"],
        revision=revision,
        timeout=PATIENCE,
    ) as connected:
        assert connected.revision == revision
        yield connected


@pytest.fixture
def answerer(host: Answerer) -> Answerer:
    """Give the host of all connections, with an empty memory."""
    host.forget()
    return host


async def test_ask_model_is_answered(client: Client, answerer: Answerer):
    """The model is asked once, as the server wrote it; the origin names the call."""
    assert (await client.call_tool("ask_model", {"question": "why?"})).text == "ours: answer to why?"
    (asked,), (origin,) = answerer.sampled, answerer.origins
    assert (asked.system_prompt, asked.max_tokens, asked.temperature) == ("Be brief.", 50, 0.5)
    assert origin.call is not None
    assert origin.call.name == "ask_model"


async def test_a_chain_is_answered_in_order(client: Client, answerer: Answerer):
    """Twelve rounds: the answers travel in the server's signed state, and none is asked for twice."""
    result = await client.call_tool("survey", {"questions": CHAIN})
    assert result.text == " | ".join(f"answer to {question}" for question in CHAIN)
    assert [getattr(asked.messages[0].blocks[0], "text", "") for asked in answerer.sampled] == CHAIN


async def test_asks_of_one_round_find_their_answers(client: Client):
    """Each under its key."""
    result = await client.call_tool("compare", {"products": ["hat", "cap", "scarf"]})
    assert result.text == "answer to Describe hat | answer to Describe cap | answer to Describe scarf"


async def test_calls_that_ask_run_side_by_side(client: Client):
    """Each chain keeps to its own state."""
    chains = [[f"{chain} {number}" for number in range(3)] for chain in "abcde"]
    results = await asyncio.gather(*(client.call_tool("survey", {"questions": chain}) for chain in chains))
    assert [one.text for one in results] == [" | ".join(f"answer to {each}" for each in chain) for chain in chains]


async def test_sampling_with_tools_is_answered(client: Client):
    """With a tool use, which the server sees."""
    assert (await client.call_tool("use_tool", {"city": "Oslo"})).text == "tool_use:weather"


async def test_elicitation_and_roots_are_answered(client: Client):
    """With what the user filled in, and the client's folders."""
    assert (await client.call_tool("book", {"day": "Friday"})).text == "Friday: 4 guests, window=true"
    assert (await client.call_tool("folders")).text == "file:///project"


async def test_prompts_and_resources_ask_as_well(client: Client):
    """All three methods that may."""
    prompt = await client.get_prompt("brief", {"product": "hat"})
    assert getattr(prompt.messages[0].content, "text", "") == "answer to Brief on hat"
    read = await client.read_resource("note://tuesday")
    assert getattr(read.contents[0], "text", "") == "answer to Note on tuesday"


async def test_a_chain_beyond_our_limit_ends_with_its_name(address: str, answerer: Answerer):
    """The client says which limit it was, has asked its model no more than that, and goes on."""
    limits = RoundLimits(rounds=5)
    async with Client(
        address, sampling=answerer.sample, revision="2026-07-28", limits=limits, timeout=PATIENCE
    ) as client:
        with pytest.raises(RemoteProtocolError, match="5 rounds"):
            await client.call_tool("survey", {"questions": CHAIN})
        assert len(answerer.sampled) == 5
        assert (await client.call_tool("ask_model", {"question": "still?"})).text == "ours: answer to still?"


async def test_what_is_not_offered_is_not_asked(address: str):
    """The server finds that the client has no model: an error of its own that names the capability."""
    async with Client(address, revision="2026-07-28", timeout=PATIENCE) as client:
        with pytest.raises(MissingCapability, match="sampling"):
            await client.call_tool("ask_model", {"question": "why?"})


async def test_what_is_not_offered_fails_in_the_handshakes_era(address: str):
    """There the SDK makes a result of it."""
    async with Client(address, revision="2025-11-25", timeout=PATIENCE) as client:
        result = await client.call_tool("ask_model", {"question": "why?"})
    assert result.is_error
    assert "sampling" in result.text
