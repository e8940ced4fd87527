from __future__ import annotations

import asyncio

from antiphon.wire.elicitation import ElicitResult
from tests.cli.program import at_terminal, ended
from tests.cli.waiting import Waiting


async def test_an_answer_is_typed_at_a_terminal(desk: Waiting):
    """After what is asked was shown."""
    asked = await desk.ask()
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", "answer", id, "--store", desk.place)
        child.expect_exact("Describe a sweater")
        child.expect_exact("Write the answer.")
        child.sendline("Warm\n.")
        return ended(child)

    assert await asyncio.to_thread(walk) == 0
    assert (await asked).text == "Warm"


async def test_a_form_is_filled_in_at_a_terminal(desk: Waiting):
    """Field by field."""
    asked = await desk.ask_person()
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", "answer", id, "--store", desk.place)
        for prompt, typed in (("value> ", "Ada"), ("value> ", ""), ("decision> ", "a")):
            child.expect_exact(prompt)
            child.sendline(typed)
        return ended(child)

    assert await asyncio.to_thread(walk) == 0
    assert await asked == ElicitResult(action="accept", content={"name": "Ada", "age": 7})
