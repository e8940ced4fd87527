"""What runs in a side process: the messages it takes and gives."""

from __future__ import annotations

import os
import subprocess
import sys

from antiphon.machine.side_process.child import DONE, ENVIRONMENT, FAILED, REPLY, REQUEST

PROGRAM = "from antiphon.machine.side_process.child import main; main(1 << 30)"


def talk(*requests: tuple[str, bytes]) -> list[tuple[int, bytes]]:
    """Hand a child pieces of work, and read its replies until it ends."""
    written = b"".join(REQUEST.pack(len(name), len(data), 5.0) + name.encode() + data for name, data in requests)
    environment = os.environ | ENVIRONMENT
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=written, env=environment, capture_output=True, check=True
    )
    replies, rest = [], done.stdout
    while rest:
        status, length = REPLY.unpack(rest[: REPLY.size])
        replies.append((status, rest[REPLY.size : REPLY.size + length]))
        rest = rest[REPLY.size + length :]
    return replies


def test_one_request_after_the_other_is_answered():
    """Until the input ends."""
    assert talk(("binascii:hexlify", b"a"), ("binascii:hexlify", b"bc")) == [(DONE, b"61"), (DONE, b"6263")]


def test_a_failure_is_a_reply_and_the_next_request_is_answered():
    """With the name of the error, cut."""
    failed, done = talk(("binascii:a2b_hex", b"z"), ("binascii:hexlify", b"a"))
    assert failed == (FAILED, b"Error: Odd-length string")
    assert done == (DONE, b"61")


def test_a_cut_off_request_is_no_request():
    """Whoever sent it is gone."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=b"\0\0", capture_output=True, check=True)
    assert done.stdout == b""
