"""A chain of records: any change is found."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.host.store.chain import GENESIS, Entry, Head, Record, extend_chain, verify_entries

STEPS = ("received", "policy", "generate", "settled", "answered")


def chain() -> tuple[list[Entry], Head]:
    """Make a short chain."""
    records = [
        Record(at=1.25, ask="1", identity="command:x", method="sampling/createMessage", step=step) for step in STEPS
    ]
    first, head = extend_chain(Head(), records[:2])
    second, head = extend_chain(head, records[2:])
    return first + second, head


def test_a_whole_chain_is_whole():
    """Its end is the end that was kept; what it says can be read."""
    entries, head = chain()
    assert verify_entries(entries, Head()) == (head, None)
    assert [entry.record.step for entry in entries] == list(STEPS)
    assert msgspec.json.decode(entries[0].body)["prev"] == GENESIS


def test_the_form_is_canonical():
    """Sorted keys, no spaces, nothing that is not set: the same record is always the same bytes."""
    entries, _ = chain()
    assert entries[0].body == (
        f'{{"prev":"{GENESIS}","record":{{"ask":"1","at":1.25,"identity":"command:x",'
        '"method":"sampling/createMessage","step":"received"},"seq":1}'
    )


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_any_changed_byte_is_found(at: int):
    """Whichever byte of a record or its hash it is; the record is named."""
    entries, _ = chain()
    entry = entries[at]
    for place in range(len(entry.body)):
        changed = f"{entry.body[:place]}{chr(ord(entry.body[place]) ^ 1)}{entry.body[place + 1 :]}"
        _, fault = verify_entries(
            [*entries[:at], msgspec.structs.replace(entry, body=changed), *entries[at + 1 :]], Head()
        )
        assert fault is not None
        assert fault.seq == at + 1
    for place in range(64):
        changed = f"{entry.hash[:place]}{chr(ord(entry.hash[place]) ^ 1)}{entry.hash[place + 1 :]}"
        _, fault = verify_entries(
            [*entries[:at], msgspec.structs.replace(entry, hash=changed), *entries[at + 1 :]], Head()
        )
        assert fault is not None


def test_a_missing_doubled_or_moved_record_is_found():
    """In the middle, and at the beginning."""
    entries, _ = chain()
    for broken in (
        entries[1:],
        [*entries[:2], *entries[3:]],
        [*entries[:2], entries[1], *entries[2:]],
        [entries[1], entries[0], *entries[2:]],
    ):
        assert verify_entries(broken, Head())[1] is not None


def test_a_record_that_was_put_in_is_found():
    """With a hash of its own that is right, but after another record."""
    entries, _ = chain()
    forged, _ = extend_chain(Head(seq=2, hash="f" * 64), [entries[2].record])
    _, fault = verify_entries([*entries[:2], *forged, *entries[3:]], Head())
    assert fault is not None
    assert (fault.seq, "does not follow" in fault.problem) == (3, True)


def test_a_body_that_is_no_record_is_found():
    """Even where its hash is right."""
    import hashlib

    body = '{"seq":1}'
    [entry] = [Entry(seq=1, body=body, hash=hashlib.sha256(body.encode()).hexdigest())]
    _, fault = verify_entries([entry], Head())
    assert fault is not None
    assert "cannot be read" in fault.problem
