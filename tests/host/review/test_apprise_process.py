"""The process that sends one notice: what it is told, and what its exit code says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from antiphon.host.review.apprise_process import FAILED, UNKNOWN


@pytest.mark.parametrize(("url", "code"), [("nothing://SECRET", UNKNOWN), ("ntfy://SECRET@127.0.0.1:9/x", FAILED)])
def test_it_says_why_a_notice_was_not_sent_and_nothing_else(url: str, code: int):
    """Apprise logs addresses; nothing of that leaves the process."""
    program = "from antiphon.host.review.apprise_process import main; main()"
    told = json.dumps([url, "Antiphon", "A question waits."]).encode()
    done = subprocess.run([sys.executable, "-c", program], input=told, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
