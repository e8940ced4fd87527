"""Consent to calls of tools, on running processes: the official Python SDK, a gateway, a server, and a person.

Each check has a number of ``docs/topics/consent-checks.md``, which says where it is asked for: ``E`` is the matrix of
envoyproxy/ai-gateway#2073, ``G`` the list of gridctl#1150, ``S`` the rest. All run in both eras.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from antiphon.host import AlreadyDecided, Approve, Audit, Deny, Mismatch, digest
from antiphon.wire.tools import CallToolRequestParams
from tests.interop.consent_checks import CHECKS, check
from tests.interop.consent_desk import ERAS, Agent, Desk, Outcome
from tests.interop.peers import HERE, Peers
from tests.support.ports import free_port

# --- E: an approval is bound to the exact call ------------------------------------------------------------------------


@check("E1")
async def the_same_call_resumes_and_runs(desk: Desk, agent: Agent) -> None:
    """The same call resumes and runs."""
    left = await agent.call("order", sku="e1")
    assert (desk.ran("e1"), left.waits is not None) == ([], True)
    await desk.decide()
    assert "order ran" in (await agent.call("order", sku="e1")).text
    assert len(desk.ran("e1")) == 1


@check("E2a")
async def other_arguments_are_another_call(desk: Desk, agent: Agent) -> None:
    """Other arguments are another call."""
    await agent.call("order", sku="e2", amount=1)
    await desk.decide()
    other = await agent.call("order", sku="e2", amount=2)
    assert (other.waits is not None, desk.ran("e2")) == (True, [])
    await desk.decide(Deny())


@check("E2b")
async def a_reference_with_other_arguments_runs_what_was_approved(desk: Desk, agent: Agent) -> None:
    """A reference with other arguments runs what was approved."""
    left = await agent.call("order", sku="e2b", amount=1)
    await desk.decide()
    await agent.call("order", {"antiphon/pendingCall": left.waits}, sku="e2b", amount=999)
    assert desk.ran("e2b") == [("order", {"sku": "e2b", "amount": 1})]


@check("E2c")
async def a_reference_does_not_serve_another_tool(desk: Desk, agent: Agent) -> None:
    """A reference does not serve another tool."""
    left = await agent.call("order", sku="e2c")
    await desk.decide()
    other = await agent.call("refund", {"antiphon/pendingCall": left.waits}, sku="e2c", amount=50)
    assert "No call of this tool" in other.text
    assert desk.ran("e2c") == []


@check("E2d")
async def an_invented_reference_runs_nothing(desk: Desk, agent: Agent) -> None:
    """An invented reference runs nothing."""
    assert "No call of this tool" in (await agent.call("order", {"antiphon/pendingCall": "0" * 32}, sku="e2d")).text
    assert desk.ran("e2d") == []


@check("E2e")
async def an_approval_does_not_serve_another_tool(desk: Desk, agent: Agent) -> None:
    """An approval does not serve another tool."""
    await agent.call("order", sku="e2e", amount=50)
    await desk.decide()
    assert (await agent.call("refund", sku="e2e", amount=50)).waits is not None
    assert desk.ran("e2e") == []
    await desk.decide(Deny())


@check("E2f")
async def the_order_of_arguments_is_no_difference(desk: Desk, agent: Agent) -> None:
    """The order of arguments is no difference."""
    left = await agent.call("order", sku="e2f", amount=3)
    again = await agent.call("order", amount=3, sku="e2f")
    assert left.waits == again.waits
    await desk.decide(Deny())


@check("E3a")
async def a_changed_policy_has_the_last_word(desk: Desk, agent: Agent) -> None:
    """A changed policy has the last word."""
    await agent.call("order", sku="e3a")
    await desk.decide()
    strict = await desk.agent(policy='[[policy.rules]]\neffect = "deny"\nname = "order"\n')
    assert "refused" in (await strict.call("order", sku="e3a")).text
    assert desk.ran("e3a") == []


@check("E3b", keep=1.0)
async def an_expired_question_is_asked_anew(desk: Desk, agent: Agent) -> None:
    """An expired question is asked anew."""
    left = await agent.call("order", sku="e3b")
    question = await desk.question()
    async with asyncio.timeout(30):
        async for _ in desk.queue.changes(0.1):
            if not await desk.queue.pending():
                break
    with pytest.raises(AlreadyDecided):
        await desk.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
    again = await agent.call("order", sku="e3b")
    assert again.waits not in (None, left.waits)
    assert desk.ran("e3b") == []


@check("E3c")
async def a_changed_definition_is_another_call(desk: Desk, agent: Agent) -> None:
    """A changed definition is another call."""
    left = await agent.call("order", sku="e3c")
    await desk.decide()
    other = await desk.agent(changed=True)
    again = await other.call("order", sku="e3c")
    assert again.waits not in (None, left.waits)
    question = await desk.decide(Deny())
    assert question.item is not None
    assert desk.ran("e3c") == []


@check("E4a")
async def a_timeout_is_told_with_the_id_of_the_question(desk: Desk, agent: Agent) -> None:
    """A timeout is told with the id of the question."""
    left = await agent.call("order", sku="e4")
    question = await desk.question()
    assert left.waits == question.id
    assert question.id in left.text
    assert ("refused", "pending", None) in await desk.records(question)
    await desk.decide(Deny())


@check("E4b")
async def a_denial_runs_nothing_and_is_recorded(desk: Desk, agent: Agent) -> None:
    """A denial runs nothing and is recorded."""
    await agent.call("order", sku="e4b")
    question = await desk.decide(Deny(reason="Not today", tell=True))
    told = await agent.call("order", sku="e4b")
    assert (told.is_error, "Not today" in told.text, desk.ran("e4b")) == (True, True, [])
    assert ("review", "deny", "ann") in await desk.records(question)


@check("E5a")
async def a_decision_about_other_content_is_refused(desk: Desk, agent: Agent) -> None:
    """A decision about other content is refused."""
    await agent.call("order", sku="e5a")
    question = await desk.question()
    for forged in (Approve(digest="0" * 64), Approve(digest=digest(CallToolRequestParams.of("order", {})))):
        with pytest.raises(Mismatch):
            await desk.queue.decide(question.id, forged, hash=question.hash, by="eve")
    await desk.decide(Deny())
    assert desk.ran("e5a") == []


@check("E5b")
async def a_decision_about_something_not_shown_is_refused(desk: Desk, agent: Agent) -> None:
    """A decision about something not shown is refused."""
    await agent.call("order", sku="e5b")
    question = await desk.question()
    with pytest.raises(Mismatch):
        await desk.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash="0" * 64, by="eve")
    await desk.decide(Deny())


@check("E5c")
async def a_decision_counts_once(desk: Desk, agent: Agent) -> None:
    """A decision counts once."""
    await agent.call("order", sku="e5c")
    question = await desk.decide(Deny())
    with pytest.raises(AlreadyDecided):
        await desk.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash, by="eve")
    assert "refused" in (await agent.call("order", sku="e5c")).text
    assert desk.ran("e5c") == []


# --- G: pending calls -----------------------------------------------------------------------------------------------


@check("G1", within=50)
async def a_call_decided_in_time_runs_at_once(desk: Desk, agent: Agent) -> None:
    """A call decided in time runs at once."""
    calling = agent.begin("order", sku="g1")
    await desk.decide()
    assert "order ran" in Outcome(await calling).text


@check("G2", within=50)
async def the_arguments_are_in_view(desk: Desk, agent: Agent) -> None:
    """The arguments are in view."""
    calling = agent.begin("order", sku="g2 \u202e", amount=7)
    question = await desk.question()
    assert json.loads(bytes(question.item.params.arguments)) == {"sku": "g2 \u202e", "amount": 7}
    assert question.item.params.name == "order"
    assert question.item.origin.tool is not None
    await desk.decide(Deny())
    await calling


@check("G3", within=17)
async def progress_is_reported_while_it_waits(desk: Desk, agent: Agent) -> None:
    """Progress is reported while it waits."""
    said = await agent.begin("order", sku="g3", progress=True)
    assert said["reports"]
    assert all("deciding" in report for report in said["reports"])
    await desk.decide(Deny())


@check("G4")
async def pending_is_a_result_that_a_model_understands(desk: Desk, agent: Agent) -> None:
    """Pending is a result that a model understands."""
    left = await agent.call("order", sku="g4")
    assert (left.is_error, "Ask again later by the same call" in left.text) == (False, True)
    await desk.decide(Deny())


@check("G5")
async def pending_is_an_error_where_a_schema_is_declared(desk: Desk, agent: Agent) -> None:
    """Pending is an error where a schema is declared."""
    left = await agent.call("count", sku="g5")
    assert (left.is_error, left.waits is not None) == (True, True)
    await desk.decide()
    assert (await agent.call("count", sku="g5")).said["result"]["structuredContent"] == {"count": 1}


@check("G6")
async def a_retry_before_the_decision_joins(desk: Desk, agent: Agent) -> None:
    """A retry before the decision joins."""
    first, second = await agent.call("order", sku="g6"), await agent.call("order", sku="g6")
    assert first.waits == second.waits
    assert len(await desk.queue.pending()) == 1
    await desk.decide()
    await agent.call("order", sku="g6")
    assert len(desk.ran("g6")) == 1


@check("G7", within=50)
async def identical_calls_at_once_are_one(desk: Desk, agent: Agent) -> None:
    """Identical calls at once are one."""
    calls = [agent.begin("order", sku="g7") for _ in range(3)]
    await desk.decide()
    outcomes = [Outcome(each) for each in await asyncio.gather(*calls)]
    assert all("order ran" in outcome.text for outcome in outcomes)
    assert len(desk.ran("g7")) == 1


@check("G8")
async def the_settled_outcome_is_told_again(desk: Desk, agent: Agent) -> None:
    """The settled outcome is told again."""
    await agent.call("order", sku="g8")
    await desk.decide()
    first, again = await agent.call("order", sku="g8"), await agent.call("order", sku="g8")
    assert "order ran" in first.text
    assert "told again" in again.text
    assert len(desk.ran("g8")) == 1


@check("G9")
async def a_denial_is_told_again(desk: Desk, agent: Agent) -> None:
    """A denial is told again."""
    await agent.call("order", sku="g9")
    await desk.decide(Deny(reason="No", tell=True))
    told = [(await agent.call("order", sku="g9")).text for _ in range(2)]
    assert all("No" in text for text in told)
    assert not await desk.queue.pending()


@check("G10")
async def another_gateway_goes_on_with_it(desk: Desk, agent: Agent) -> None:
    """Another gateway goes on with it."""
    await agent.call("order", sku="g10")
    await desk.decide()
    other = await desk.agent()
    assert "order ran" in (await other.call("order", sku="g10")).text
    assert "told again" in (await agent.call("order", sku="g10")).text
    assert len(desk.ran("g10")) == 1


@check("G11")
async def a_killed_gateway_loses_no_question(desk: Desk, agent: Agent) -> None:
    """A killed gateway loses no question."""
    left = await agent.call("order", sku="g11")
    agent.process.kill()
    await agent.process.wait()
    other = await desk.agent()
    await desk.decide()
    assert "order ran" in (await other.call("order", {"antiphon/pendingCall": left.waits}, sku="g11")).text
    assert len(desk.ran("g11")) == 1


@check("G12", within=50)
async def a_cancelled_call_withdraws_its_question(desk: Desk, agent: Agent) -> None:
    """A cancelled call withdraws its question."""
    calling = agent.begin("order", sku="g12", seconds=2)
    await desk.question()
    await calling
    async with asyncio.timeout(30):
        async for _ in desk.queue.changes(0.1):
            if not await desk.queue.pending():
                break
    assert desk.ran("g12") == []


@check("G13")
async def the_record_is_whole_and_names_who_decided(desk: Desk, agent: Agent) -> None:
    """The record is whole and names who decided."""
    await agent.call("order", sku="g13")
    question = await desk.decide(by="carol")
    await agent.call("order", sku="g13")
    records = await desk.records(question)
    assert {("review", "approve", "carol"), ("answered", "confirmed", None)} <= set(records)
    assert (await Audit(desk.store).verify()).whole


@asynccontextmanager
async def open_desk(root: Path, peers: Peers, era: str) -> AsyncIterator[Desk]:
    """Yield a desk, and end all that it has started."""
    desk = Desk(root, peers, ERAS[era])
    try:
        yield desk
    finally:
        await desk.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("era", list(ERAS))
async def test_all_checks_of_consent_pass(peers: Peers, tmp_path: Path, era: str):
    """From a client of the official SDK, through its own gateway, to its own server; failures are listed together."""
    failed: dict[str, str] = {}
    async with open_desk(tmp_path, peers, era) as desk:
        agents: dict[str, Agent] = {}
        for name, (function, options) in CHECKS.items():
            key = json.dumps(options)
            try:
                async with asyncio.timeout(90):
                    if key not in agents or agents[key].process.returncode is not None:
                        agents[key] = await desk.agent(**options)
                    await function(desk, agents[key])
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
            for waiting in await desk.queue.pending():
                with suppress(AlreadyDecided):
                    await desk.queue.decide(waiting.id, Deny(), hash=waiting.hash)
    assert failed == {}


@pytest.mark.parametrize("era", list(ERAS))
async def test_an_approval_is_for_its_principal_only(peers: Peers, tmp_path: Path, era: str):
    """E1b: another person's client neither runs, nor sees, nor learns of the call; its id is unknown to it."""
    async with open_desk(tmp_path, peers, era) as desk:
        port = free_port()
        process = await asyncio.create_subprocess_exec(*desk.gateway(port=port), stdin=asyncio.subprocess.DEVNULL)
        try:
            address = [f"http://127.0.0.1:{port}/mcp"]
            anna = await connect(desk, address, "anna")
            bob = await connect(desk, address, "bob")
            left = await anna.call("order", sku="e1b")
            assert (await desk.question()).item.origin.principal == "anna"
            await desk.decide()
            assert (
                "No call of this tool"
                in (await bob.call("order", {"antiphon/pendingCall": left.waits}, sku="e1b")).text
            )
            assert (await bob.call("order", sku="e1b")).waits not in (None, left.waits)
            assert desk.ran("e1b") == []
            assert "order ran" in (await anna.call("order", sku="e1b")).text
            assert len(desk.ran("e1b")) == 1
        finally:
            process.terminate()
            await process.wait()


async def connect(desk: Desk, address: list[str], token: str) -> Agent:
    """Connect as soon as the gateway listens."""
    async with asyncio.timeout(90):
        while True:
            try:
                return await desk.agent(address, token=token)
            except ConnectionError:
                continue


def test_the_page_lists_each_check():
    """And there are at least 60, with both eras."""
    page = (HERE.parent.parent / "docs" / "topics" / "consent-checks.md").read_text(encoding="utf-8")
    numbers = [name.split()[0] for name in CHECKS] + ["E1b"]
    assert [number for number in numbers if f"| {number} |" not in page] == []
    assert len(numbers) * len(ERAS) >= 60
