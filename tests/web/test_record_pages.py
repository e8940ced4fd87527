"""Grants, spending, models and servers."""

from __future__ import annotations

import html
import re
import time
from decimal import Decimal

import pytest

from antiphon.errors import Rejected
from antiphon.host import UNBOUNDED, Grant, MemoryStore, Terms, digest
from antiphon.host.audit import day_of
from antiphon.host.budget import DOLLAR, Account, Amount, Cap
from antiphon.host.checks.policy_rules import Policy, Rule
from antiphon.host.config.settings import Caps, Config, ServerEntry
from antiphon.host.model_catalogue import Model, ModelPrice
from antiphon.host.store.base import Change, Hold
from antiphon.host.store.chain import Record
from antiphon.web.record_pages import HEIGHT, WIDTH, lay_out_chart
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin, request
from tests.web.gated import gated
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


def text_of(shown: str) -> str:
    """Return what is read on a page, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown.partition("<main")[2])).split())


@pytest.mark.parametrize(
    ("scope", "terms", "sentence"),
    [
        ("session", Terms(uses=10, money=500_000_000), "The next 10 requests like this, up to $0.50, this session"),
        ("call", Terms(uses=1), "The next request like this, for this call"),
        (
            "always",
            Terms(until=4_000_000_000.0),
            "Every request like this, until 2096-10-02 07:06:40 UTC, in every session",
        ),
        ("always", UNBOUNDED, "Every request like this, in every session"),
    ],
)
async def test_a_grant_is_a_sentence(scope: str, terms: Terms, sentence: str):
    """What is left of it, up to which sum, until when, how far it reaches; it can be revoked."""
    async with desk() as page:
        assert "There are no grants" in (await page.get("/grants")).text
        given = await page.host.grants.add(Grant.give(request(), origin(), scope, terms))
        shown = (await page.get("/grants")).text
        assert sentence in text_of(shown).replace(" ,", ",")
        assert f"/grants/{given.id}/revoke" in shown
        assert ("without a limit" in shown) == (terms == UNBOUNDED)


async def test_a_grant_for_a_tool_names_it():
    """With what is left of its uses."""
    async with desk() as page:
        call = CallToolRequestParams(name="order", arguments={})
        given = await page.host.grants.add(Grant.give(call, origin(), "session", Terms(uses=3)))
        await page.store.commit(Change(use=given.id))
        shown = text_of((await page.get("/grants")).text).replace(" ,", ",")
        assert "The next 2 calls of order, this session" in shown
        assert "used 1 of 3" in shown


async def test_what_is_offered_for_more_than_once_is_bounded():
    """Ten requests and half a dollar, unless somebody empties the fields."""
    async with desk() as page:
        question, task = await page.asked()
        shown = (await page.get(f"/review/{question.id}")).text
        assert re.search(r'name="uses"[^>]* value="10"', shown)
        assert re.search(r'name="dollars"[^>]* value="0.50"', shown)
        task.cancel()


async def test_spending_is_a_chart_and_tables():
    """The same figures in both, by day, server and model; of tokens where nothing has a price."""
    async with desk() as page:
        assert "Nothing was spent" in (await page.get("/spending")).text
        await decided(page)
        shown = (await page.get("/spending")).text
        assert shown.count('<g class="day">') == 14
        assert "scripted" in shown
        assert "nothing has a price" in shown


async def test_spending_is_shown_by_server_over_an_axis():
    """The dearest first, each with its colour; more than five share one."""
    store = MemoryStore()
    now = time.time()
    for number in range(7):
        facts = {"at": now, "identity": f"command:{number}", "method": "sampling/createMessage", "ask": str(number)}
        paid = Record(step="settled", model="m", input_tokens=9, output_tokens=1, money=(7 - number) * 10**7, **facts)
        await store.commit(Change(records=(Record(step="received", server=f"shop{number}.py", **facts), paid)))
    async with desk(store=store) as page:
        shown = (await page.get("/spending")).text
        assert shown.count('<rect class="s5" x=') == 1
        rows = re.findall(r'<tr><td><svg class="swatch".*?</tr>', shown, re.DOTALL)
        assert [text_of(f"<main>{row}").removeprefix("> ") for row in rows] == [
            *(f"shop{number}.py 1 10 $0.0{7 - number}" for number in range(5)),
            "others 2 20 $0.03",
        ]
        assert [text for text in ("$0.00", "$0.10", "$0.20", "$0.30") if f'end">{text}' in shown] == [
            "$0.00",
            "$0.10",
            "$0.20",
            "$0.30",
        ]


async def test_budgets_are_bars_with_what_is_used():
    """Of each server that has one, of the day and of all; what is reserved is part of it."""
    store = MemoryStore()
    caps = {f"server:{origin().identity}": 4, "server:other": None, f"day:{day_of(time.time())}": 10, "total": None}
    accounts = tuple(
        Account(key=key, cap=Cap(money=None if cap is None else cap * DOLLAR)) for key, cap in caps.items()
    )
    amount = Amount(money=DOLLAR, tokens=1)
    hold = Hold(id="h", ask="1", identity="command:x", accounts=accounts, amount=amount, sent=True)
    await store.commit(Change(hold=hold))
    config = Config(servers=(ServerEntry(target=("python", "catalogue.py")),))
    async with desk(store=store, config=config) as page:
        shown = text_of((await page.get("/spending")).text)
        assert "python catalogue.py $1.00 of $4.00 ($1.00 of it reserved)" in shown
        assert "All servers, today $1.00 of $10.00" in shown
        assert "in all $1.00 of" not in shown
        assert (await page.get("/spending")).text.count('<span class="name">') == 2


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
        assert "$0.10 / $0.40" in (await page.get("/models")).text
        shown = (await page.get("/servers")).text
        for text in ("python shop.py", "refused", "99", "<strong>deny</strong>", "background = true"):
            assert text in shown
        assert "read_only" not in shown
        assert 'href="/models"' in shown
    async with desk() as page:
        assert 'href="/models"' not in (await page.get("/")).text
        assert "No models" in (await page.get("/models")).text
        assert (await page.get("/servers")).status_code == 200


async def test_the_servers_of_a_gateway_are_shown_with_their_tools():
    """State, errors with what was written, what changed, what its server claims; all of it as text."""
    store = MemoryStore()
    async with gated(store) as (gateway, _), desk(store=store, servers=gateway) as page:
        shown = text_of((await page.get("/servers")).text)
        for text in ("running", "calls of tools today: 1", "exit code 3", "no <key> was given", "Tools: 3"):
            assert text in shown
        assert "definition changed" in shown
        assert "<b> of anybody</b>" in shown
        assert "claims to be read-only" in shown
        assert "has an interface ui://shop/stock that may connect to https://api.example.com" in shown
        assert "denied by the configuration" in shown
        assert "look at its definition" in shown
        assert 'href="/servers"' in (await page.get("/")).text


async def test_what_makes_a_tool_suspect_is_marked_and_a_cut_description_says_so():
    """A changed definition warns, other than what is merely so; the first line of a description is not all of it."""
    store = MemoryStore()
    async with gated(store) as (gateway, _), desk(store=store, servers=gateway) as page:
        shown = (await page.get("/servers")).text
        for said in ("definition changed", "look at its definition"):
            assert f'<strong class="tag warning">{said}</strong>' in shown
        assert "Order something …" in shown


async def test_a_tool_is_switched_off_on_the_page():
    """For all clients, with the name of who did it; a tool that is not there is none."""
    store = MemoryStore()
    async with gated(store) as (gateway, client), desk(store=store, servers=gateway) as page:
        identity = gateway.upstreams[0].identity
        form = {"identity": identity, "tool": "order", "on": "false"}
        said = (await page.post("/servers/switch", form)).json()
        assert "switched off" in said["done"]
        assert [tool.name async for tool in client.tools()] == ["shop__stock"]
        assert (await store.standing((identity,), "order")).definition.off is not None
        await page.post("/servers/switch", {**form, "on": "true"})
        assert len([tool async for tool in client.tools()]) == 2
        assert (await page.post("/servers/switch", {**form, "tool": "none"})).status_code == 404
    async with desk() as page:
        assert (await page.post("/servers/switch", form)).status_code == 404


def test_bars_are_in_proportion():
    """Half as much is half as high, nothing is nothing; the pieces of a bar stand on one another."""
    made = lay_out_chart([("a", {0: 50}), ("b", {0: 60, 1: 40}), ("c", {})])
    half, whole, none = made.bars
    assert none.pieces == []
    lower, upper = whole.pieces
    assert abs(half.pieces[0].height * 2 - lower.height - upper.height) <= 2
    assert upper.y + upper.height == lower.y
    assert lower.y + lower.height == made.foot
    assert (whole.amount, upper.amount, upper.series) == (100, 40, 1)


def test_a_small_amount_is_seen():
    """However much another day took."""
    assert lay_out_chart([("a", {0: 1}), ("b", {0: 10**12})]).bars[0].pieces[0].height == 2


def test_bars_stay_within_the_chart():
    """Side by side, none beyond an edge; also where many small pieces are made large enough to be seen."""
    made = lay_out_chart([(str(day), dict.fromkeys(range(6), day or 1)) for day in range(14)] + [("most", {0: 10**9})])
    for bar in made.bars:
        assert made.left <= bar.x
        assert bar.x + bar.width <= WIDTH
        assert all(piece.y >= 0 and piece.y + piece.height <= made.foot < HEIGHT for piece in bar.pieces)
    assert lay_out_chart([]).bars == []


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        (0, [0]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (1_000, [0, 500, 1_000]),
        (9_999, [0, 5_000, 10_000]),
        (42_000_000, [0, 20_000_000, 40_000_000, 60_000_000]),
    ],
)
def test_the_axis_has_a_few_lines_at_round_amounts(most: int, lines: list[int]):
    """The highest is no lower than the highest bar."""
    made = lay_out_chart([("a", {0: most})])
    assert [tick.amount for tick in made.ticks] == lines
    assert [tick.y for tick in made.ticks] == sorted((tick.y for tick in made.ticks), reverse=True)
