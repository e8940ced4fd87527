"""One amount reads the same on each surface, and it is the amount that is reserved or that was spent."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import httpx

from antiphon.host.budget import Budget, Cap, format_dollars
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.review.review import most_of
from antiphon.web.page_server import running_page
from antiphon.wire.sampling import text_answer
from tests.cli.commands.review.test_terminal_queue import at_queue
from tests.cli.conftest import Cli
from tests.cli.waiting import waiting
from tests.host.asks import approve, request
from tests.web.pages import visitor

DOLLARS = re.compile(r"\$\d[\d,.]*\d")


class PricedModels(Models):
    """Two models whose prices leave no round sums; each answers with some tokens."""

    def __init__(self) -> None:
        made = [
            Model(
                name=name, provider="openai", key="KEY", model=name, context=100_000,
                price=ModelPrice(input=Decimal(asked), output=Decimal(answered)),
            )
            for name, asked, answered in (("small", "0.15", "0.61"), ("large", "3.07", "15.13"))
        ]  # fmt: skip
        super().__init__(ModelCatalogue(tuple(made), default="small"), {"KEY": "x"})

    async def generate(self, params, *, model=None, fallbacks=()):
        return Completion(
            result=text_answer("Warm.", "small"), usage=Usage(input_tokens=17, output_tokens=23), by="small"
        )

    async def stream(self, params, growth, *, model=None, fallbacks=()):
        return await self.generate(params, model=model, fallbacks=fallbacks)


def find_sums(text: str) -> set[str]:
    """Return all sums in a text, but those of tooltips, which are exact."""
    return set(DOLLARS.findall(re.sub(r'title="[^"]*"', "", text)))


async def read_page(browser: httpx.AsyncClient, path: str) -> set[str]:
    """Return the sums on a view of the page."""
    got = await browser.get(path, follow_redirects=True)
    assert got.status_code == 200, path
    return find_sums(got.text)


async def test_one_amount_reads_the_same_everywhere(cli: Cli, tmp_path: Path):
    """Before the decision: what is reserved; after it: what was spent; on the page, in the terminal, for scripts."""
    budget = Budget(call=Cap(money=1_234_567_891))
    async with (
        waiting(tmp_path / "host.db", cli, provider=PricedModels(), budget=budget) as desk,
        running_page(desk.store) as running,
        visitor(base_url=running.origin) as browser,
    ):
        task = await desk.ask(request("Describe a sweater in wool", max_tokens=333))
        question = await desk.pending()
        item, costs = question.item, question.item.costs
        reserved = next(each.held.money for each in await desk.store.balances() if each.key.startswith("call:"))
        assert reserved == costs.worst.money == most_of(item) == most_of(item, "small")
        most, dearest = format_dollars(reserved), format_dollars(most_of(item, "large"))
        left = format_dollars(costs.left, rounding="down")
        likely, least = format_dollars(costs.likely.money), format_dollars(costs.low.money, rounding="down")
        assert len({most, dearest, left, likely, least}) == 5
        await browser.get(running.address(), follow_redirects=True)
        here = f"/review/{question.id}"
        assert await read_page(browser, here) == {most, dearest, left, likely, least}
        assert await read_page(browser, f"/alike/{question.id}") == {most}
        assert await read_page(browser, f"{here}/edit") == {most, dearest}
        assert find_sums((await desk.run("review", "list")).out) <= {most}
        assert find_sums((await desk.run("review", "show", question.id)).out) == {most, dearest, left, likely, least}
        async with at_queue(desk) as person:
            assert find_sums(person.seen) == {most}
            person.type("\n")
            await person.expect("decision> ")
            assert find_sums(person.seen) == {most, left}
            person.type("\x04")
            await person.expect("ID or key> ")
        await desk.queue.decide(question.id, approve(item), hash=question.hash, by="ada")
        await task
        spent = next(each.spent.money for each in await desk.store.balances() if each.key.startswith("call:"))
        paid = format_dollars(spent)
        for path in ("/history", "/history/1", f"/servers/{item.origin.identity}"):
            assert await read_page(browser, path) - {"$0.00"} == {paid}, path
        assert paid in await read_page(browser, "/spending")
        for words in (("audit",), ("audit", "show", "1"), ("audit", "spend")):
            assert find_sums((await desk.run(*words)).out) == {paid}, words
