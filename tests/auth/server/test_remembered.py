"""The memory of verified tokens: bounded in number and size, by digests."""

from __future__ import annotations

from antiphon.auth.server import remembered as module
from antiphon.auth.server.remembered import Remembered, Verified
from antiphon.protocol.caller import Caller


def known(until=100.0, weight=1):
    """Make what is known of a token."""
    return Verified(Caller("ann"), until, None, weight)


def test_a_token_is_remembered_until_its_time():
    """Not a moment longer."""
    memory = Remembered()
    mark = memory.mark(b"token")
    memory.put(mark, known(until=100.0))
    assert memory.get(mark, 99.9) is not None
    assert memory.get(mark, 100.0) is None
    assert (len(memory), memory._held) == (0, 0)


def test_the_memory_is_bounded_in_number(monkeypatch):
    """The oldest is forgotten."""
    monkeypatch.setattr(module, "MAX_TOKENS", 3)
    memory = Remembered()
    marks = [memory.mark(b"%d" % number) for number in range(5)]
    for mark in marks:
        memory.put(mark, known())
    assert [memory.get(mark, 0) is not None for mark in marks] == [False, False, True, True, True]


def test_the_memory_is_bounded_in_size(monkeypatch):
    """Large tokens count for what they are."""
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    memory = Remembered()
    marks = [memory.mark(b"%d" % number) for number in range(5)]
    for mark in marks:
        memory.put(mark, known(weight=40))
        memory.put(mark, known(weight=40))
    assert (len(memory), memory._held) == (2, 80)


def test_no_token_is_in_it():
    """Only digests."""
    memory = Remembered()
    memory.put(memory.mark(b"a-secret-token"), known())
    assert all(b"secret" not in mark for mark in memory._tokens)
