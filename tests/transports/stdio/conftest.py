"""What the tests of child processes share."""

from __future__ import annotations

import pytest


@pytest.fixture
def patient_after():
    """Give a child all the time it needs after one signal; the grace before that signal stays as short as it is.

    On a busy machine the kernel may take longer to end a process than any grace that a test would wait for.
    """

    def patient_after(child, last):
        send = child._signal

        def send_and_wait(number):
            send(number)
            if number == last:
                child._grace = 60.0

        child._signal = send_and_wait

    return patient_after
