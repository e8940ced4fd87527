"""Consent to calls of tools, on running processes: the official Python SDK, a gateway, a server, and a person.

Each check has a number of ``docs/topics/consent-checks.md``, which says where it is asked for: ``E`` is the matrix of
envoyproxy/ai-gateway#2073, ``G`` the list of gridctl#1150, ``S`` the rest. All run in both eras.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon.host import (
    AlreadyDecided,
    Answer,
    Approve,
    Audit,
    Deny,
    EditCall,
    Mismatch,
    Queue,
    ToolItem,
    digest,
    open_store,
)
from antiphon.host.review.like_calls import read_likenesses, write_condition
from antiphon.host.review.question import Question
from antiphon.host.review.review import UNBOUNDED
from antiphon.host.store.base import BlockRow
from antiphon.host.store.chain import RecordSearch
from antiphon.wire.tools import CallToolRequestParams
from tests.interop.peers import HERE, PROGRAMS, Peers
from tests.support.ports import free_port

SERVER = [sys.executable, str(HERE / "consent_server.py")]
GATEWAY = [sys.executable, str(HERE / "consent_gateway.py")]
SOON = 0.3
"""Seconds until a caller is told to ask again, where a check is about that."""
ERAS = {"legacy": "legacy", "modern": "2026-07-28"}
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


class Agent:
    """A program that calls tools with the official SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {0: asyncio.get_running_loop().create_future()}
        self.ready: Awaitable[dict[str, Any]] = self._waiting[0]
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            self._waiting.pop(said["id"]).set_result(said)
        for future in self._waiting.values():
            future.set_exception(ConnectionError("the program has ended"))

    def begin(self, tool: str, meta: dict[str, Any] | None = None, **command: Any) -> asyncio.Future[dict[str, Any]]:
        """Begin a call. Members that the program knows are options, all others are arguments."""
        options = {name: command.pop(name) for name in ("progress", "seconds") if name in command}
        self._calls += 1
        future = self._waiting[self._calls] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        sent = {"id": self._calls, "tool": tool, "arguments": command, "meta": meta, **options}
        self.process.stdin.write(json.dumps(sent).encode() + b"\n")
        return future

    async def call(self, tool: str, meta: dict[str, Any] | None = None, **command: Any) -> Outcome:
        """Make a call, and wait for its outcome."""
        return Outcome(await self.begin(tool, meta, **command))

    async def close(self) -> None:
        """End the program, and with it its gateway."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()
        await self._reading


class Outcome:
    """What a model gets of a call."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        result: dict[str, Any] = said.get("result", {})
        self.text = said.get("error", "") + "".join(block.get("text", "") for block in result.get("content", ()))
        self.is_error = bool(result.get("isError")) or "error" in said
        self.waits: str | None = result.get("_meta", {}).get("antiphon/pendingCall")


class Desk:
    """The files that all processes share, and the person."""

    def __init__(self, root: Path, peers: Peers, mode: str) -> None:
        self.root, self.peers, self.mode = root, peers, mode
        self.ran_file = root / "ran"
        self.store = open_store(root / "host.db")
        self.queue = Queue(self.store)
        self._stack = AsyncExitStack()

    def gateway(self, *, changed: bool = False, **options: Any) -> list[str]:
        """Return the command line of a gateway over the shared store."""
        said = {"store": str(self.root / "host.db"), "within": SOON, **options}
        return [*GATEWAY, json.dumps(said), *SERVER, str(self.ran_file), *(["changed"] if changed else [])]

    async def agent(self, target: list[str] | None = None, **options: Any) -> Agent:
        """Start an agent with a gateway of its own, or at an address."""
        token = options.pop("token", "")
        command = [str(self.peers.root / "python2" / "bin" / "python"), str(PROGRAMS / "python2_calls.py"), self.mode]
        process = await asyncio.create_subprocess_exec(
            *command, *(target or self.gateway(**options)), env={**os.environ, "TOKEN": token},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
        )  # fmt: skip
        agent = Agent(process)
        self._stack.push_async_callback(agent.close)
        async with asyncio.timeout(90):
            await agent.ready
        return agent

    async def question(self) -> Question:
        """Wait for the question that waits."""
        async with asyncio.timeout(90):
            async for _ in self.queue.changes(0.05):
                if waiting := await self.queue.pending():
                    return waiting[0]
        raise AssertionError

    async def decide(self, decide: Callable[[ToolItem], Any] | Any = None, by: str = "ann") -> Question:
        """Wait for the question, and decide it: by default approve."""
        question = await self.question()
        assert isinstance(question.item, ToolItem)
        said = decide(question.item) if callable(decide) else decide
        said = Approve(digest=digest(question.item.result or question.item.params)) if said is None else said
        await self.queue.decide(question.id, said, hash=question.hash, by=by)
        return question

    def ran(self, sku: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls with this SKU that the server has run."""
        lines = self.ran_file.read_text(encoding="utf-8").splitlines() if self.ran_file.exists() else []
        return [(tool, arguments) for tool, arguments in map(json.loads, lines) if arguments.get("sku") == sku]

    async def records(self, question: Question) -> list[tuple[str, str, str | None]]:
        """Return step, outcome and decider of the records of a question's call."""
        assert question.item is not None
        entries = await self.store.find_records(RecordSearch(after=0, identities=(question.identity,)), 1_000)
        return [(each.record.step, each.record.outcome, each.record.by) for each in entries]

    async def close(self) -> None:
        """End everything."""
        await self._stack.aclose()
        await self.store.aclose()


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
