"""Whose ask it is: answered by the host, or passed on to the request that it belongs to, and to no other."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec import Raw

from antiphon import Client, CreateMessageRequestParams, Origin, Server
from antiphon.errors import Rejected
from antiphon.gateway import Gateway
from antiphon.gateway.asks import ElicitsIn, by_client, by_host
from antiphon.host import Host, Policy, Rule, Scripted
from antiphon.server import ServerRequest
from antiphon.types import ClientCapabilities, Implementation, SamplingCapability
from antiphon.wire.lossless import Received
from antiphon.wire.origin import Round
from tests.support.behind_gateway import CELLS, Offering, host, shop

PARAMS = CreateMessageRequestParams(messages=[], max_tokens=1)
ASK = Received(Raw(b'{"messages":[],"maxTokens":1,"new":true}'), PARAMS)


class Asked:
    """Stands where a client's request is, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, str | None]] = []

    async def forward(self, method: str, ask: Received, *, key: str | None) -> Received:
        """Answer."""
        self.asked.append((method, bytes(ask.raw), key))
        return ask


def test_the_host_answers_all_but_roots():
    """It has none to give."""
    denying = Host(Scripted([]), policy=Policy(default="deny"))
    answerers = by_host(denying)
    assert (answerers.sampling, answerers.roots) == (denying, None)


def test_no_more_is_declared_than_the_client_offers():
    """What it lacks has no answerer; what it has is declared as it declares it."""
    offered = ClientCapabilities(sampling=SamplingCapability(tools={}))
    answerers = by_client(offered)
    assert (answerers.elicitation, answerers.roots) == (None, None)
    assert answerers.sampling.capabilities is offered


@pytest.mark.parametrize(("revision", "this"), [("2025-11-25", None), ("2026-07-28", Round(n=1, max=2))])
async def test_an_ask_outside_of_every_request_is_refused(revision: str, this: Round | None):
    """Before a request, and after it; within, it is that request's, with its key and all its members."""
    answerers, asked = by_client(ClientCapabilities(sampling=SamplingCapability())), Asked()
    origin = Origin(id="1", identity="x", target="x", round=this)
    async with Client(Server("s", revisions=[revision])) as client:
        with pytest.raises(Rejected, match="belongs to no open call of this client"):
            await answerers.sampling.forward(ASK, origin, "k")
        async with answerers.open.during(cast("ServerRequest", asked), client):
            assert await answerers.sampling.forward(ASK, origin, "k") is ASK
        with pytest.raises(Rejected, match="belongs to no open call of this client"):
            await answerers.sampling.forward(ASK, origin, "k")
    assert asked.asked == [("sampling/createMessage", bytes(ASK.raw), "k")]


CLAUDE = Implementation(name="claude-code", version="2.1.80")
OLDER = Implementation(name="claude-code", version="2.1.75")
ANYBODY = Implementation(name="anybody", version="9")


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
@pytest.mark.parametrize(
    ("info", "elicits_in", "by_client"),
    [
        (CLAUDE, "auto", True),
        (OLDER, "auto", False),
        (ANYBODY, "auto", False),
        (ANYBODY, "client", True),
        (CLAUDE, "host", False),
    ],
)
async def test_an_elicitation_is_shown_where_it_is_known_to_be_shown(
    client_era: str, server_era: str, info: Implementation, elicits_in: ElicitsIn, by_client: bool
):
    """By the client that made the call, or by the host's reviewer; sampling is the host's in any case."""
    user = Offering()
    gateway = Gateway({"shop": shop(server_era)}, host("by the host"), elicits_in=elicits_in)
    offered: dict[str, Any] = {"sampling": user.sample, "elicitation": user.elicit}
    async with Client(gateway.server, revision=client_era, info=info, **offered) as client:
        assert (await client.call_tool("shop__order")).text == f"accept: {5 if by_client else 3}"
        assert (await client.call_tool("shop__describe", {"product": "a hat"})).text == "by the host"
    assert user.asked == (["How many?"] if by_client else [])


async def test_what_a_client_shows_is_decided_by_the_policy_first():
    """A rule that denies elicitations holds wherever they would be shown."""
    user = Offering()
    denying = Host(Scripted([]), policy=Policy(default="allow", rules=(Rule(effect="deny", kind="elicitation"),)))
    gateway = Gateway({"shop": shop("2025-11-25")}, denying, elicits_in="client")
    async with Client(gateway.server, elicitation=user.elicit) as client:
        assert (await client.call_tool("shop__order")).text == "decline: None"
    assert user.asked == []
