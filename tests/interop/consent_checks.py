"""The checks of consent: their table, and those about edits, answers, rules, results and labels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from antiphon.host import Answer, Approve, Deny, EditCall, Mismatch, ToolItem, digest
from antiphon.host.review.decisions import read_likenesses, write_condition
from antiphon.host.review.review import UNBOUNDED
from antiphon.host.store.base import BlockRow
from antiphon.wire.tools import CallToolRequestParams
from tests.interop.consent_desk import Agent, Desk, Outcome

RULES = """
[policy]
default = "ask"
[[policy.rules]]
effect = "allow"
when = 'tool == "refund" && args.amount <= 10'
[[policy.rules]]
effect = "deny"
when = 'tool == "refund" && args.amount > 1000'
[[policy.rules]]
effect = "allow"
when = 'annotations.readOnlyHint'
[[policy.results]]
effect = "mask"
found = ["secret", "hidden"]
[[policy.results]]
effect = "ask"
found = ["instructions"]
[[policy.results]]
effect = "refuse"
found = ["leak"]
"""
FLOW = """
[policy]
default = "flow"
[[policy.rules]]
effect = "allow"
when = 'annotations.readOnlyHint'
[[policy.labels]]
name = "refund"
labels = ["outbound"]
"""


Check = Callable[[Desk, "Agent"], Awaitable[None]]
CHECKS: dict[str, tuple[Check, dict[str, Any]]] = {}


def check(number: str, **options: Any) -> Callable[[Check], Check]:
    """Add a check, and the options of the gateway that its agent uses."""

    def add(function: Check) -> Check:
        CHECKS[f"{number} {function.__name__}"] = (function, options)
        return function

    return add


def edit(**arguments: Any) -> Callable[[ToolItem], EditCall]:
    """Change the arguments of a call."""

    def decide(item: ToolItem) -> EditCall:
        made = CallToolRequestParams.of(item.params.name, arguments)
        params = structs.replace(item.params, arguments=made.arguments)
        return EditCall(params=params, digest=digest(params))

    return decide


# --- S: edit, respond, rules, results, labels ----------------------------------------------------------------------


@check("S1")
async def an_edited_call_runs_as_edited(desk: Desk, agent: Agent) -> None:
    """An edited call runs as edited."""
    await agent.call("order", sku="s1", amount=9)
    await desk.decide(edit(sku="s1", amount=2))
    told = await agent.call("order", sku="s1", amount=9)
    assert "A person changed the arguments" in told.text
    assert desk.ran("s1") == [("order", {"sku": "s1", "amount": 2})]


@check("S2")
async def an_edit_that_does_not_fit_runs_nothing(desk: Desk, agent: Agent) -> None:
    """An edit that does not fit runs nothing."""
    await agent.call("order", sku="s2")
    with pytest.raises(Mismatch, match="not of type"):
        await desk.decide(edit(sku="s2", amount="many"))
    assert desk.ran("s2") == []


@check("S3", policy=RULES)
async def an_edit_cannot_pass_what_a_rule_denies(desk: Desk, agent: Agent) -> None:
    """An edit cannot pass what a rule denies."""
    await agent.call("refund", sku="s3", amount=50)
    await desk.decide(edit(sku="s3", amount=5000))
    assert (await agent.call("refund", sku="s3", amount=50)).is_error
    assert desk.ran("s3") == []


@check("S4")
async def a_response_takes_the_place_of_the_call(desk: Desk, agent: Agent) -> None:
    """A response takes the place of the call."""
    await agent.call("order", sku="s4")
    await desk.decide(Answer(result="Out of stock"))
    assert (await agent.call("order", sku="s4")).text == "Out of stock"
    assert desk.ran("s4") == []


@check("S5", policy=RULES)
async def rules_on_arguments_allow_ask_and_deny(desk: Desk, agent: Agent) -> None:
    """Rules on arguments allow ask and deny."""
    assert "refund ran" in (await agent.call("refund", sku="s5", amount=10)).text
    assert "refused" in (await agent.call("refund", sku="s5", amount=1001)).text
    assert (await agent.call("refund", sku="s5", amount=100)).waits is not None
    assert len(desk.ran("s5")) == 1
    await desk.decide(Deny())


@check("S6", policy=RULES)
async def a_rule_that_is_unclear_asks(desk: Desk, agent: Agent) -> None:
    """A rule that is unclear asks."""
    assert (await agent.call("refund", sku="s6")).waits is not None
    await desk.decide(Deny())


@check("S7", policy=RULES)
async def what_only_reads_runs_and_what_destroys_is_asked_about(desk: Desk, agent: Agent) -> None:
    """What only reads runs and what destroys is asked about."""
    assert "look ran" in (await agent.call("look", sku="s7")).text
    assert (await agent.call("delete", sku="s7")).waits is not None
    question = await desk.decide(Deny())
    assert "destructive" in {risk.kind for risk in question.item.risks}


@check("S8")
async def a_rule_for_like_calls_covers_them_and_no_others(desk: Desk, agent: Agent) -> None:
    """A rule for like calls covers them and no others."""

    def keep(item: ToolItem) -> Approve:
        when = write_condition(item, read_likenesses(item, {"amount": "most"}))
        return Approve(digest=digest(item.params), scope="always", terms=UNBOUNDED, when=when)

    await agent.call("order", sku="s8", amount=5)
    await desk.decide(keep)
    await agent.call("order", sku="s8", amount=5)
    assert "order ran" in (await agent.call("order", sku="s8", amount=4)).text
    assert (await agent.call("order", sku="s8", amount=6)).waits is not None
    await desk.decide(Deny())


@check("S9")
async def a_blocked_server_runs_nothing(desk: Desk, agent: Agent) -> None:
    """A blocked server runs nothing."""
    await agent.call("order", sku="s9")
    question = await desk.question()
    await desk.store.block(BlockRow(identity=question.identity, target="shop", since=0.0))
    assert "refused" in (await agent.call("order", sku="s9")).text
    await desk.store.unblock(question.identity)
    assert desk.ran("s9") == []
    for waiting in await desk.queue.pending():
        await desk.queue.decide(waiting.id, Deny(), hash=waiting.hash)


@check("S10", policy=RULES)
async def secrets_and_hidden_characters_of_a_result_are_masked(desk: Desk, agent: Agent) -> None:
    """Secrets and hidden characters of a result are masked."""
    assert (await agent.call("fetch", url="u", kind="secret")).text == "the key is [AWS access key]"
    assert (await agent.call("fetch", url="u", kind="hidden")).text == "abc"
    assert (await agent.call("fetch", url="u")).text == "an ordinary page"


@check("S11", policy=RULES)
async def the_text_of_an_error_is_masked_too(desk: Desk, agent: Agent) -> None:
    """The text of an error is masked too."""
    told = await agent.call("fetch", url="u", kind="error")
    assert "AKIA" not in told.text
    assert told.is_error


@check("S12", policy=RULES, within=50)
async def a_result_with_orders_waits_for_a_person(desk: Desk, agent: Agent) -> None:
    """A result with orders waits for a person."""
    calling = agent.begin("fetch", url="u", kind="orders")
    question = await desk.decide()
    assert question.item.result is not None
    assert "Ignore all previous" in Outcome(await calling).text
    calling = agent.begin("fetch", url="u", kind="orders")
    await desk.decide(Deny())
    assert "withheld" in Outcome(await calling).text


@check("S13", policy=RULES)
async def a_result_that_leaks_is_refused(desk: Desk, agent: Agent) -> None:
    """A result that leaks is refused."""
    told = await agent.call("fetch", url="u", kind="leak")
    assert "withheld" in told.text
    assert "evil" not in told.text


@check("S14", policy=FLOW, within=50)
async def all_three_labels_are_asked_about(desk: Desk, agent: Agent) -> None:
    """All three labels are asked about."""
    for tool, arguments in (("look", {"sku": "s14"}), ("fetch", {"url": "u"})):
        assert not (await agent.call(tool, **arguments)).is_error
    calling = agent.begin("refund", sku="s14")
    question = await desk.decide(Deny())
    assert question.item.risks[0].kind == "flow"
    assert "refused" in Outcome(await calling).text
    assert "look ran" in (await agent.call("look", sku="s14b")).text
