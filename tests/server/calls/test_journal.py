"""The journal: what was learnt at a place is found there again, and nowhere else."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import CallDiverged
from antiphon.server.calls.journal import MAX_JOURNAL, Journal, JournalEntry, digest_of
from antiphon.wire.envelope import decode_wire
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage


def again(journal: Journal) -> Journal:
    """Send a journal through its bytes."""
    return Journal.unpack(journal.pack())


def test_what_was_noted_is_taken() -> None:
    """A new run comes to the same place and finds the answer."""
    journal = Journal()
    journal.note(journal.place("1", "ask", b"d"), "answer", b"yes")
    replay = again(journal)
    entry = replay.take(replay.place("1", "ask", b"d"))
    assert entry == JournalEntry("answer", b"d", b"yes")


def test_the_same_ask_again_is_another_place() -> None:
    """Occurrences are counted."""
    journal = Journal()
    for answer in (b"first", b"second"):
        journal.note(journal.place("1", "ask", b"d"), "answer", answer)
    replay = again(journal)
    found = [replay.take(replay.place("1", "ask", b"d")) for _ in range(3)]
    assert [entry.value if entry else None for entry in found] == [b"first", b"second", None]


@pytest.mark.parametrize("other", [("2", "ask", b"d"), ("1", "tell", b"d"), ("1", "ask", b"e")])
def test_another_place_knows_nothing(other: tuple[str, str, bytes]) -> None:
    """Lane, method and content all count."""
    journal = Journal()
    journal.note(journal.place("1", "ask", b"d"), "answer", b"yes")
    replay = again(journal)
    assert replay.take(replay.place(*other)) is None
    assert list(replay.list_unclaimed()) == ["1/ask/64#0"]


def test_a_key_of_the_author_is_the_place() -> None:
    """Whatever task asks; but what is asked must be the same."""
    journal = Journal()
    journal.note(journal.place("1", "ask", b"d", "mine"), "answer", b"yes")
    replay = again(journal)
    assert replay.take(replay.place("1.7", "ask", b"d", "mine")) is not None
    with pytest.raises(CallDiverged, match="'mine'"):
        again(journal).take(replay.place("1", "ask", b"other", "mine").__class__("=mine", 0, b"other"))


def test_only_answers_are_missed() -> None:
    """A step or an ask that ran out of time need not come again."""
    journal = Journal()
    for kind in ("step", "timeout", "withdrawn", "answer"):
        journal.note(journal.place("1", kind, b""), kind, b"")
    assert list(journal.list_unclaimed()) == []
    assert list(again(journal).list_unclaimed()) == ["1/answer/#0"]


def test_long_journals_are_compressed_unless_they_hold_a_secret() -> None:
    """The length of what was compressed would tell about the secret."""
    open_one, secret = Journal(), Journal()
    for journal, is_secret in ((open_one, False), (secret, True)):
        journal.note(journal.place("1", "step", b""), "step", b"x" * 5_000, secret=is_secret)
    assert len(open_one.pack()) < 500
    assert len(secret.pack()) > 5_000
    assert len(again(secret).pack()) > 5_000
    assert len(again(open_one)) == len(again(secret)) == 1


def test_it_says_when_it_is_full() -> None:
    """Beyond its bound a journal is no longer carried."""
    journal = Journal()
    journal.note(journal.place("1", "a", b""), "answer", b"x" * (MAX_JOURNAL - 100))
    assert not journal.is_full
    journal.note(journal.place("1", "a", b""), "answer", b"x" * 100)
    assert journal.is_full


def test_a_bomb_is_not_inflated() -> None:
    """A few kilobytes that would become many megabytes are refused."""
    with pytest.raises(ValueError, match="too long"):
        Journal.unpack(b"\1" + zlib.compress(b"\0" * 50_000_000))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_journal_are_refused(data: bytes) -> None:
    """Whatever a store hands out, nothing but ``ValueError`` is raised."""
    try:
        Journal.unpack(data)
    except ValueError:
        return
    assert data[:1] in {b"\0", b"\1"}


def test_a_digest_does_not_depend_on_order() -> None:
    """Mappings are sorted, so that two processes agree."""
    one, two = (
        CreateMessageRequestParams(messages=[], max_tokens=1, metadata=metadata)
        for metadata in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    assert digest_of("m", one) == digest_of("m", two) != digest_of("n", one)


def test_a_digest_depends_on_what_is_asked() -> None:
    """One word more is another ask."""
    texts = [SamplingMessage(role="user", content=[]), SamplingMessage(role="assistant", content=[])]
    digests = {digest_of("m", CreateMessageRequestParams(messages=[text], max_tokens=1)) for text in texts}
    assert len(digests) == 2


def test_content_of_an_unknown_kind_has_a_digest() -> None:
    """A model's thinking, say: it goes back with the next turn as it came."""
    content = decode_wire(b'{"role":"assistant","content":[{"type":"thinking","text":"hm"}]}', SamplingMessage)
    ask = CreateMessageRequestParams(messages=[content], max_tokens=1)
    assert digest_of("m", ask) == digest_of("m", ask)
