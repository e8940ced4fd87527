"""Server-sent events: what is written is read back whatever the pieces, and a stranger's stream cannot do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.sse import COMMENT, Event, EventParser, encode_event

lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=20)


def read(stream: bytes, size: int = 1_000_000) -> list[Event]:
    """Parse a stream in pieces of a size."""
    parser = EventParser()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [event for piece in pieces for event in parser.feed(piece)]


def test_a_frame_is_one_line_of_data():
    """As the conformance suite wants it: a single ``data:`` line."""
    assert encode_event(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_every_field_is_written():
    """An id, a name and a time to wait go before the data."""
    written = encode_event(b"x", id="1-2", event="endpoint", retry=500)
    assert written == b"event: endpoint\nid: 1-2\nretry: 500\ndata: x\n\n"


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
@pytest.mark.parametrize("field", ["id", "event"])
def test_a_field_of_two_lines_is_refused(field, bad):
    """It would let whoever chooses an id write events of their own."""
    with pytest.raises(ValueError, match="one line"):
        encode_event(b"x", **{field: bad})


@given(st.lists(lines), st.none() | lines, st.none() | lines.filter(bool), st.none() | st.integers(0, 10**8))
def test_what_is_written_is_read_back(data, id, event, retry):
    """Any data of any lines, with any fields."""
    text = "\n".join(data).encode()
    read_back = read(encode_event(text, id=id, event=event, retry=retry))
    assert read_back == [Event(text, id, event or "message", retry)]


@given(st.sampled_from(["\n", "\r", "\r\n"]), st.integers(1, 7))
def test_line_ends_and_pieces_do_not_matter(end, size):
    """CR, LF and CRLF end a line, also where a piece ends between the two."""
    stream = "\ufeff: hello\nid: 1\ndata: a\ndata:  b\ndata\n\nevent: x\ndata:c\n\n".replace("\n", end).encode()
    assert read(stream, size) == [Event(b"a\n b\n", "1"), Event(b"c", None, "x")]


@pytest.mark.parametrize("size", [1, 1_000])
def test_json_without_a_field_is_data(size):
    """Some servers send JSON as it is, and call it an event stream; no field has a name that begins so."""
    assert read(b'{"jsonrpc":"2.0","id":1,"result":{"a":"b: c"}}\n\n', size) == [
        Event(b'{"jsonrpc":"2.0","id":1,"result":{"a":"b: c"}}', None, "message", None)
    ]


def test_an_event_without_data_still_moves_the_cursor():
    """The priming event of 2025-11-25, and one that is only an id or a time."""
    assert read(b"id: 1\nretry: 10\ndata:\n\n") == [Event(b"", "1", retry=10)]
    assert read(b"id: 2\n\n") == [Event(b"", "2")]
    assert read(b"retry: 3\n\n") == [Event(b"", None, retry=3)]


def test_comments_are_no_events():
    """Signs of life, however many."""
    assert read(COMMENT * 10 + b":\r\n: ping\n\n" + b"event: only a name\n\n") == []


@pytest.mark.parametrize("field", [b"retry: -1", b"retry: 1s", b"retry: " + b"9" * 5000, b"id: a\0b", b"unknown: 1"])
def test_what_a_field_may_not_hold_is_ignored(field):
    """The event itself is not lost."""
    assert read(field + b"\ndata: x\n\n") == [Event(b"x")]


def test_what_is_not_complete_is_held_back():
    """An event ends with an empty line, and with nothing else."""
    parser = EventParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"") == []
    assert parser.feed(b"\n") == [Event(b"a")]


def test_a_carriage_return_before_an_empty_piece_is_remembered():
    """The line feed that belongs to it is not an empty line."""
    parser = EventParser()
    events = [event for piece in (b"data: a\r", b"", b"\ndata: b\r\n", b"\r\n") for event in parser.feed(piece)]
    assert events == [Event(b"a\nb")]


@pytest.mark.parametrize("piece", [b"x" * 100, b"data: x\n" * 13, b"id: " + b"x" * 100])
def test_an_event_is_bounded(piece):
    """A line, lines or fields without end are refused before they fill the memory."""
    parser = EventParser(max_event=99)
    with pytest.raises(RemoteProtocolError, match="larger than 99"):
        parser.feed(piece)


def test_comments_do_not_count_against_the_bound():
    """A stream may be kept alive for days between two lines of an event."""
    parser = EventParser(max_event=99)
    parser.feed(b"data: x\n" + b": still here\n" * 1000)
    assert parser.feed(b"\n") == [Event(b"x")]
