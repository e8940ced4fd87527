"""Our command line against the reference server, with a person at a pseudo-terminal."""

from __future__ import annotations

import shlex

from tests.cli.program import at_terminal, ended, in_process
from tests.interop.peers import Peers


def test_a_person_answers_the_reference_server(peers: Peers):
    """Its tool asks for a completion; whoever sits at the terminal writes it."""
    child = at_terminal("call", shlex.join(peers.everything), "trigger-sampling-request", "prompt=hello", NO_COLOR="1")
    child.timeout = 30
    child.expect_exact("Resource trigger-sampling-request context: hello")
    child.expect_exact("decision> ")
    child.sendline("w")
    child.expect_exact("single dot")
    child.sendline("Good day to you.")
    child.sendline(".")
    child.expect_exact("LLM sampling result")
    child.expect_exact("Good day to you.")
    assert ended(child) == 0


def test_its_sampling_tool_is_listed(peers: Peers):
    """It hides it from clients that could not answer."""
    done = in_process("tools", shlex.join(peers.everything))
    assert (done.code, done.err) == (0, "")
    assert "trigger-sampling-request\tprompt: string, maxTokens?: number\t" in done.out


def test_the_doctor_finds_it_well(peers: Peers):
    """And names its era."""
    done = in_process("doctor", shlex.join(peers.everything))
    assert done.code == 0
    assert "legacy: with a handshake" in done.out
