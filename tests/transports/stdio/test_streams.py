"""The exchange of the standard descriptors, as far as one process can see it; the rest is in test_stdio_server."""

from __future__ import annotations

import subprocess
import sys

BODY = """
import os, sys
from antiphon.transports.stdio.streams import StandardStreams
streams = StandardStreams()
print("stray")
streams.stdout.write(b"meant\\n")
assert streams.stdin.readline() == b"line\\n"
assert not streams.one_socket
assert not os.get_inheritable(streams.stdin.fileno())
streams.restore()
streams.restore()
print("after")
StandardStreams().restore()
"""


def test_streams_are_exchanged_and_given_back():
    """What is printed goes to stderr, what is written to the private stream arrives; then all is as before."""
    ended = subprocess.run([sys.executable, "-c", BODY], input=b"line\n", capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"meant\nafter\n", b"stray\n")
