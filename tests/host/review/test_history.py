"""The record of decisions, as every surface reads it."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.host import Edit, Host, MemoryStore, Queue, Scripted, digest
from antiphon.host.review.history import PAGE, server_names, sought_by, told
from antiphon.host.store.asks import Sought
from tests.host.asks import Person, approve, origin, request


async def test_what_was_kept_of_an_ask_is_told():
    """The request, what was changed in it, the answer and each step."""
    shorter = request("Describe a hat", max_tokens=50)
    person = Person(lambda item: Edit(params=shorter, digest=digest(shorter)))
    store = MemoryStore()
    await Host(Scripted(["Warm"]), reviewer=person, store=store, keep_content=True)(request(), origin())
    await store.gather()
    [row] = (await store.asks(Sought())).rows
    full = await told(store, row)
    assert full.asked is not None and full.answer is not None and full.changes is not None
    assert full.asked.params == shorter
    assert full.answer.answer_text == "Warm"
    assert any(line.text.endswith("Describe a hat") for line in full.changes)
    assert [step.record.step for step in full.steps][:3] == ["received", "policy", "review"]


async def test_of_what_was_not_kept_its_steps_are_told():
    """Contents are kept only where that is asked for."""
    store = MemoryStore()
    await Host(Scripted(["Warm"]), reviewer=Person(approve), store=store)(request(), origin())
    await store.gather()
    [row] = (await store.asks(Sought())).rows
    full = await told(store, row)
    assert (full.asked, full.answer, full.form, full.texts) == (None, None, None, ())
    assert len(full.steps) == len(row.trail)


async def test_servers_have_the_names_they_are_known_by():
    """Those that wait now, those that have asked before, and those that are told."""
    store = MemoryStore()
    queue = Queue(store)
    asked, waits = origin(command=["asked"]), origin("2", command=["waits"])
    await Host(Scripted(["Warm"]), reviewer=Person(approve), store=store)(request(), asked)
    await store.gather()
    task = asyncio.create_task(Host(reviewer=queue, store=store)(request(), waits))
    async for _ in queue.changes():
        if await queue.pending():
            break
    names = await server_names(store, queue, {"told": "by somebody"}, [asked.identity, "nobody"])
    task.cancel()
    assert (names["told"], names[asked.identity], names[waits.identity]) == ("by somebody", "asked", "waits")
    assert "nobody" not in names


@pytest.mark.parametrize(
    ("fields", "sought"),
    [
        ({}, Sought(limit=PAGE)),
        ({"kind": "nonsense", "ending": "nonsense", "since": "soon", "before": "-1"}, Sought(limit=PAGE)),
        (
            {"kind": "tools/call", "ending": "refused", "before": "7"},
            Sought(method="tools/call", ending="refused", before=7, limit=PAGE),
        ),
        ({"q": "Hat shop"}, Sought(words=(("hat", ()), ("shop", ("i",))), limit=PAGE)),
    ],
)
def test_what_cannot_be_read_excludes_nothing(fields: dict[str, str], sought: Sought):
    """Words are also those of the names of servers."""
    assert sought_by(fields, {"i": "python Shop.py"}) == sought
