from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.host import digest
from tests.cli.program import at_terminal, ended
from tests.cli.waiting import Waiting, editor
from tests.host.asks import request


async def test_a_request_is_edited_by_a_script(desk: Waiting, tmp_path: Path):
    """The form is changed, the difference told, and the changed request is what is sent."""
    asked = await desk.ask(request("A red hat"))
    id = (await desk.pending()).id
    script = editor(tmp_path, "text = text.replace('red', 'green').replace('100', '50')")
    done = await desk.elsewhere("review", "edit", await desk.named(), "--yes", EDITOR=script)
    assert (done.code, done.out) == (0, f"{id}: approved as edited\n")
    assert "-A red hat" in done.err
    assert "+A green hat" in done.err
    assert (await asked).text == "one"
    sent = [record for record in desk.host.audit.records() if record.step == "generate"]
    assert [record.digest for record in sent] == [digest(request("A green hat", max_tokens=50))]


async def test_a_mistake_opens_the_editor_again(desk: Waiting, tmp_path: Path):
    """With the mistake at the top, and the text as it was left."""
    asked = await desk.ask()
    wrong = "text = text.replace('\"user\"', '\"root\"')"
    change = "text = text.replace('\"root\"', '\"user\"').replace('sweater', 'coat')"
    done = await desk.elsewhere(
        "review", "edit", await desk.named(), "--yes", VISUAL=editor(tmp_path, wrong, change), EDITOR="false"
    )
    assert done.code == 0
    assert 'messages[0].role: must be "user" or "assistant"' in done.err
    assert (tmp_path / "seen1").read_text(encoding="utf-8").startswith("# Mistake: messages[0].role")
    await asked


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("text = text", "nothing was changed"),
        ("text = text.replace('\"user\"', '\"root\"')", "nothing was decided: messages[0].role"),
        ("text = text.replace('= 100', '= 101')", "max_tokens: must be from 1 to 100"),
        ("raise SystemExit(3)", "the editor ended with exit code 3"),
    ],
)
async def test_an_edit_may_come_to_nothing(program: str, message: str, desk: Waiting, tmp_path: Path):
    """Then the question stays."""
    await desk.ask()
    done = await desk.elsewhere("review", "edit", await desk.named(), "--yes", EDITOR=editor(tmp_path, program))
    assert done.code == 1
    assert message in done.err
    assert len(await desk.queue.pending()) == 1


async def test_a_script_says_that_it_may_be_sent(desk: Waiting):
    """Without a terminal nobody else can."""
    await desk.ask()
    done = await desk.elsewhere("review", "edit", (await desk.pending()).id, EDITOR="true")
    assert done.code == 2
    assert "--yes" in done.err


async def test_a_form_cannot_be_edited(desk: Waiting):
    """Only what a model will answer."""
    await desk.ask_person()
    done = await desk.run("review", "edit", await desk.named(), "--yes")
    assert (done.code, "can be edited" in done.err) == (1, True)


async def test_an_edit_at_a_terminal_is_shown_before_it_is_sent(desk: Waiting, tmp_path: Path):
    """The request first; edit, look at the difference, edit again, send."""
    asked = await desk.ask(request("A red hat"))
    id = (await desk.pending()).id
    script = editor(tmp_path, "text = text.replace('red', 'green')", "text = text.replace('green', 'blue')")

    def walk() -> int | None:
        child = at_terminal("review", "edit", id[:5], "--store", desk.place, EDITOR=script)
        child.expect_exact("catalogue.py")
        child.expect_exact("A red hat")
        child.expect_exact("+A green hat")
        child.expect_exact("decision> ")
        child.sendline("e")
        child.expect_exact("+A blue hat")
        child.expect_exact("decision> ")
        child.sendline("s")
        child.expect_exact("approved as edited")
        return ended(child)

    assert await asyncio.to_thread(walk) == 0
    assert (await asked).text == "one"


async def test_an_edit_at_a_terminal_can_be_given_up(desk: Waiting, tmp_path: Path):
    """Nothing is decided then."""
    await desk.ask(request("A red hat"))
    id = (await desk.pending()).id

    def walk() -> int | None:
        script = editor(tmp_path, "text = text.replace('red', 'green')")
        child = at_terminal("review", "edit", id, "--store", desk.place, EDITOR=script)
        child.expect_exact("decision> ")
        child.sendline("q")
        child.expect_exact("nothing was decided")
        return ended(child)

    assert await asyncio.to_thread(walk) == 1
    assert len(await desk.queue.pending()) == 1
