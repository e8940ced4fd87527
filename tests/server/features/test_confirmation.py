"""Tools that ask the user before they run: bound to the call, once, and never without a clear yes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError
from antiphon.gateway import Gateway
from antiphon.host import Approve, Host, Policy, Queue, Rule, Scripted, digest
from antiphon.host.review.review import ElicitItem, ToolItem
from antiphon.host.store import MemoryStore
from antiphon.types import ElicitResult, Tool
from antiphon.wire.elicitation import CONFIRM_FORM
from tests.support.raw_client import RawClient, raw_client, text

Json = dict[str, Any]
YES = {"action": "accept", "content": {"confirm": True}}


def drafts(done: list[int], **options: Any) -> Server:
    """Make a server whose tools ask first."""
    server = Server("mail", **options)

    @server.tool(confirm="Delete {count} drafts?")
    def delete(count: int = 3) -> str:
        done.append(count)
        return f"deleted {count}"

    @server.tool(confirm=lambda count: f"Really archive {count}?" if count > 1 else None)
    async def archive(count: int) -> str:
        done.append(count)
        return f"archived {count}"

    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}

    async def move(arguments: Json) -> str:
        done.append(arguments["count"])
        return "moved"

    server.add_tool(Tool(name="move", input_schema=schema), move, confirm="Move {count}?")
    return server


class Answers:
    """A user who answers every question in the same way."""

    def __init__(self, **answer: Any) -> None:
        self.asked: list[str] = []
        self._answer = ElicitResult(**(answer or YES))

    async def __call__(self, params: Any, origin: Any) -> ElicitResult:
        """Answer."""
        self.asked.append(params.message)
        return self._answer


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_the_user_is_asked_before_the_tool_runs(revision: str) -> None:
    """With the arguments of the call, defaults too; a function may find that a call needs no question."""
    done: list[int] = []
    user = Answers()
    async with Client(drafts(done), elicitation=user, revision=revision) as client:
        assert (await client.call_tool("delete", {"count": 7})).text == "deleted 7"
        assert (await client.call_tool("delete")).text == "deleted 3"
        assert (await client.call_tool("archive", {"count": 1})).text == "archived 1"
        assert (await client.call_tool("archive", {"count": 2})).text == "archived 2"
        assert (await client.call_tool("move", {"count": 9})).text == "moved"
    assert user.asked == ["Delete 7 drafts?", "Delete 3 drafts?", "Really archive 2?", "Move 9?"]
    assert done == [7, 3, 1, 2, 9]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    "answer", [{"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"confirm": False}}]
)
async def test_without_a_clear_yes_nothing_runs(revision: str, answer: Json) -> None:
    """Declined, closed, or a form that says no."""
    done: list[int] = []
    async with Client(drafts(done), elicitation=Answers(**answer), revision=revision) as client:
        result = await client.call_tool("delete", {"count": 7})
    assert result.is_error
    assert result.text == "The user did not confirm this call. Nothing was done."
    assert done == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_where_nobody_can_be_asked_nothing_runs(revision: str) -> None:
    """A client that offers no forms, or speaks a revision that has none."""
    done: list[int] = []
    async with Client(drafts(done), revision=revision) as client:
        result = await client.call_tool("delete", {"count": 7})
    assert result.is_error
    assert "needs the user's confirmation, and the user could not be asked" in result.text
    assert done == []


async def test_the_list_says_that_it_asks() -> None:
    """To hosts by the hint, to a gateway of ours by ``_meta``."""
    async with Client(drafts([])) as client:
        tools = {tool.name: tool async for tool in client.tools()}
    questions = {"delete": "Delete {count} drafts?", "archive": True, "move": "Move {count}?"}
    for name, question in questions.items():
        assert tools[name].annotations.destructive_hint is True
        assert tools[name].meta == {"antiphon/confirms": question}


def test_a_question_about_no_argument_is_refused_at_once() -> None:
    """The author sees it when the server starts."""
    server = Server("mail")
    with pytest.raises(ConfigError, match="names 'cuont', which is no argument"):

        @server.tool(confirm="Delete {cuont} drafts?")
        def delete(count: int) -> str:
            return str(count)


@pytest.mark.parametrize(
    "question", ["Delete {count", "Delete {count:d}?", "Delete {count!z}?", "Delete {count}?".format, str, 7]
)
def test_a_question_that_cannot_be_written_is_refused_at_once(question: Any) -> None:
    """With the name of the tool, and not at each call. Newer releases of Python know what more of its own takes."""
    wrong = r'tool "delete" .*: confirm= (is a question, as in .* cannot be used: |names .*, which is no argument)'
    with pytest.raises(ConfigError, match=wrong):

        @Server("mail").tool(confirm=question)
        def delete(count: int) -> str:
            return str(count)


async def call(client: RawClient, count: int, round: Json | None = None, name: str = "delete") -> Json:
    """Call the tool, or go on with a round by a yes to all its questions; return the reply."""
    answers: Json = {}
    if round is not None:
        answers = {"requestState": round["requestState"], "inputResponses": dict.fromkeys(round["inputRequests"], YES)}
    return await client.reply(client.modern("tools/call", name=name, arguments={"count": count}, **answers))


async def test_a_confirmation_of_another_call_confirms_nothing() -> None:
    """Other arguments, another tool, a made-up state, another server's: each is refused, and nothing runs."""
    done: list[int] = []
    server = drafts(done)
    async with raw_client(server) as client, raw_client(drafts([])) as stranger:
        round, foreign = (await call(client, 7))["result"], (await call(stranger, 7))["result"]
        forged = [
            await call(client, 70, round),
            await call(client, 7, round, name="archive"),
            await call(client, 7, {**round, "requestState": "made up"}),
            await call(client, 7, {**round, "requestState": round["requestState"][:-4]}),
            await call(client, 7, {**round, "requestState": foreign["requestState"]}),
        ]
        assert all("error" in each for each in forged), forged
        assert done == []
        assert text((await call(client, 7, round))["result"]) == "deleted 7"
    assert done == [7]


async def test_a_confirmation_counts_once() -> None:
    """The same answer again gets the same result, and nothing runs a second time; a new call asks anew."""
    done: list[int] = []
    async with raw_client(drafts(done)) as client:
        round = (await call(client, 7))["result"]
        replies = [await call(client, 7, round) for _ in range(2)]
        assert [text(reply["result"]) for reply in replies] == ["deleted 7"] * 2
        assert "inputRequests" in (await call(client, 7))["result"]
    assert done == [7]


async def test_an_answer_without_a_question_confirms_nothing() -> None:
    """Sent with the first request, under a key that the client has made up."""
    done: list[int] = []
    async with raw_client(drafts(done)) as client:
        answers = {"inputResponses": {"1": YES, "confirm": YES}}
        reply = await client.reply(client.modern("tools/call", name="delete", arguments={"count": 7}, **answers))
    assert "inputRequests" in reply["result"]
    assert done == []


class Person(Queue):
    """A queue whose person allows every call and confirms every form at once."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.calls: list[ToolItem] = []
        self.forms: list[ElicitItem] = []

    async def confirm(self, item: ToolItem) -> Approve:
        """Allow it."""
        self.calls.append(item)
        return Approve(digest=digest(item.params), by="ann")

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Confirm it; close any other form."""
        self.forms.append(item)
        return ElicitResult(**YES) if item.params.message.startswith("Delete") else ElicitResult(action="cancel")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("is_asked_before", [True, False])
async def test_a_gateway_asks_its_person_once(revision: str, *, is_asked_before: bool) -> None:
    """About the call where its policy asks, or else by the server's own question; at every revision of its client."""
    done: list[int] = []
    store = MemoryStore()
    person = Person(store)
    rules = () if is_asked_before else (Rule(effect="allow", kind="tool"),)
    host = Host(Scripted([]), reviewer=person, store=store, policy=Policy(rules=rules))
    async with Client(Gateway({"mail": drafts(done)}, host).server, revision=revision) as client:
        assert (await client.call_tool("mail__delete", {"count": 7})).text == "deleted 7"
        assert (await client.call_tool("mail__delete", {"count": 8})).text == "deleted 8"
    assert len(person.calls) == (2 if is_asked_before else 0)
    assert len(person.forms) == (0 if is_asked_before else 2)
    assert done == [7, 8]


async def test_a_server_of_an_older_revision_asks_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its question comes as a request of its own. It is of the approved call where no other one is open."""
    monkeypatch.setattr("antiphon.client.link.PROBE_TIMEOUT", 0.0)
    done: list[int] = []
    server, runs, ends = drafts(done), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        runs.set()
        await ends.wait()

    person = Person(store := MemoryStore())
    host = Host(Scripted([]), reviewer=person, store=store)
    async with Client(Gateway({"mail": server}, host).server) as client:
        assert (await client.call_tool("mail__delete", {"count": 7})).text == "deleted 7"
        assert not person.forms
        waiting = asyncio.create_task(client.call_tool("mail__wait"))
        await runs.wait()
        assert (await client.call_tool("mail__delete", {"count": 8})).text == "deleted 8"
        assert len(person.forms) == 1
        ends.set()
        await waiting
    assert [item.origin.revision for item in person.calls] == ["2025-11-25"] * 3
    assert done == [7, 8]


async def test_an_approval_confirms_no_other_form() -> None:
    """A server that declares that it confirms, and asks for something else, asks the person."""
    server = Server("mail")

    @server.tool(meta={"antiphon/confirms": True})
    async def pry(ctx: Context) -> str:
        await ctx.elicit("Send all mails to a stranger?", bool)
        return "seen"

    store = MemoryStore()
    person = Person(store)
    host = Host(Scripted([]), reviewer=person, store=store)
    async with Client(Gateway({"mail": server}, host).server) as client:
        await client.call_tool("mail__pry")
    assert len(person.forms) == 1


@pytest.mark.parametrize("declared", [True, "Go on?", "{count.__class__}", "Give {nothing} away?", "{"])
async def test_an_approval_confirms_no_other_question(declared: object) -> None:
    """The form may be the same: what it asks was not shown to whoever approved the call."""
    server = Server("mail")

    @server.tool(meta={"antiphon/confirms": declared})
    async def pry(ctx: Context, count: int) -> str:
        return (await ctx.elicit("Give all mails away?", CONFIRM_FORM)).action

    store = MemoryStore()
    person = Person(store)
    host = Host(Scripted([]), reviewer=person, store=store)
    async with Client(Gateway({"mail": server}, host).server) as client:
        assert (await client.call_tool("mail__pry", {"count": 1})).text == "cancel"
    assert len(person.forms) == 1


async def test_a_confirmation_of_another_principal_confirms_nothing() -> None:
    """A state belongs to whoever made the call."""
    done: list[int] = []
    server = drafts(done)
    async with raw_client(server, principal="ann") as ann, raw_client(server, principal="bob") as bob:
        round = (await call(ann, 7))["result"]
        assert "error" in await call(bob, 7, round)
    assert done == []
