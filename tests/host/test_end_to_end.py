"""All of it at once: a client with a host, the real adapter, a vendor on loopback, a person, and a store in a file."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from antiphon import Client, Context, ImageContent, Server
from antiphon.host import Audit, Budget, Cap, Host, open_host, open_store
from antiphon.host.model_catalogue import ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.wire.elicitation import ElicitResult
from tests.host.asks import Person, approve
from tests.host.providers.vendor.ask import PICTURE, VENDORS, model
from tests.support.vendors import openai
from tests.support.vendors.site import KEY, serving

every_era = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.NAME)


class Who(msgspec.Struct):
    """What the person is asked for."""

    name: str


def shop() -> Server:
    """Make a server whose tool shows the model a picture, lets it use a function, and asks the person."""
    server = Server("shop")

    def price(sku: str) -> float:
        """Tell the price of a product."""
        return {"P-1": 49.5}[sku]

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe a product for somebody."""
        who = (await ctx.elicit("For whom?", Who)).value.name
        picture = ImageContent(data=PICTURE.data, mime_type="image/png")
        reply = await ctx.sample([f"Describe P-1 for {who}", picture], tools=[price], max_tokens=200)
        return f"{reply.model} in {reply.turns} turns: {reply.text}"

    return server


@every_era
@every_vendor
async def test_a_client_with_a_host_reaches_a_real_model(vendor, revision: str, tmp_path: Path):
    """Picture and tools arrive, whatever the vendor; everything is shown, asked, paid and recorded."""
    use = vendor.answer(("price", {"sku": "P-1"}), stop=vendor.TOOL_STOP)
    async with serving(vendor, use, vendor.answer("Warm, for 49.50 EUR")) as site:
        million = ModelPrice(
            input=Decimal(1_000_000), output=Decimal(1_000_000)
        )  # a dollar a token, to be seen in the sum
        known = model(vendor, site, key="KEY", context=100_000, tools=True, inputs=["image"], price=million)
        provider = Models(ModelCatalogue((known,)), {"KEY": KEY})
        store = open_store(tmp_path / "host.db")
        person = Person(approve, fill=ElicitResult(action="accept", content={"name": "Ada"}))
        host = Host(provider, reviewer=person, store=store, budget=Budget(call=Cap(), day=Cap()))
        options = {"sampling": host, "elicitation": host.elicit, "confirm": host, "revision": revision}
        async with Client(shop(), **options) as client:
            result = await client.call_tool("describe")
        await provider.aclose()
    assert (result.is_error, result.text) == (False, f"{vendor.MODEL} in 2 turns: Warm, for 49.50 EUR")
    first, second = (seen.body for seen in site.seen)
    assert PICTURE.data in str(first).translate(str.maketrans("-_", "+/"))  # one of them writes base64 for URLs
    assert "for Ada" in str(first)
    assert [name for name, _ in vendor.facts(first)["tools"]] == ["price"]
    assert "49.5" in str(vendor.results(second))
    confirmed, *requests = person.shown
    assert confirmed.params.name == "describe"
    assert [item.model for item in requests] == ["mine", "mine"]
    assert [form.params.message for form in person.forms] == ["For whom?"]
    records = [entry.record async for entry in Audit(store).entries()]
    ends = Counter((record.method, record.step) for record in records if record.step in ("answered", "settled"))
    # Each answer twice: it was made, and it was handed over.
    assert ends == {
        ("tools/call", "answered"): 2,
        ("elicitation/create", "answered"): 2,
        ("sampling/createMessage", "settled"): 2,
        ("sampling/createMessage", "answered"): 4,
    }
    assert sum(record.outcome == "handed-over" for record in records) == 4
    assert sum(record.money or 0 for record in records) == 2 * (11 + 7) * 10**9
    assert ((await Audit(store).verify()).whole, await store.holds()) == (True, [])
    await store.aclose()


@every_era
async def test_an_address_in_the_environment_is_enough(revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No file, no key: the model at home answers what a person approves."""
    monkeypatch.chdir(tmp_path)
    use = openai.answer(("price", {"sku": "P-1"}), stop=openai.TOOL_STOP)
    async with serving(openai, use, openai.answer("Warm")) as site:
        person = Person(approve, fill=ElicitResult(action="accept", content={"name": "Ada"}))
        environ = {"OPENAI_BASE_URL": f"{site.url}/v1", "XDG_CONFIG_HOME": str(tmp_path)}
        async with (
            open_host(environ=environ, reviewer=person) as host,
            Client(shop(), sampling=host, elicitation=host.elicit, revision=revision) as client,
        ):
            text = (await client.call_tool("describe")).text
    assert text.endswith("in 2 turns: Warm")
    assert PICTURE.data in str(site.seen[0].body)
    assert (len(site.seen), len(person.shown)) == (2, 2)
