"""Grants, spending, models and servers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from antiphon.errors import Rejected
from antiphon.host import Grant, Terms, digest
from antiphon.host.catalogue import Model
from antiphon.host.catalogue import Price as ModelPrice
from antiphon.host.checks.policy import Policy, Rule
from antiphon.host.config.shape import Caps, Config, ServerEntry
from tests.host.asks import origin, request
from tests.web.pages import Desk, desk


async def decided(page: Desk) -> None:
    """Approve one request and deny another."""
    first, answered = await page.asked(text="First")
    await page.post(f"/review/{first.id}/approve", {"digest": digest(first.item.params)})
    await answered
    second, refused = await page.asked(text="Second")
    await page.post(f"/review/{second.id}/deny", {})
    await page.client.get("/")
    with pytest.raises(Rejected):
        await refused


async def test_grants_are_listed_with_their_bounds():
    """For whom, how far, how much is used."""
    async with desk() as page:
        assert "There are no grants" in (await page.get("/grants")).text
        terms = Terms(uses=5, money=250_000_000, until=4_000_000_000.0)
        given = await page.host.grants.add(Grant.give(request(), origin(), "always", terms))
        shown = (await page.get("/grants")).text
        for text in ("0 of 5", "$0.25", "2096-10-02", f"/grants/{given.id}/revoke"):
            assert text in shown


async def test_spending_is_a_chart_and_a_table():
    """The same figures in both, by day, server and model."""
    async with desk() as page:
        assert "Nothing was spent" in (await page.get("/spending")).text
        await decided(page)
        shown = (await page.get("/spending")).text
        assert shown.count("<rect") == 14
        assert "scripted" in shown


async def test_servers_are_named_where_they_are_known():
    """By what is configured, by what waits, and by the record of what they asked."""
    async with desk(config=Config(servers=(ServerEntry(target=("python", "catalogue.py")),))) as page:
        await decided(page)
        assert "python catalogue.py" in (await page.get("/spending")).text
    async with desk() as page:
        await page.host.grants.add(Grant.give(request(system_prompt="Other"), origin(), "always"))
        assert "catalogue.py" not in (await page.get("/grants")).text
        await page.asked()
        assert "catalogue.py" in (await page.get("/grants")).text
    async with desk() as page:
        await decided(page)
        assert "catalogue.py" in (await page.get("/spending")).text


async def test_models_and_servers_are_shown_as_configured():
    """Where the page knows the configuration; otherwise there is no link to them."""
    price = ModelPrice(input=Decimal("0.1"), output=Decimal("0.4"))
    config = Config(
        models=(Model(name="quick", provider="echo", model="echo", price=price),),
        default="quick",
        servers=(
            ServerEntry(target=("python", "shop.py"), review="refuse", models=("quick",), caps=Caps(max_tokens=99)),
        ),
        policy=Policy(rules=(Rule(effect="deny", background=True),)),
    )
    async with desk(config=config) as page:
        assert "$0.1 / $0.4" in (await page.get("/models")).text
        shown = (await page.get("/servers")).text
        for text in ("python shop.py", "are refused", "99", "<strong>deny</strong>", "background = true"):
            assert text in shown
        assert "read_only" not in shown
        assert 'href="/models"' in shown
    async with desk() as page:
        assert 'href="/models"' not in (await page.get("/")).text
        assert "No models" in (await page.get("/models")).text
        assert (await page.get("/servers")).status_code == 200
