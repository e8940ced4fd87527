"""Checks of calls that wait, of clients that leave and of gateways that end: ``G``, the list of gridctl#1150."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

from tests.interop.consent.callers import Outcome
from tests.interop.consent.world import HELD, PATIENCE, Case, check
from tests.support.network import until


@check("G1", within=HELD)
async def run_within_the_request(case: Case) -> None:
    """A call that is decided in time runs within its request."""
    calling = await case.hold("order")
    await case.approve()
    assert "order ran" in Outcome(await calling).text


@check("G2", callers="PT", within=HELD)
async def show_the_decoded_arguments(case: Case) -> None:
    """The page shows tool and arguments, with a mark where a character cannot be seen."""
    calling = await case.hold("refund", amount=7, to="bob\u202e")
    question = await case.question()
    page = await (await case.world.person()).browser.get(f"/review/{question.id}")
    assert all(each in page.text for each in ("refund", case.sku, "U+202E", "Give money back."))
    await case.reject()
    await calling


@check("G3", callers="PT", within=30)
async def report_progress(case: Case) -> None:
    """A client that asked for progress hears of the wait."""
    said = Outcome(await (await case.hold("order", progress=True)))
    assert said.reports
    assert any("deciding" in (report or "") for report in said.reports)


@check("G4")
async def settle_as_a_result(case: Case) -> None:
    """When the time to hold it is over the call settles as a result: its id in _meta, and what to do."""
    left = await case.call("order")
    assert (left.is_error, "Ask again later by the same call" in left.text) == (False, True)
    assert left.waits is not None


@check("G5")
async def settle_as_an_error_under_a_schema(case: Case) -> None:
    """Where an output schema is declared, words would not fit it: an error, and the retry gets the structure."""
    left = await case.call("count")
    assert (left.is_error, left.waits is not None) == (True, True)
    await case.approve()
    assert (await case.call("count")).result["structuredContent"] == {"count": 1}


@check("G6")
async def join_before_the_decision(case: Case) -> None:
    """A retry before the decision joins the pending record."""
    first, second = await case.call("order"), await case.call("order")
    assert first.waits == second.waits is not None
    assert len(await case.waiting()) == 1
    await case.approve()
    await case.call("order")
    assert len(case.ran()) == 1


@check("G7", several=True, within=HELD)
async def join_identical_calls(case: Case) -> None:
    """Identical calls at once are one question and one run, and all get the result."""
    # A host holds two conversations.
    calls = [await case.hold("order") for _ in range(2 if case.column.is_host else 3)]
    await case.approve()
    said = [Outcome(each).text for each in await asyncio.gather(*calls)]
    assert all("order ran" in each for each in said), said
    assert len(case.ran()) == 1


@check("G8")
async def tell_the_outcome_again(case: Case) -> None:
    """A retry after it has settled gets the outcome, and says so."""
    await case.call("order")
    await case.approve()
    first, again = await case.call("order"), await case.call("order")
    assert "order ran" in first.text
    assert "told again" in again.text
    assert len(case.ran()) == 1


@check("G9")
async def tell_the_denial_again(case: Case) -> None:
    """So does a retry after a denial."""
    await case.call("order")
    await case.reject(reason="No", tell="true")
    told = [(await case.call("order")).text for _ in range(2)]
    assert all("No" in text for text in told)
    assert not await case.waiting()


@check("G10", another={})
async def go_on_at_another_gateway(case: Case) -> None:
    """Another gateway with the same store goes on with it."""
    await case.call("order")
    await case.approve()
    other = await case.another()
    assert "order ran" in (await case.call("order", at=other.url)).text
    assert "told again" in (await case.call("order")).text
    assert len(case.ran()) == 1


async def tell_all(case: Case, calls: Sequence[asyncio.Future[dict[str, Any]]], at: str | None = None) -> None:
    """See that calls get the result of one run; who is told to ask again, on a busy machine, asks ``at`` that place."""
    said = [Outcome(each) for each in await asyncio.gather(*calls)]
    assert any("order ran" in each.text for each in said), said
    told = [each if each.waits is None else await case.call("order", at=at) for each in said]
    assert all("order ran" in each.text for each in told), told


@check("G11", another={}, several=True, within=HELD)
async def join_at_two_gateways(case: Case) -> None:
    """The same call at two gateways with one store is one question and one run, and both get the result."""
    other = await case.another()
    calls = [await case.hold("order"), await case.hold("order", at=other.url)]
    await case.approve()
    await tell_all(case, calls, other.url)
    assert len(case.ran()) == 1


@check("G12", another={})
async def keep_the_question_of_a_killed_gateway(case: Case) -> None:
    """A gateway that is killed loses no question, and its approval counts at the next one."""
    first = await case.own()
    left = await case.call("order", at=first.url)
    await first.end(signal.SIGKILL)
    await case.approve()
    second = await case.another()
    ref = None if case.column.is_host else left.waits
    assert "order ran" in (await case.call("order", at=second.url, ref=ref)).text
    assert len(case.ran()) == 1


@check("G13", another={})
async def keep_the_approval_over_a_restart(case: Case) -> None:
    """An approval that came before the gateway was restarted counts after it."""
    first = await case.own()
    await case.call("order", at=first.url)
    await case.approve()
    await first.end()
    second = await case.another()
    assert "order ran" in (await case.call("order", at=second.url)).text


@check("G14", another={"within": 1}, within=HELD)
async def never_run_an_unknown_outcome_again(case: Case) -> None:
    """A gateway is killed while the tool runs: nobody knows the outcome, so the call is not sent again."""
    first = await case.own()
    await case.hold("linger", at=first.url)
    await case.approve()
    # The server notes it after the last change of the store.
    await until(case.ran, PATIENCE)
    await first.end(signal.SIGKILL)
    second = await case.another()
    async with asyncio.timeout(PATIENCE):
        told = await case.call("linger", at=second.url)
        while "Ask for its outcome later" in told.text:
            # That the first gateway has gone is not known yet.
            told = await case.call("linger", at=second.url)
    assert (told.is_error, "Nobody knows whether" in told.text) == (True, True), told
    assert len(case.ran()) == 1


@check("G15", callers="PTC", within=HELD)
async def withdraw_a_cancelled_call(case: Case) -> None:
    """A client that gives the call up withdraws its question."""
    calling = await case.hold("order", is_given_up=True)
    await case.question()
    await case.give_up(calling)
    await case.gone()
    assert case.ran() == []


@check("G16")
async def decide_while_the_client_is_gone(case: Case) -> None:
    """A client disconnects, a person decides, and the client's next session gets the result."""
    await case.call("order", who="gone")
    await case.send("close", who="gone")
    await case.approve()
    assert "order ran" in (await case.call("order", who="gone")).text
    assert len(case.ran()) == 1


@check("G17", several=True)
async def run_once_of_two_retries(case: Case) -> None:
    """Two retries at the same time after an approval are one run."""
    await case.call("order")
    await case.approve()
    await tell_all(case, [await case.hold("order") for _ in range(2)])
    assert len(case.ran()) == 1


@check("G18", callers="PT")
async def record_the_whole_life(case: Case) -> None:
    """The record says what was asked, who decided what, and that it ran."""
    await case.call("order")
    await case.approve()
    await case.call("order")
    records = await case.records()
    assert {("refused", "pending"), ("review", "approve"), ("answered", "confirmed")} <= await case.steps()
    assert all(each.by for each in records if each.step == "review")


@check("G19")
async def ask_over_stdio(case: Case) -> None:
    """The same over stdio, where the host starts the gateway."""
    command = [*case.world.command(signs_in=False), "--review", "queue"]
    left = await case.call("order", at=command)
    assert left.waits is not None
    await case.approve()
    assert "order ran" in (await case.call("order", at=command)).text
    await case.send("close", at=command)
    assert len(case.ran()) == 1


@check("G20", another={"keep": 1, "within": HELD})
async def deny_when_nobody_decides(case: Case) -> None:
    """Where the question expires before the caller is told to ask again, the call is refused."""
    gateway = await case.another()
    told = await case.call("order", at=gateway.url)
    assert (told.is_error, told.waits, case.ran()) == (True, None, [])
