"""A person at a terminal answers what the reference server asks: the command line, driven through a pseudo-terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from antiphon.host.terminal.console import PROMPT
from tests.interop.peers import PATIENCE, Peers

ANTIPHON = str(Path(sys.executable).parent / "antiphon")


@pytest.fixture
def terminal(peers: Peers) -> Iterator[pexpect.spawn]:
    """Start the call of the reference server's sampling tool, as a person would type it."""
    server = shlex.join(peers.everything)
    child = pexpect.spawn(
        ANTIPHON,
        ["call", server, "trigger-sampling-request", "prompt=hello", "--provider", "echo"],
        encoding="utf-8",
        timeout=PATIENCE,
        dimensions=(50, 100),
    )
    yield child
    child.close(force=True)


def shown(terminal: pexpect.spawn) -> None:
    """Wait until the request is shown whole and a decision is awaited."""
    terminal.expect("A server wants to use your model")
    terminal.expect("You are a helpful test server.")
    terminal.expect("Resource trigger-sampling-request context: hello")
    terminal.expect_exact(PROMPT)


def test_a_person_approves(terminal: pexpect.spawn):
    """The request is shown, approved, completed, and the tool's result is printed."""
    shown(terminal)
    terminal.sendline("a")
    terminal.expect("LLM sampling result")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_a_person_refuses(terminal: pexpect.spawn):
    """The server is told so, and the call fails."""
    shown(terminal)
    terminal.sendline("r")
    terminal.expect("reason")
    terminal.sendline("not today")
    terminal.expect("tell the server")
    terminal.sendline("no")
    terminal.expect("rejected")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 1
