"""The tail of stderr, and its lines."""

from __future__ import annotations

import asyncio
import io

from antiphon.transports.stdio.stderr import LONGEST_LINE, StderrTail


def test_the_last_bytes_are_kept_from_the_start_of_a_line():
    """The tail is bounded however much is written, and begins with a whole line."""
    tail = StderrTail(100, None)
    for number in range(10_000):
        tail.data_received(b"line %d\n" % number)
    lines = tail.text.split("\n")
    assert lines == [f"line {number}" for number in range(10_000 - len(lines), 10_000)]
    assert 80 <= len(tail.text) <= 100
    assert len(tail._tail) <= 200


def test_short_output_is_kept_whole():
    """Nothing is cut below the limit; what is not UTF-8 is replaced."""
    tail = StderrTail(100, None)
    tail.data_received(b"  indented \xff\n")
    assert tail.text == "  indented \N{REPLACEMENT CHARACTER}"


def test_lines_are_passed_on_whole_to_a_callable():
    """However they were cut, also within a character; the last one without its newline, too."""
    lines: list[str] = []
    tail = StderrTail(100, lines.append)
    for piece in (b"caf\xc3", b"\xa9\r\n\n  two\nthr", b"ee"):
        tail.data_received(piece)
    tail.connection_lost(None)
    assert lines == ["café", "", "  two", "three"]


def test_lines_are_written_to_a_file():
    """A text file works like a callable."""
    file = io.StringIO()
    StderrTail(100, file).data_received(b"a\nb\nc")
    assert file.getvalue() == "a\nb\n"


def test_an_endless_line_is_passed_on_in_pieces():
    """Memory stays bounded without a newline."""
    lines: list[str] = []
    tail = StderrTail(10, lines.append)
    for _ in range(10):
        tail.data_received(b"x" * (LONGEST_LINE // 2 + 1))
    assert [len(line) for line in lines] == [LONGEST_LINE + 2] * 5


async def test_a_callable_that_fails_is_told_once_and_left_alone():
    """Its error goes to the loop's handler, and stderr is read on."""
    seen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    calls: list[str] = []

    def broken(line: str) -> None:
        calls.append(line)
        raise ValueError(line)

    tail = StderrTail(100, broken)
    tail.data_received(b"one\ntwo\n")
    assert calls == ["one"]
    assert [str(context["exception"]) for context in seen] == ["one"]
    assert tail.text == "one\ntwo"
