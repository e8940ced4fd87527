"""What a session has read, and the calls that are asked about because of it: ``default = "flow"``."""

from __future__ import annotations

import pytest
from msgspec import structs

from antiphon.errors import Rejected
from antiphon.host import Approve, Host, LabelRule, MemoryStore, Policy, Rule, Scripted, digest
from antiphon.host.review.shown import collect_shown
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool, ToolAnnotations
from tests.host.asks import Person, origin
from tests.host.review.asking import Asking

HINTS = {
    "read_file": ToolAnnotations(read_only_hint=True, open_world_hint=False),
    "fetch": ToolAnnotations(read_only_hint=True, open_world_hint=True),
    "send": ToolAnnotations(open_world_hint=True),
    "wipe": ToolAnnotations(open_world_hint=False, destructive_hint=True),
    "mystery": None,
}
FLOW = Policy(default="flow")
SENTENCE = "this session has read text of strangers and data of yours; now it can send"


def where(name: str, principal: str | None = None) -> Origin:
    """Say which tool is called, and for whom."""
    tool = Tool(name=name, input_schema={}, annotations=HINTS[name])
    return structs.replace(
        origin(), tool=tool, principal=principal, call=OriginCall(id=name, method="tools/call", name=name)
    )


class Counting(Person):
    """Approves everything, and counts."""

    def __init__(self, labels: tuple[str, ...] | None = None) -> None:
        super().__init__(lambda item: Approve(digest=digest(item.params), labels=labels))

    def take(self) -> list[str]:
        """Return the tools that were asked about since the last time."""
        names = [item.params.name for item in self.shown]
        self.shown.clear()
        return names


async def call(host: Host, *names: str, principal: str | None = None) -> None:
    """Call tools one after the other."""
    for name in names:
        await host.confirm(CallToolRequestParams.of(name, {}), where(name, principal))


async def test_a_tool_is_asked_about_once_until_all_three_labels_meet():
    """Then the person learns why, in a sentence; no grant covers that."""
    person = Counting()
    policy = structs.replace(FLOW, labels=(LabelRule(labels=("outbound",), name="send"),))
    host = Host(reviewer=person, policy=policy)
    await call(host, "read_file", "send", "read_file", "send", "fetch")
    assert person.take() == ["read_file", "send", "fetch"]
    await call(host, "read_file", "fetch")
    assert person.take() == ["fetch"], "fetch can send, too"
    await call(host, "send", "send", "read_file")
    assert [item.risks[0].text for item in person.shown] == [SENTENCE] * 2
    assert all("grant" not in item.choices for item in person.shown)


async def test_sessions_are_those_of_principals():
    """What one has read does not concern another."""
    person = Counting()
    host = Host(reviewer=person, policy=FLOW)
    await call(host, "read_file", "fetch", "send", principal="anna")
    person.take()
    await call(host, "send", principal="bob")
    assert person.take() == []
    await call(host, "send", principal="anna")
    assert person.take() == ["send"]


async def test_a_destructive_tool_is_always_asked_about():
    """Labels are about stealing, not about destroying."""
    person = Counting()
    await call(Host(reviewer=person, policy=FLOW), "wipe", "wipe")
    assert person.take() == ["wipe", "wipe"]


async def test_a_tool_that_says_nothing_is_asked_about_until_a_person_labels_it():
    """The labels are kept with its definition, also for the next process."""
    store, person = MemoryStore(), Counting()
    host = Host(reviewer=person, policy=FLOW, store=store)
    await call(host, "mystery", "mystery")
    assert [item.labels for item in person.shown] == [("private", "untrusted", "outbound")] * 2
    labels = Counting(labels=("private",))
    await call(Host(reviewer=labels, policy=FLOW, store=store), "mystery", "mystery")
    assert labels.take() == ["mystery"]
    await call(Host(reviewer=labels, policy=FLOW, store=store), "mystery")
    assert labels.take() == []


async def test_without_a_person_the_flow_is_refused():
    """Also where the policy allows what it would ask about otherwise."""
    policy = Policy(default="flow", headless="allow", labels=(LabelRule(labels=("outbound",), name="send"),))
    host = Host(reviewer=None, policy=policy)
    await call(host, "send", "read_file", "fetch")
    with pytest.raises(Rejected, match="nobody can be asked"):
        await call(host, "send")


async def test_conditions_know_labels_and_session():
    """So that a rule can deny in place of asking."""
    deny = Rule(effect="deny", when='"outbound" in labels && "private" in session')
    host = Host(reviewer=None, policy=Policy(rules=(deny, Rule(effect="allow", kind="tool"))))
    await call(host, "send", "read_file")
    with pytest.raises(Rejected, match="policy"):
        await call(host, "send")


async def test_the_labels_are_chosen_on_all_surfaces():
    """The page and scripts find them in what is shown; the decision carries them, and the record is theirs."""
    made = Asking(MemoryStore(), policy=FLOW)
    waits = await made.waits(made.host.confirm(CallToolRequestParams.of("mystery", {}), where("mystery")))
    (question,) = await made.queue.pending()
    shown = collect_shown(question)
    assert shown is not None
    assert shown.labels == ("private", "untrusted", "outbound")
    await made.queue.decide(question.id, Approve(digest=shown.digest, labels=("private",)), hash=question.hash)
    assert await waits
    row = (await made.store.standing((where("mystery").identity,), "mystery")).definition
    assert row is not None
    assert row.labels == "private"


async def test_a_run_is_a_session_of_its_own():
    """What an earlier run has read is not in the context of the next one."""
    person = Counting()

    class Source:
        async def tools(self):
            for name in ("read_file", "fetch", "send"):
                yield Tool(name=name, input_schema={}, annotations=HINTS[name])

        async def call_tool(self, name, arguments):
            return CallToolResult(content=[TextContent(text=name)])

    def use(name: str) -> CreateMessageResult:
        content = [ToolUseContent(id=name, name=name, input={})]
        return CreateMessageResult(role="assistant", content=content, model="m", stop_reason="toolUse")

    done = CreateMessageResult(role="assistant", content=TextContent(text="done"), model="m")
    answers = [use("read_file"), use("fetch"), use("send"), done, use("send"), done]
    host = Host(Scripted(answers), reviewer=person, policy=FLOW)
    await host.run("Go", Source())
    assert person.take() == ["read_file", "fetch", "send"]
    await host.run("Go", Source())
    assert person.take() == []
