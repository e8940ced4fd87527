"""Questions and answers on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.checks.visible import cells_of, make_inert, wrap_line
from antiphon.host.terminal import console as module
from antiphon.host.terminal.console import PROMPT, Console, Layout
from antiphon.host.terminal.tty import Tty
from tests.host.terminal.screenful import Screenful, screenful

KEYS = {"a": "approve", "d": "deny"}


@contextlib.contextmanager
def console(*, pause: float = 0, echo: bool = True) -> Iterator[tuple[Screenful, Console]]:
    """Sit down at a terminal."""
    with screenful(echo=echo) as person, contextlib.closing(Tty(person.path)) as terminal:
        yield person, Console(terminal, color=False, pause=pause)


async def test_a_choice_is_one_of_its_keys():
    """Anything else is asked again; capitals are keys of their own."""
    with console() as (person, at):
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(" [a] approve  [d] deny ")
        await person.expect(PROMPT)
        person.type("A\n")
        await person.expect("Type one of a, d and Enter.")
        await person.expect(PROMPT)
        person.type(" d \n")
        assert await asked == "d"


async def test_ctrl_d_is_no_choice():
    """The caller decides what that means."""
    with console() as (person, at):
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(PROMPT)
        person.type("\x04")
        assert await asked is None


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [("y\n", True), ("Yes\n", True), ("\u662f\n", True), ("\n", False), ("yess\n", False), ("\x04", False)],
)
async def test_only_a_plain_yes_agrees(typed: str, agreed: bool):
    """In either language and in capitals, too; whatever else is typed agrees to nothing."""
    with console() as (person, at):
        asked = asyncio.create_task(at.agrees("Now? yes or no> "))
        await person.expect("yes or no> ")
        person.type(typed)
        assert await asked is agreed


@pytest.mark.parametrize("end", [".\n", "\x04"])
async def test_a_text_ends_with_a_dot_or_ctrl_d(end: str):
    """Empty lines within belong to it."""
    with console() as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Write. End with")
        person.type(f"one\n\n. two\n{end}")
        assert await asked == "one\n\n. two"


async def test_a_line_that_may_be_cut_is_pointed_out():
    """The terminal itself says nothing."""
    with console(echo=False) as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Ctrl-D.")
        person.type("x" * 4200 + "\n")
        await person.expect("may have cut it")
        person.type(".\n")
        assert len(await asked) == 4095


async def test_a_mistaken_paste_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    """Whole or not at all."""
    monkeypatch.setattr(module, "_MAX_TYPED", 10)
    with console() as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Ctrl-D.")
        person.type("12345\n12345\n.\n")
        assert await asked == ""
        await person.expect("more than 10 characters: nothing was taken")


async def test_many_rows_let_others_run():
    """A long text is shown in pieces."""
    with console() as (person, at):
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        reading = asyncio.create_task(person.expect("row 1999\n"))
        await at.show(f"row {number}" for number in range(2000))
        await reading
        task.cancel()
        assert turns >= 9


async def test_keys_pressed_before_the_question_do_not_count():
    """What was typed for the last request must not decide the next one."""
    with console(pause=0.01) as (person, at):
        person.type("a\n")
        await at.arm()
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(PROMPT)
        person.type("d\n")
        assert await asked == "d"


@pytest.mark.parametrize(
    ("environment", "color", "painted"),
    [
        ({"TERM": "xterm"}, None, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, None, False),
        ({"TERM": "dumb"}, None, False),
        ({"TERM": "dumb"}, True, True),
    ],
)
async def test_colour_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict, color: bool | None, painted: bool
):
    """Unless the caller knows better."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        assert Console(terminal, color=color, pause=0).layout.color == painted


WORDS = "one two three four five six seven"


@given(st.text(alphabet=st.sampled_from("ab é日👍 \u0301"), max_size=200), st.integers(min_value=2, max_value=30))
def test_wrapping_loses_nothing(text: str, width: int):
    """Joined again, the rows are the text, and none is too long."""
    rows = list(wrap_line(text, width))
    assert "".join(rows) == text
    assert all(len(row.replace("\u0301", "")) <= width for row in rows)


def test_rows_break_behind_a_space():
    """Words stay whole where they can."""
    assert list(wrap_line(WORDS, 12)) == ["one two ", "three four ", "five six ", "seven"]


def test_wide_characters_count_twice():
    """Three of them fill six columns."""
    assert list(wrap_line("日本語", 4)) == ["日本", "語"]


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_no_row_begins_with_a_text_of_the_server(columns: int):
    """Not the first, not one after a line end, not one after wrapping."""
    layout = Layout(columns=columns)
    text = "[a] approve\n[a] approve " * 20
    assert all(row.startswith("   │ ") for row in layout.quoted(text, 2))
    first, *rest = layout.remark(text)
    assert first.startswith(" ▪ ")
    assert all(row.startswith(" ┊ ") for row in rest)
    first, *rest = layout.labelled("label", text)
    assert first.startswith(" label")
    assert all(row.lstrip().startswith("┊ ") for row in rest)


def test_a_long_text_is_drawn_as_it_is_read(monkeypatch: pytest.MonkeyPatch):
    """Its first rows are there before the rest was made inert; where it was cut cannot be seen."""

    def parts(text: str) -> Iterator[str]:
        yield from (text[:50], text[50:100])
        raise AssertionError

    text = "one two three " * 20_000
    whole = [f" │ {row}" for row in wrap_line(text, 35)]
    assert list(Layout(columns=40).quoted(text)) == whole
    monkeypatch.setattr(module, "inert_parts", parts)
    rows = Layout(columns=40).quoted(text)
    assert next(rows) == whole[0]
    with pytest.raises(AssertionError):
        list(rows)


def test_a_line_is_whole_in_a_pipe():
    """However long: whoever reads it there looks for it."""
    assert list(Layout(columns=0).quoted("word " * 20_000)) == [f" │ {'word ' * 20_000}"]


def test_colour_is_ours_alone():
    """Escape sequences of the layout stay outside of the text, those of the text become marks."""
    row = next(Layout(color=True).labelled("x", "\x1b[31mred", "1"))
    assert "\x1b[1m⟦U+001B⟧[31mred\x1b[0m" in row
    assert "\x1b" not in next(Layout().labelled("x", "\x1b[31mred", "1"))


def test_a_title_is_a_rule():
    """As wide as the terminal, at most a hundred columns."""
    assert Layout(columns=40).title("hello") == "── hello ".ljust(39, "─")


@pytest.mark.parametrize("columns", [12, 20, 39, 40, 80])
def test_no_row_is_wider_than_the_terminal(columns: int):
    """However narrow it is: a terminal that wraps by itself would begin a row with a text of the server's."""
    layout, text = Layout(columns=columns), "[a] approve 日本語 " * 20
    rows = [*layout.quoted(text, 2), *layout.remark(text, 2), *layout.labelled("changed", text)]
    assert max(map(cells_of, rows)) < columns


def test_without_a_width_nothing_is_wrapped():
    """A line is a row: what is read from a pipe is found again as it was written."""
    layout, text = Layout(columns=0), "word " * 5_000
    assert list(layout.quoted(f"{text}\nend")) == [f" │ {text}", " │ end"]
    assert list(layout.labelled("for", text)) == [f" for       {text}"]
    assert list(layout.remark(text)) == [f" ▪ {text}"]
    assert layout.title("hello").startswith("── hello ──")


def test_a_row_that_is_read_from_the_right_says_so():
    """In the gutter; its characters keep their order, and rows of the other direction look as ever."""
    rows = list(Layout().quoted("Hello\n\u05e9\u05dc\u05d5\u05dd abc\n123 \u0645\u0631\n日本"))
    assert rows == [" │ Hello", " │←\u05e9\u05dc\u05d5\u05dd abc", " │←123 \u0645\u0631", " │ 日本"]


@pytest.mark.parametrize("piece", ["\u202e", "a", " ", "\n", "日本\u200b"])
def test_a_folded_text_costs_what_is_shown_of_it(piece: str, monkeypatch: pytest.MonkeyPatch):
    """Not what there is: of ten million characters, those are made inert that may be seen. The rest is counted."""
    given: list[int] = []

    def counted(text: str) -> str:
        given.append(len(text))
        return make_inert(text)

    monkeypatch.setattr(module, "make_inert", counted)
    text = piece * (10_000_000 // len(piece))
    *rows, more = Layout(columns=80, fold=8, more="{characters} more").quoted(text)
    assert sum(given) <= 8 * 80 * 4
    assert len(rows) <= 8
    assert int(more.removeprefix(" ┆ ").removesuffix(" more")) > 9_900_000
