"""Every combination that the revisions define: client, server, what is asked, and the transport in front.

A table says which asks a revision has. What either side's revision does not have is refused by name; all else arrives,
as the same question, and its answer comes back.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import AntiphonError, Client, Context, Server
from antiphon.gateway import Gateway
from antiphon.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    SamplingCapability,
)
from antiphon.wire.revisions import REVISIONS
from tests.support.behind_gateway import CELLS, ERAS, host
from tests.support.network import listening

NAMES = [revision.name for revision in REVISIONS]
ASKS = {"sampling": "2024-11-05", "form": "2025-06-18", "url": "2025-11-25", "roots": "2024-11-05"}
"""What a server may ask, and the first revision that has it."""
NEEDED = {"sampling": "sampling", "form": "elicitation", "url": "elicitation", "roots": "roots"}
"""What a refusal names."""
URLS = {"http": "http://{}/mcp", "sse": "http://{}/sse", "websocket": "ws://{}/ws"}
TRANSPORTS = ["stdio", *URLS]
UNDEFINED = {("sse", "2026-07-28")}
"""Transports that an era does not have: the last revision with HTTP+SSE is a legacy one."""
TABLE = list(itertools.product(NAMES, NAMES, ASKS))


def asking(revision: str) -> Server:
    """Make a server of one revision that asks everything."""
    server = Server(f"asking {revision}", revisions=[revision])

    @server.tool
    async def sampling(ctx: Context) -> str:
        return (await ctx.sample("Who?")).text

    @server.tool
    async def form(ctx: Context) -> str:
        answer = await ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return f"{answer.action} {answer.value}"

    @server.tool
    async def url(ctx: Context) -> str:
        return (await ctx.elicit_url("Pay", "https://pay.example/1")).action

    @server.tool
    async def roots(ctx: Context) -> str:
        return str([root.uri for root in await ctx.list_roots()])

    return server


class User:
    """Answers everything, in every mode."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @property
    def capabilities(self) -> ClientCapabilities:
        """Offers both modes of elicitation."""
        return ClientCapabilities(sampling=SamplingCapability(), elicitation=ElicitationCapability(form={}, url={}))

    async def sample(self, params: Any, origin: Any) -> str:
        """Say who."""
        self.asked.append(params.messages[0].text)
        return "I"

    async def elicit(self, params: ElicitRequestParams, origin: Any) -> ElicitResult:
        """Accept."""
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"n": 5} if params.mode == "form" else None)

    async def roots(self) -> list[str]:
        """Offer one folder."""
        self.asked.append("roots")
        return ["file:///relayed"]

    @property
    def offers(self) -> dict[str, Any]:
        """What a client of this user is made with."""
        return {"sampling": self.sample, "elicitation": self.elicit, "roots": self.roots}


EXPECTED = {
    "sampling": ("I", "Who?"),
    "form": ("accept {'n': 5}", "How many?"),
    "url": ("accept", "Pay"),
    "roots": ("['file:///relayed']", "roots"),
}


def is_defined(ask: str, *revisions: str) -> bool:
    """Tell whether all of these revisions have an ask."""
    return all(revision >= ASKS[ask] for revision in revisions)


def test_the_table_is_complete() -> None:
    """Every pair of revisions with every ask, and each cell of eras among them."""
    assert len(TABLE) == len(NAMES) ** 2 * len(ASKS)
    assert {(client, server) for client, server, _ in TABLE} >= set(CELLS)
    assert sum(is_defined(ask, client, server) for client, server, ask in TABLE) == 25 + 25 + 9 + 4


@pytest.mark.parametrize(("client_revision", "server_revision", "ask"), TABLE)
async def test_an_ask_is_relayed_where_both_revisions_have_it(
    client_revision: str, server_revision: str, ask: str
) -> None:
    """The user of the client is asked, and nobody else; where it cannot be asked, the refusal says what is missing."""
    user = User()
    gateway = Gateway({"in": asking(server_revision)}, host(), asks="relay", names="none")
    async with Client(gateway.server, revision=client_revision, **user.offers) as client:
        if is_defined(ask, client_revision, server_revision):
            answer, question = EXPECTED[ask]
            assert (await client.call_tool(ask)).text == answer
            assert user.asked == [question]
        else:
            assert NEEDED[ask] in await refusal(client, ask)
            assert user.asked == []


async def refusal(client: Client, ask: str) -> str:
    """Call a tool that cannot ask; return what it says."""
    try:
        result = await client.call_tool(ask)
    except AntiphonError as error:
        return str(error).lower()
    assert result.is_error
    return result.text.lower()


HOSTED = list(itertools.product(NAMES, ["sampling", "form", "url"]))


@pytest.mark.parametrize(("server_revision", "ask"), HOSTED)
async def test_the_host_answers_a_client_of_the_oldest_revision(server_revision: str, ask: str) -> None:
    """Whatever the server's revision has, though the client's has next to nothing."""
    gateway = Gateway({"in": asking(server_revision)}, host("by the host"), names="none")
    async with Client(gateway.server, revision=NAMES[0]) as client:
        if is_defined(ask, server_revision):
            said = (await client.call_tool(ask)).text
            assert said in ("by the host", "accept {'n': 3}", "accept")
        else:
            assert "elicitation" in await refusal(client, ask)


BEHIND = """
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted
from tests.gateway.test_cells import ERAS, asking

host = Host(Scripted([]), policy=Policy(default="allow"))
Gateway({era[:4]: asking(era) for era in ERAS}, host, asks="relay").run()
"""


@asynccontextmanager
async def in_front(transport: str, folder: Path) -> AsyncIterator[Any]:
    """Serve a gateway with a server of each era behind it; yields what its client connects to."""
    if transport == "stdio":
        program = folder / "gateway.py"
        program.write_text(BEHIND, encoding="utf-8")
        root = str(Path(__file__).parents[2])
        yield {"command": sys.executable, "args": [str(program)], "env": {"PYTHONPATH": root}}
        return
    behind = {era[:4]: asking(era) for era in ERAS}
    async with listening(Gateway(behind, host(), asks="relay").server, transport) as network:
        yield URLS[transport].format(network.place)


@pytest.mark.parametrize(
    ("transport", "era"), [pair for pair in itertools.product(TRANSPORTS, ERAS) if pair not in UNDEFINED]
)
async def test_an_ask_is_relayed_over_every_transport(transport: str, era: str, tmp_path: Path) -> None:
    """All asks, of a server of each era, over what the client connects by."""
    user = User()
    async with in_front(transport, tmp_path) as target, Client(target, revision=era, **user.offers) as client:
        for server_era, (ask, (answer, question)) in itertools.product(ERAS, EXPECTED.items()):
            assert (await client.call_tool(f"{server_era[:4]}__{ask}")).text == answer
            assert user.asked.pop() == question
    assert user.asked == []


async def test_an_era_that_a_transport_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    """Instead of something that nobody defined."""
    async with in_front("sse", tmp_path) as target:
        with pytest.raises(AntiphonError, match="2026-07-28"):
            await Client(target, revision="2026-07-28").connect()
