"""Whose ask it is: answered by the host, or passed on to the call that it belongs to, and to no other."""

from __future__ import annotations

from typing import Any, cast

import pytest

from antiphon import Client, CreateMessageRequestParams, Origin, Server
from antiphon.errors import Rejected
from antiphon.gateway.asks import Relay, by_host
from antiphon.host import Host, Policy, Scripted
from antiphon.server import ServerRequest
from antiphon.types import ClientCapabilities, SamplingCapability

PARAMS = CreateMessageRequestParams(messages=[], max_tokens=1)
ORIGIN = cast("Origin", None)


class Asked:
    """Stands where a client's request is, and notes what it is asked."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def ask(self, method: str, params: Any) -> str:
        """Answer."""
        self.methods.append(method)
        return "answer"


def test_the_host_answers_all_but_roots():
    """It has none to give."""
    host = Host(Scripted([]), policy=Policy(default="deny"))
    answerers = by_host(host)
    assert (answerers.sampling, answerers.roots, answerers.relay) == (host, None, None)


def test_no_more_is_declared_than_the_client_offers():
    """What it lacks has no answerer."""
    relay = Relay(ClientCapabilities(sampling=SamplingCapability()))
    answerers = relay.answerers
    assert answerers.sampling is relay
    assert (answerers.elicitation, answerers.roots) == (None, None)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_ask_outside_of_every_call_is_refused(revision: str):
    """Before a call, and after it; within, it is that call's."""
    relay, asked = Relay(ClientCapabilities()), Asked()
    async with Client(Server("s", revisions=[revision])) as client:
        with pytest.raises(Rejected, match="No call of this client is open"):
            await relay(PARAMS, ORIGIN)
        async with relay.during(cast("ServerRequest", asked), client):
            assert cast("str", await relay(PARAMS, ORIGIN)) == "answer"
        with pytest.raises(Rejected, match="No call of this client is open"):
            await relay(PARAMS, ORIGIN)
    assert asked.methods == ["sampling/createMessage"]
