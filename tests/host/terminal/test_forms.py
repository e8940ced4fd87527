"""The form of a request: exact both ways, and narrow in what it lets change."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.host.review.summary import Texts, load_texts
from antiphon.host.terminal.console import PROMPT, Console
from antiphon.host.terminal.forms import (
    edit_text,
    fill_in,
    find_editor,
    from_form,
    may_open,
    open_address,
    read_address,
    to_form,
)
from antiphon.host.terminal.request_text import ENGLISH
from antiphon.host.terminal.tty import Tty
from antiphon.wire.common import Annotations
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.sampling import SamplingMessage
from tests.host.asks import request, says
from tests.host.terminal.screenful import screenful

LOOP = [
    SamplingMessage(role="user", content=[TextContent(text="see"), ImageContent(data="AA==", mime_type="image/png")]),
    SamplingMessage(role="assistant", content=ToolUseContent(id="1", name="f", input={})),
    SamplingMessage(role="user", content=[ToolResultContent(tool_use_id="1", content=[])]),
]


@example('"""', '\\"', 1)
@example('a "quoted"', 'three: """"', 1)
@given(st.text(), st.text(), st.integers(min_value=1))
def test_a_form_says_exactly_what_the_request_says(prompt: str, system_prompt: str, max_tokens: int):
    """Quotes, backslashes, control characters, line ends: nothing is lost, nothing is invisible."""
    asked = request(prompt, system_prompt=system_prompt, max_tokens=max_tokens)
    form = to_form(asked)
    data = tomllib.loads(form)
    assert (data["messages"][0]["text"], data["system_prompt"]) == (prompt, system_prompt)
    assert from_form(form, asked) == asked
    assert "\x1b" not in form


def test_text_is_changed_by_editing_the_form():
    """System prompt, text, role and limit."""
    asked = request("Describe a sweater", system_prompt="Be brief")
    form = to_form(asked).replace("sweater", "hat").replace("Be brief", "Be kind").replace("= 100", "= 50")
    edited = from_form(form, asked)
    assert (edited.messages[0].text, edited.system_prompt, edited.max_tokens) == ("Describe a hat", "Be kind", 50)
    assert from_form(form.replace('"user"', '"assistant"'), asked).messages[0].role == "assistant"


def test_messages_are_added_and_removed():
    """In any order."""
    asked = request(messages=[says("one"), says("two")])
    added = to_form(asked) + '\n[[messages]]\nrole = "user"\ntext = "three"\n'
    assert [message.text for message in from_form(added, asked).messages] == ["one", "two", "three"]
    removed = to_form(asked).rpartition("[[messages]]")[0]
    assert [message.text for message in from_form(removed, asked).messages] == ["one"]


def test_blocks_that_are_no_text_are_kept_as_they_are():
    """Media and tool uses have a number in the form."""
    asked = request(messages=LOOP)
    assert from_form(to_form(asked), asked) == asked
    without_picture = to_form(asked).replace("\n[[messages.content]]\nkeep = 1  # Image\n", "")
    assert [type(block) for block in from_form(without_picture, asked).messages[0].blocks] == [TextContent]


def test_a_message_that_was_not_touched_stays_itself():
    """With what the form does not show."""
    noted = SamplingMessage(role="user", content=TextContent(text="a", annotations=Annotations(priority=1)))
    asked = request(messages=[noted, says("b")])
    edited = from_form(to_form(asked).replace("\nb", "\nc"), asked)
    assert edited.messages[0] is noted
    assert edited.messages[1].text == "c"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("= 100", "= 101", "max_tokens"),
        ("= 100", "= 0", "max_tokens"),
        ("= 100", "= true", "max_tokens"),
        ("= 100", "= ", "not a valid form"),
        ("max_tokens", "temperature = 1\nmax_tokens", "temperature cannot be changed"),
        ("max_tokens", "system_prompt = 1\nmax_tokens", "system_prompt"),
        ('"user"', '"system"', r"messages\[0\]\.role"),
        ("text = ", "texts = ", "texts cannot be changed"),
        ("text = ", 'content = "x"\ntext = ', "either a text or content"),
    ],
)
def test_what_may_not_be_changed_is_named(old: str, new: str, problem: str):
    """And the request stays as it was."""
    asked = request()
    with pytest.raises(ValueError, match=problem):
        from_form(to_form(asked).replace(old, new), asked)


@pytest.mark.parametrize("entry", ["keep = 4", "keep = 0", "keep = true", 'keep = "1"', "text = 1", "other = 1"])
def test_only_blocks_that_were_there_can_be_kept(entry: str):
    """By their number."""
    asked = request(messages=LOOP)
    with pytest.raises(ValueError, match=r"messages\[0\]\.content\[1\]"):
        from_form(to_form(asked).replace("keep = 1", entry), asked)


@pytest.mark.parametrize(
    "messages", ["", "messages = []", "messages = [1]", "messages = [{role = 'user', content = 1}]"]
)
def test_a_request_needs_messages(messages: str):
    """Of the right shape."""
    with pytest.raises(ValueError, match="messages"):
        from_form(f"max_tokens = 1\n{messages}", request())


def editor(tmp_path: Path, body: str) -> str:
    """Write an editor; in its body, ``path`` is the file and ``note`` a file of the test's."""
    program = tmp_path / "my editor.py"
    note = f"pathlib.Path({str(tmp_path / 'note')!r})"
    program.write_text(f"import pathlib, sys, time\npath, note = pathlib.Path(sys.argv[1]), {note}\n{body}")
    return shlex.join([sys.executable, str(program)])


def noted(tmp_path: Path) -> tuple[bool, list[str]]:
    """Return whether the file the editor got still exists, and the facts it noted about it."""
    path, *facts = (tmp_path / "note").read_text().split("|")
    return Path(path).exists(), facts


async def test_what_the_editor_leaves_is_returned(tmp_path: Path):
    """It sees the text in a private file, on the terminal."""
    facts = "f'{path}|{path.stat().st_mode & 0o777:o}|{path.parent.stat().st_mode & 0o777:o}|{sys.stdin.isatty()}'"
    command = editor(tmp_path, f"note.write_text({facts})\npath.write_text(path.read_text().upper())\n")
    with screenful() as person:
        assert await edit_text("héllo", command, person.path) == "HÉLLO"
    assert noted(tmp_path) == (False, ["600", "700", "True"])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("path.unlink()", "cannot be read"),
        ("path.write_bytes(b'\\xff')", "cannot be read"),
    ],
)
async def test_an_editor_that_fails_changes_nothing(tmp_path: Path, body: str, problem: str):
    """The message says what happened."""
    with screenful() as person, pytest.raises(ValueError, match=problem):
        await edit_text("text", editor(tmp_path, body), person.path)


@pytest.mark.parametrize("command", ["no-such-editor-anywhere", "unclosed 'quote"])
async def test_an_editor_that_is_none_is_named(command: str):
    """A misspelt $EDITOR is no crash."""
    with screenful() as person, pytest.raises(ValueError, match="cannot be started"):
        await edit_text("text", command, person.path)


async def test_cancelling_ends_the_editor(tmp_path: Path):
    """And leaves neither process nor file."""
    command = editor(tmp_path, "note.write_text(str(path))\nprint('READY', flush=True)\ntime.sleep(60)\n")
    with screenful() as person:
        task = asyncio.create_task(edit_text("text", command, person.path))
        await person.expect("READY")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert noted(tmp_path) == (False, [])


def test_the_editor_is_the_persons_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """$VISUAL, then $EDITOR, then one that is installed, else none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("EDITOR", "ed")
    monkeypatch.setenv("VISUAL", "vim -n")
    assert find_editor() == "vim -n"
    monkeypatch.delenv("VISUAL")
    assert find_editor() == "ed"
    monkeypatch.delenv("EDITOR")
    assert find_editor() is None
    (tmp_path / "vi").touch(mode=0o755)
    assert find_editor() == "vi"


FORM = ElicitRequestParams.form(
    "Who?",
    {
        "type": "object",
        "required": ["name", "color"],
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2, "description": "As\x1b[2J on paper"},
            "age": {"type": "integer", "default": 30},
            "ok": {"type": "boolean", "default": True},
            "color": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
        },
    },
)


async def played(asking, *moves: tuple[str, str], words: Texts = ENGLISH) -> tuple[Any, str]:
    """Sit at a terminal and type each text when its prompt appears."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        task = asyncio.create_task(asking(Console(terminal, color=False, pause=0, words=words)))
        for prompt, typed in moves:
            await person.expect(prompt)
            person.type(typed)
        result = await task
        person.read_rest()
        return result, person.seen


async def test_fields_are_asked_one_after_another():
    """With types, choices and defaults; what does not fit is asked again; the whole is shown before it goes."""
    result, seen = await played(
        lambda at: fill_in(at, FORM),
        ("value> ", "x\n"),
        ("value> ", "Ada\n"),
        ("value> ", "=\n"),
        ("value> ", "-\n"),
        ("value> ", "2\n"),
        (PROMPT, "a\n"),
    )
    assert result == ElicitResult(action="accept", content={"name": "Ada", "age": 30, "color": "b"})
    assert "Not taken. What fits: a text, at least 2 characters." in seen
    assert "As⟦U+001B⟧[2J on paper" in seen
    assert "the server suggests: 30 (= takes it)" in seen
    assert "Blue (b)" in seen
    assert seen.index("This will be sent:") > seen.index("Blue (b)")


@pytest.mark.parametrize(
    ("typed", "taken"),
    [(["Ada", "", "", "2"], {}), (["Ada", "==", "2"], {"age": 30, "ok": True}), (["Ada", "", "=", "2"], {"ok": True})],
)
async def test_nothing_that_a_server_suggests_is_taken_by_an_empty_line(typed: list[str], taken: dict[str, object]):
    """One key takes a suggestion, another one all of them; what is taken is shown before it is sent."""
    result, seen = await played(
        lambda at: fill_in(at, FORM), *(("value> ", f"{line}\n") for line in typed), (PROMPT, "a\n")
    )
    assert result.content == {"name": "Ada", "color": "b", **taken}
    sent = seen[seen.index("This will be sent:") :]
    assert ("age = 30" in sent, "ok = yes" in sent) == ("age" in taken, "ok" in taken)


async def test_a_form_is_asked_in_the_person_s_language():
    """Only what the server wrote stays as it is."""
    chinese = load_texts("zh")
    result, seen = await played(
        lambda at: fill_in(at, FORM, chinese),
        ("值> ", "x\n"),
        ("值> ", "Ada\n"),
        ("值> ", "=\n"),
        ("值> ", "-\n"),
        ("值> ", "2\n"),
        ("决定> ", "a\n"),
        words=chinese,
    )
    assert result == ElicitResult(action="accept", content={"name": "Ada", "age": 30, "color": "b"})
    words = re.sub("name|age|ok|color|Name|Ada|Red|Blue|As|on paper|Enter|U|B|J|r|b", "", seen)
    assert not re.search("[A-Za-z]{4,}", words), words


@pytest.mark.parametrize("moves", [[("value> ", "\x04")], [("value> ", "Ada\n"), ("value> ", "\x04")]])
async def test_a_form_can_be_broken_off(moves: list[tuple[str, str]]):
    """Ctrl-D in a field decides nothing."""
    result, _ = await played(lambda at: fill_in(at, FORM), *moves)
    assert result is None


async def test_a_form_is_filled_in_again():
    """Before it is sent; or it is left."""
    name = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})
    again = (("value> ", "Ada\n"), (PROMPT, "e\n"), ("value> ", "Eve\n"))
    result, _ = await played(lambda at: fill_in(at, name), *again, (PROMPT, "a\n"))
    assert result == ElicitResult(action="accept", content={"name": "Eve"})
    result, _ = await played(lambda at: fill_in(at, name), *again, (PROMPT, "c\n"))
    assert result is None


async def test_a_form_without_fields_is_a_confirmation():
    """One key and it is sent."""
    empty = ElicitRequestParams.form("Sure?", {"type": "object", "properties": {}})
    result, _ = await played(lambda at: fill_in(at, empty), (PROMPT, "a\n"))
    assert result == ElicitResult(action="accept", content={})


@pytest.mark.parametrize(
    ("url", "opened", "seen"),
    [
        ("https://shop.example/pay", True, ""),
        ("https://shop.example/pay", False, "No browser could be opened"),
        ("vscode://run?command=rm", True, "No browser could be opened"),
    ],
)
async def test_only_web_pages_are_opened(url: str, opened: bool, seen: str):
    """Other schemes start programs; where no browser opens, the person can still go there."""
    asked: list[str] = []

    async def opener(address: str) -> bool:
        asked.append(address)
        return opened

    _, said = await played(lambda at: open_address(at, url, opener))
    assert seen in said
    assert asked == ([url] if may_open(url) else [])


async def test_a_long_address_is_shown_a_screen_at_a_time():
    """To its end, or until the person turns away."""
    url = "https://shop.example/" + "x" * 3000
    read, seen = await played(lambda at: read_address(at, url), *[("more> ", "\n")] * 2)
    assert read and seen.count("x") >= 3000
    read, _ = await played(lambda at: read_address(at, url), ("more> ", "\x04"))
    assert not read
