"""The queue as lines."""

from __future__ import annotations

from antiphon.cli.screen.queue_rows import Entry, clock, entries, line
from antiphon.cli.screen.words import words
from antiphon.host.review.shown import Group, Row, Who

EN = words("en")


def test_questions_stand_below_who_asks():
    """In one line each; a server's words are inert."""
    who = Who(
        target="python a.py",
        kind="command",
        short="ab",
        identity="command:ab",
        claims="",
        call="tools/call x\x1b[2J",
        arguments="",
        round=(1, 4),
    )
    row = Row(id="1", kind="response", summary="two\nlines", warnings=2, created=0, expires=None)
    head, below = entries([Group(who=who, rows=(row,))], EN)
    assert head == Entry("", "python a.py · tools/call x\u27e6U+001B\u27e7[2J · round 1 of at most 4")
    assert below == Entry("1", "[answer] two\u27e6U+000A\u27e7lines", 2)


def test_a_line_says_what_is_known():
    """Whether it is the one shown, what to look at, how long it waits."""
    entry = Entry("1", "Describe", 2, 100.0)
    assert line(entry, 35.0, EN, current=True) == "▸ !2  1:05 Describe"
    assert line(entry, 100.0, EN, current=False) == "  !2 ended Describe"
    assert line(Entry("1", "x"), 0.0, EN, current=False) == "           x"
    assert line(Entry("", "head", 0, None), 0.0, EN, current=False) == "head"


def test_a_clock_is_read_at_a_glance():
    """Minutes and seconds; hours where there are any."""
    assert clock(59.9, EN) == "0:59"
    assert clock(600, EN) == "10:00"
    assert clock(7_260, EN) == "2h01"
    assert clock(-1, words("zh")) == "\u5df2\u5230\u671f"
