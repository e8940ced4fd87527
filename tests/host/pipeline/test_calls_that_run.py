"""What runs is what the policy and the person allow: edits, time that passes, calls at once, grants, principals."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import Raw, structs

from antiphon import Client, Server
from antiphon.errors import Rejected
from antiphon.host import Answer, Approve, ChangedCall, Host, MemoryStore, Policy, Queue, Rule, digest, open_store
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import Person, approve
from tests.host.pipeline.test_tool_consent import SIZED, TOOL, asked, call, edit, refused

BIG = Rule(effect="deny", when='tool == "order" && args.n > 100')


async def test_an_edit_cannot_pass_what_a_rule_denies():
    """The policy decides about the call that would run; the one that was asked about was fine."""
    fine = CallToolRequestParams.of("order", {"sku": "P-1", "n": 5})
    host = Host(reviewer=edit(sku="P-1", n=50_000), policy=Policy(rules=(BIG,)))
    assert await refused(host, fine, asked(tool=SIZED)) == "policy"


async def test_rules_hold_for_the_moment_at_which_a_call_runs():
    """What was let pass while a person thought counts."""
    rules = (
        Rule(effect="deny", when='tool == "order" && "read_mail" in calls'),
        Rule(effect="allow", name="read_mail"),
    )
    shown, decide = asyncio.Event(), asyncio.Event()

    class Slow(Person):
        async def confirm(self, item):
            shown.set()
            await decide.wait()
            return Approve(digest=digest(item.params))

    host = Host(reviewer=Slow(approve), policy=Policy(rules=rules))
    waiting = asyncio.create_task(host.confirm(call(), asked()))
    await shown.wait()
    await host.confirm(call(name="read_mail"), asked("2", tool=structs.replace(TOOL, name="read_mail")))
    decide.set()
    with pytest.raises(Rejected) as caught:
        await waiting
    assert caught.value.data["reason"] == "policy"


async def test_of_calls_at_once_only_as_many_pass_as_a_rule_allows(tmp_path: Path):
    """Each counts from the moment it is asked about, and one that is refused counts no more."""
    three = Rule(effect="allow", when='tool == "order" && (!("order" in calls) || calls.order < 3)')
    store = open_store(tmp_path / "host.db")
    async with Host(reviewer=None, store=store, policy=Policy(rules=(three,), default="deny")) as host:
        calls = (host.confirm(call(), asked(str(number))) for number in range(20))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert results.count(True) == 3
        assert await refused(host) == "policy"


async def test_an_answer_in_place_of_a_call_does_not_count():
    """The tool did not run."""
    once = Rule(effect="deny", when='"order" in calls')
    host = Host(reviewer=Person(lambda item: Answer(result="by hand")), policy=Policy(rules=(once,)))
    for ask in ("1", "2"):
        assert isinstance(await host.confirm(call(), asked(ask)), ChangedCall)


async def test_more_tools_than_are_counted_make_a_rule_unclear():
    """Nothing is forgotten in favour of the call: where nobody can be asked, it is denied."""
    read = Rule(effect="deny", when='tool == "order" && "read_mail" in calls')
    host = Host(reviewer=None, policy=Policy(rules=(read,), default="allow"))
    for name in ("read_mail", *(f"tool-{number}" for number in range(100))):
        await host.confirm(call(name=name), asked(name, tool=structs.replace(TOOL, name=name)))
    assert await refused(host) == "no-reviewer"


async def test_a_note_names_what_differs_as_json():
    """To Python, 1 and true are equal."""
    changed = await Host(reviewer=edit(sku=True)).confirm(CallToolRequestParams.of("order", {"sku": 1}), asked())
    assert isinstance(changed, ChangedCall)
    assert changed.note.endswith("sku.")
    nothing = await Host(reviewer=edit(sku=[])).confirm(CallToolRequestParams.of("order", {}), asked())
    assert nothing.note.endswith("sku.")


@pytest.mark.parametrize("plain_first", [True, False])
async def test_a_grant_covers_nothing_that_a_condition_asks_about(plain_first: bool):
    """In whatever order the rules are written."""
    rules = (Rule(effect="ask", name="order"), Rule(effect="ask", when='tool == "order" && args.n > 100'))
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(reviewer=person, policy=Policy(rules=rules if plain_first else rules[::-1]))
    for ask, n in enumerate((5, 6, 5000)):
        await host.confirm(CallToolRequestParams.of("order", {"n": n}), asked(str(ask)))
    assert [bytes(item.params.arguments) for item in person.shown] == [b'{"n":5}', b'{"n":5000}']


async def test_a_grant_is_for_the_principal_who_asked():
    """What was allowed for one client of a gateway asks again for another."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(reviewer=person)
    for ask, principal in enumerate(("ann", "ann", "mallory")):
        await host.confirm(call(), structs.replace(asked(str(ask)), principal=principal))
    assert [item.origin.principal for item in person.shown] == ["ann", "mallory"]


@pytest.mark.parametrize("arguments", [b"[1]", b'"x"', b"null"])
async def test_arguments_that_are_no_object_leave_the_queue_readable(arguments: bytes):
    """The question is shown among the others, with the arguments as they came."""
    store = MemoryStore()
    queue = Queue(store, undo=0)
    host = Host(reviewer=queue, store=store)

    server = Server("s")

    @server.tool
    def order(n: int = 1) -> str:
        """Order."""
        return str(n)

    async with Client(server, confirm=host) as client:
        calls = [
            asyncio.create_task(client.call_tool("order", Raw(given) if isinstance(given, bytes) else given))
            for given in ({"n": 1}, arguments)
        ]
        async with asyncio.timeout(60), aclosing(queue.changes()) as changes:
            async for _ in changes:
                if len(await queue.pending()) == 2:
                    break
        shown = {bytes(question.item.params.arguments) for question in await queue.pending()}
        assert shown == {b'{"n":1}', arguments}
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
