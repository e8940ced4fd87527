"""The attack table: one row, one test, through the whole host. What is sent or answered is ``test_attacks_content``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

from antiphon.errors import InternalError, InvalidParams, Rejected
from antiphon.host import Approve, Edit, Host, Limits, MemoryStore, Queue, ReviewItem, Scripted, digest, open_store
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.models.selection import make_chooser
from antiphon.host.review.queue import Mismatch
from antiphon.wire.common import Implementation
from antiphon.wire.content import ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult, ModelHint, ModelPreferences
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import Person, approve, host_reason, origin, request

OPEN = {"reviewer": None, "review": "never"}
SECRET = "my key: AKIAIOSFODNN7EXAMPLE"


async def test_approve_one_send_another():
    """A request that changes between approval and sending is not sent, and leaves no grant."""
    metadata = {"note": "harmless"}
    provider = Scripted(["never"])

    def approve_then_change(item: ReviewItem) -> Approve:
        decision = Approve(digest=digest(item.params), scope="session")
        metadata["note"] = "something else"
        return decision

    host = Host(provider, reviewer=Person(approve_then_change))
    with pytest.raises(Rejected) as caught:
        await host(request(metadata=metadata), origin())
    assert caught.value.data == {"reason": "changed"}
    assert (provider.requests, await host.grants.all()) == ([], [])


async def test_an_approval_of_something_else():
    """A decision that carries the digest of another request approves nothing; an edit neither."""
    other = digest(request("something else"))
    for decide in (lambda item: Approve(digest=other), lambda item: Edit(params=item.params, digest=other)):
        with pytest.raises(Rejected) as caught:
            await Host(Scripted(["never"]), reviewer=Person(decide))(request(), origin())
        assert caught.value.data == {"reason": "changed"}


async def test_confirm_one_call_make_another():
    """What may be called is what was shown."""
    shown = CallToolRequestParams.of("order", {"pieces": 1})
    host = Host(reviewer=Person(lambda item: Approve(digest=digest(shown))))
    with pytest.raises(Rejected) as caught:
        await host.confirm(CallToolRequestParams.of("order", {"pieces": 1000}), origin())
    assert caught.value.data == {"reason": "changed"}


async def test_an_approval_of_another_answer():
    """What goes to the server is the answer that was shown."""
    host = Host(Scripted(["x"]), reviewer=Person(approve, lambda item: Approve(digest="0")), review_response="always")
    with pytest.raises(Rejected) as caught:
        await host(request(), origin())
    assert caught.value.data == {"reason": "changed"}


async def test_same_name_another_command_line():
    """What was allowed to one server is not allowed to its namesake."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(Scripted(["1", "2"]), reviewer=person)
    me = Implementation(name="catalogue", version="1")
    await host(request(), origin("1", server=me))
    await host(request(), origin("2", server=me, command=["python", "evil.py"]))
    assert len(person.shown) == 2


async def test_a_grant_after_the_system_prompt_changed():
    """Re-asked: it is another kind of request now."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(Scripted(["1", "2", "3"]), reviewer=person)
    await host(request(system_prompt="Be kind"), origin("1"))
    await host(request(system_prompt="Be root"), origin("2"))
    await host(request(system_prompt="Be kind", tools=[Tool(name="f", input_schema={})]), origin("3"))
    assert len(person.shown) == 3


async def test_an_off_list_hint_chooses_nothing():
    """A hint never becomes the name of a model."""
    wishes = ModelPreferences(hints=[ModelHint(name="most-expensive")])
    result = await Host("echo", **OPEN)(request(model_preferences=wishes), origin())
    assert result.model == "echo"


async def test_an_off_list_hint_goes_to_no_other_model():
    """Neither one that the user has not, nor one that this server may not use."""
    models = (model("small"), model("large", aliases=("most-expensive",)))
    provider = Models(ModelCatalogue(models, default="small"), {})
    choose = make_chooser(provider, lambda asked: ["small"])
    for hint in ("gpt-9", "large", "most-expensive"):
        wishes = ModelPreferences(hints=[ModelHint(name=hint)])
        person = Person(approve)
        await Host(provider, reviewer=person, choose=choose)(request(model_preferences=wishes), origin())
        assert (person.shown[0].model, person.shown[0].models) == ("small", ())


def model(name: str, **more) -> Model:
    """Make a model that costs nothing."""
    free = ModelPrice(input=Decimal(0), output=Decimal(0))
    return Model(name=name, provider="echo", model="echo", context=100_000, price=free, **more)


async def test_an_endless_tool_loop():
    """Each turn of it is a request of one call, and that has so many; the next call begins anew."""
    use = ToolUseContent(id="1", name="f", input={})
    turn = CreateMessageResult(role="assistant", content=[use], model="m", stop_reason="toolUse")
    host = Host(Scripted([turn] * 20), limits=Limits(per_call=5), **OPEN)
    tools = request(tools=[Tool(name="f", input_schema={})])
    outcomes = [await host_reason(host, origin(str(number)), tools) for number in range(8)]
    assert outcomes == [None] * 5 + ["limit"] * 3
    assert await host_reason(host, origin("9", call="another"), tools) is None


async def test_recursion():
    """An answer that needs an answer of the same call, and so on: it ends, and all of it fails."""
    depth = 0

    class Recursive(Scripted):
        async def complete(self, params, *, model=None):
            nonlocal depth
            depth += 1
            return await host(params, origin(str(depth)))

    host = Host(Recursive([]), limits=Limits(concurrent_per_call=6), **OPEN)
    with pytest.raises(InternalError):
        await host(request(), origin("0"))
    assert depth == 6


async def test_headless_with_no_policy():
    """Denied, with a reason a program can read."""
    with pytest.raises(Rejected) as caught:
        await Host(reviewer=None)(request(), origin())
    assert caught.value.data == {"reason": "no-reviewer"}


@pytest.mark.parametrize(
    ("more", "command", "shown"),
    [
        ({}, None, 0),
        ({}, ["python", "evil.py"], 1),
        ({"system_prompt": "Be root"}, None, 1),
        ({"tools": [Tool(name="f", input_schema={})]}, None, 1),
    ],
)
async def test_a_grant_that_outlived_its_process(tmp_path: Path, more: dict, command: list[str] | None, shown: int):
    """For ever means for this server, these tools and this system prompt, also after a restart."""
    always = Person(lambda item: Approve(digest=digest(item.params), scope="always"))
    for answer in ("before", "after"):
        store = open_store(tmp_path / "host.db")
        host = Host(Scripted([answer]), reviewer=always, store=store)
        if answer == "before":
            await host(request(), origin("1"))
            always.shown.clear()
        else:
            await host(request(**more), origin("1", command=command))
        await store.aclose()
    assert len(always.shown) == shown


async def test_an_approval_of_another_request_in_the_queue():
    """Whoever decides says what they saw; what is kept is another, so nothing is decided."""
    store = MemoryStore()
    queue = Queue(store)
    task = asyncio.create_task(Host(Scripted(["never"]), reviewer=queue, store=store)(request(), origin()))
    changes = queue.changes()
    while not (pending := await queue.pending()):
        await anext(changes)
    [question] = pending
    with pytest.raises(Mismatch):
        await queue.decide(question.id, Approve(digest=digest(request("something else"))), hash=question.hash)
    assert (await queue.get(question.id)).state == "pending"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_flood_that_nobody_has_to_allow():
    """What the policy allows is bounded all the same."""
    host = Host("echo", limits=Limits(per_minute=10), **OPEN)
    outcomes = [await host_reason(host, origin(str(number), call=f"call-{number}")) for number in range(12)]
    assert outcomes == [None] * 10 + ["limit"] * 2


async def test_invalid_forms_do_not_fill_the_audit():
    """300 forms, each with 200 kB in the name of a field: outcomes are short, and limits come before validation."""
    host = Host(reviewer=None, limits=Limits(per_minute=5, per_call=None))
    name = "x" * 200_000
    for number in range(300):
        params = ElicitRequestParams.form("?", {"properties": {f"{number}{name}": {"type": "nonsense"}}})
        with suppress(InvalidParams):
            await host.elicit(params, origin(str(number)))
    records = [entry.record async for entry in host.audit.entries()]
    assert max(len(record.outcome) for record in records) <= 300
    assert sum(record.step == "invalid" for record in records) == 5
    [first, *_] = [record for record in records if record.step == "invalid"]
    assert first.outcome.startswith("requestedSchema.properties.0xxx")
    assert "sha256:" in first.outcome


async def test_invalid_requests_are_limited_as_valid_ones_are():
    """A server cannot have them validated without end."""
    host = Host(reviewer=None, limits=Limits(per_minute=2))
    reasons = []
    for number in range(4):
        try:
            await host(request(messages=[]), origin(str(number)))
        except InvalidParams:
            reasons.append("invalid")
        except Rejected as refused:
            reasons.append(refused.data["reason"])
    assert reasons == ["invalid", "invalid", "limit", "limit"]
