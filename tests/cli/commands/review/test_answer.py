from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.host import digest
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from tests.cli.program import at_terminal, ended
from tests.cli.waiting import Waiting, editor
from tests.host.asks import request


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
    """Field by field; `=` takes what the server suggests for one."""
    asked = await desk.ask_person()
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", "answer", id, "--store", desk.place)
        for prompt, typed in (("value> ", "Ada"), ("value> ", "="), ("decision> ", "a")):
            child.expect_exact(prompt)
            child.sendline(typed)
        return ended(child)

    assert await asyncio.to_thread(walk) == 0
    assert await asked == ElicitResult(action="accept", content={"name": "Ada", "age": 7})


@pytest.mark.parametrize(
    ("words", "key", "code"),
    [(["approve"], "a", 0), (["approve"], "c", 1), (["answer", "blue"], "a", 0), (["answer", "blue"], "c", 1)],
)
async def test_what_passes_is_shown_at_a_terminal_before_it_does(desk: Waiting, words: list[str], key: str, code: int):
    """A bare id lets nothing pass unseen: the request is shown, and the person asked."""
    asked = await desk.ask()
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", words[0], id[:6], *words[1:], "--store", desk.place)
        for seen in ("Describe a sweater", f"{id}:", "decision> "):
            child.expect_exact(seen)
        child.sendline(key)
        return ended(child)

    assert await asyncio.to_thread(walk) == code
    assert [each.id for each in await desk.queue.pending()] == ([id] if code else [])
    if not code:
        assert (await asked).text == ("blue" if words[1:] else "one")


async def test_a_long_request_is_folded_until_it_is_wanted_whole(desk: Waiting):
    """What is cut says so, its key shows all, and nothing is approved before."""
    asked = await desk.ask(request("\n".join(f"sentence {n}" for n in range(100))))
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", "approve", id, "--store", desk.place)
        child.expect_exact("decision> ")
        assert "sentence 99" not in child.before
        child.sendline("a")
        child.expect_exact("still folded: f shows all of it, then decide")
        child.expect_exact("decision> ")
        child.sendline("f")
        child.expect_exact("sentence 99")
        child.sendline("a")
        return ended(child)

    assert await asyncio.to_thread(walk) == 0
    assert (await asked).text == "one"


async def test_what_has_changed_since_it_was_shown_is_not_approved(desk: Waiting):
    """The decision names what was shown; what asks something else meanwhile is asked about again."""
    asked = await desk.ask()
    named = await desk.named()
    await asyncio.to_thread(_changed, desk.place)
    done = await desk.run("review", "approve", named)
    assert (done.code, "not what was listed any more" in done.err) == (1, True)
    assert not asked.done()


def _changed(place: str) -> None:
    """Have the store keep another hash of what waits, as a process does that asks the same for another model."""
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("UPDATE reviews SET hash = ?", ["0" * 64])


async def test_what_a_newer_release_asks_is_not_said_to_be_over(desk: Waiting):
    """It waits still, and can be decided there."""
    await desk.ask()
    id = (await desk.pending()).id
    with closing(sqlite3.connect(desk.place)) as database, database:
        database.execute("UPDATE reviews SET item = '{}'")
    said = f"{id}: it waits, but cannot be read by this release"
    assert said in (await desk.run("review", "show", id)).out
    assert said in (await desk.run("review", "approve", id)).err


LONG = "https://example.com@evil.test/" + "a" * 300 + "/end"
ADDRESS = ElicitRequestParams(mode="url", message="Pay", url=LONG, elicitation_id="1")
SUGGESTED = ElicitRequestParams.form("Sure?", {"properties": {"delete": {"type": "boolean", "default": True}}})


async def test_a_script_accepts_only_what_was_printed(desk: Waiting, monkeypatch: pytest.MonkeyPatch):
    """An id alone, or with a part of the hash, accepts nothing; as a list in a pipe or show prints it, it does."""
    asked = await desk.ask_person(ADDRESS)
    id = (await desk.pending()).id
    listed = (await desk.run("review")).out.split("\t")[0]
    for name in (id, f"{id}:", listed[:-1]):
        with monkeypatch.context() as of_somebody_else:
            of_somebody_else.setenv("XDG_STATE_HOME", "nowhere")
            refused = await desk.run("review", "approve", name)
        assert (refused.code, f"antiphon review show {id}" in refused.err) == (2, True)
    assert [each.id for each in await desk.queue.pending()] == [id]
    assert listed in (await desk.run("review", "show", id)).out
    assert (await desk.run("review", "approve", listed)).code == 0
    assert (await asked).action == "accept"


async def test_an_address_is_printed_whole(desk: Waiting):
    """In a list in a pipe, and by show, where its host stands apart."""
    await desk.ask_person(ADDRESS)
    id = (await desk.pending()).id
    shown = (await desk.run("review", "show", id)).out
    assert LONG in shown
    assert "evil.test" in shown.replace(LONG, "")
    assert LONG in (await desk.run("review")).out


async def test_the_answers_that_a_server_suggests_are_sent_only_when_told_to(desk: Waiting):
    """To approve a form fills in nothing; `answer --defaults` does."""
    asked = await desk.ask_person(SUGGESTED)
    listed = (await desk.run("review")).out
    assert listed.rstrip().endswith("Sure?")
    [named, *_] = listed.split("\t")
    assert (await desk.run("review", "approve", named)).code != 0
    assert not asked.done()
    assert (await desk.run("review", "answer", named, "--defaults")).code == 0
    assert (await asked).content == {"delete": True}


@pytest.mark.parametrize(("key", "code"), [("a", 0), ("c", 1)])
async def test_an_address_is_accepted_at_a_terminal_after_it_was_shown(desk: Waiting, key: str, code: int):
    """Whole, its host apart; who turns away decides nothing."""
    asked = await desk.ask_person(ADDRESS)
    id = (await desk.pending()).id

    def walk() -> int | None:
        child = at_terminal("review", "approve", id, "--store", desk.place)
        for seen in ("evil.test", "https://example.com@evil.test/", "decision> "):
            child.expect_exact(seen)
        child.sendline(key)
        return ended(child)

    assert await asyncio.to_thread(walk) == code
    assert [each.id for each in await desk.queue.pending()] == ([id] if code else [])
    if not code:
        assert (await asked).action == "accept"


async def test_a_request_is_edited_by_a_script(desk: Waiting, tmp_path: Path):
    """The form is changed, the difference told, and the changed request is what is sent."""
    asked = await desk.ask(request("A red hat"))
    id = (await desk.pending()).id
    script = editor(tmp_path, "text = text.replace('red', 'green').replace('100', '50')")
    done = await desk.elsewhere("review", "edit", await desk.named(), "--yes", EDITOR=script)
    assert (done.code, done.out) == (0, f"{id}: approved as edited\n")
    assert "- messages[0] user: A red hat" in done.err
    assert "+ messages[0] user: A green hat" in done.err
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
        child.expect_exact("+ messages[0] user: A green hat")
        child.expect_exact("decision> ")
        child.sendline("e")
        child.expect_exact("+ messages[0] user: A blue hat")
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
