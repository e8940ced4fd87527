"""The queue as lines."""

from __future__ import annotations

from antiphon.cli.screen.drawn.queue_rows import Entry, entries, line
from antiphon.cli.screen.words import words
from antiphon.host.review.rows import Group, Row
from antiphon.host.review.who import Who

EN = words("en")


def who(name: str = "a.py", call: str = "tools/call x") -> Who:
    """Make a server that asks."""
    return Who(
        target=f"python {name}",
        name=name,
        kind="command",
        short="ab",
        identity="command:ab",
        claims="",
        call=call,
        arguments="",
        round=(1, 4),
    )


def row(id: str, **more) -> Row:
    """Make a question."""
    return Row(
        **{
            "id": id,
            "kind": "request",
            "tool": "x",
            "summary": id,
            "warnings": 0,
            "created": 0.0,
            "expires": None,
            **more,
        }
    )


def test_questions_stand_below_who_asks():
    """The short name of the server once; each in one line; a server's words are inert."""
    answer = row("1", kind="response", summary="two\nlines", warnings=2, expires=None, worst=5)
    head, below = entries([Group(who=who(call="tools/call x\x1b[2J"), rows=(answer,))], EN)
    assert head == Entry("", "a.py · x\u27e6U+001B\u27e7[2J · round 1 of at most 4")
    assert below == Entry("1", "[answer] two\u27e6U+000A\u27e7lines", 2, 0.0, None, 5)


def test_a_line_says_what_is_known():
    """Whether it is the one shown or selected, what to look at, its age, the cost; at the end, the time left."""
    entry = Entry("1", "Describe", 2, 0.0, 200.0, 185_250)
    assert line(entry, 65.0, EN, current=True) == "▸ !2  1 min $0.00019 Describe"
    assert line(entry, 170.0, EN, current=False, marked=True) == " x!2   0:30 $0.00019 Describe"
    assert line(Entry("1", "x"), 7300.0, EN, current=False) == "        2 h x"
    assert line(Entry("", "head"), 0.0, EN, current=False) == "head"
