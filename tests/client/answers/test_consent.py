"""Tools are called only if whoever confirms it says yes."""

from __future__ import annotations

import asyncio

import pytest

from antiphon import Client, Server
from antiphon.client.answers.consent import Consent
from antiphon.errors import ConfigError, Rejected
from antiphon.host import Approve, Deny, Host, Policy, Rule, digest
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, ToolAnnotations
from tests.host.asks import Person

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
