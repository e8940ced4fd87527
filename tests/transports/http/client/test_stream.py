"""Where a stream is resumed, and when."""

from __future__ import annotations

import pytest

from antiphon.protocol.http.sse import Event
from antiphon.transports.http.client.stream import Cursor


def test_the_last_id_counts():
    """An event without one leaves it, an empty one takes it back."""
    cursor = Cursor()
    cursor.note(Event(b"", id="1"))
    cursor.note(Event(b"x"))
    assert cursor.last_id == "1"
    cursor.note(Event(b"x", id=""))
    assert cursor.last_id is None


@pytest.mark.parametrize("id", ["ä", "a\tb", "x" * 2000])
def test_an_id_that_fits_no_header_is_no_place_to_resume(id):
    """And the one before would be the wrong place."""
    cursor = Cursor()
    cursor.note(Event(b"", id="1"))
    cursor.note(Event(b"", id=id))
    assert cursor.last_id is None


def test_failures_lengthen_the_wait_up_to_a_bound():
    """Without a word of the server's it begins short."""
    cursor = Cursor()
    delays = []
    for cursor.failures in range(12):
        delays.append(cursor.delay)
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (0.1, 30.0)


def test_the_servers_time_is_a_lower_bound():
    """Failures may lengthen it, nothing shortens it; zero does not mean at once."""
    cursor = Cursor()
    cursor.note(Event(b"", retry=500))
    assert cursor.delay == 0.5
    cursor.failures = 6
    assert cursor.delay == 6.4
    cursor.note(Event(b"", retry=0))
    assert cursor.delay == 0.02


def test_an_accepted_reconnect_is_no_failure_if_the_server_sets_the_pace():
    """Else a server that ends every stream at once would never be left alone."""
    quiet, steady = Cursor(), Cursor()
    steady.note(Event(b"", retry=10))
    for cursor in (quiet, steady):
        cursor.failures = 5
        cursor.answered()
    assert (quiet.failures, steady.failures) == (5, 0)


def test_a_server_that_is_gone_is_given_up_within_half_a_minute():
    """All the waits of a resume that fails, together; a restart takes less."""
    from antiphon.transports.http.client import post

    cursor = Cursor()
    waits = []
    for cursor.failures in range(post._MAX_FAILURES):
        waits.append(cursor.delay)
    assert 20 < sum(waits) < 30
