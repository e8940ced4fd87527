"""Every exception: the tree, the codes, and what each says."""

from __future__ import annotations

import re

import pytest

from antiphon import errors


def drawn() -> dict[str, tuple[str, int | None]]:
    """Read the tree in the module docstring: name -> (parent, code if one is given)."""
    found: dict[str, tuple[str, int | None]] = {}
    path = ["AntiphonError"]
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ([│ ├└─]+ )(\w+)(?: \((\w+)\))?\s+(-?\d+)?", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            found[match[2]] = (path[depth - 1], int(match[4]) if match[4] else None)
    return found


def test_the_tree_in_the_docstring_is_the_real_one():
    """Each exception is drawn under the class it derives from, and none is missing."""
    real = {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__ if name != "AntiphonError"}
    assert {name: parent for name, (parent, _) in drawn().items()} == real


def test_the_codes_in_the_docstring_are_the_real_ones():
    """The tree gives the JSON-RPC code of every error reply."""
    codes = {name: code for name, (_, code) in drawn().items() if code is not None}
    assert codes == {name: getattr(errors, name).CODE for name in codes}
    assert len(codes) == len(errors.PeerError.__subclasses__())


def test_no_two_error_replies_share_a_code():
    """A code leads back to exactly one class."""
    codes = [kind.CODE for kind in errors.PeerError.__subclasses__()]
    assert len(codes) == len(set(codes))


def test_an_error_reply_carries_code_message_and_data():
    """What is raised is what the peer is told."""
    error = errors.InvalidParams("no such tool", data={"name": "x"})
    assert (error.code, error.message, error.data) == (-32602, "no such tool", {"name": "x"})
    assert str(error) == "no such tool (code -32602)"


def test_an_error_reply_may_carry_a_code_of_its_own():
    """A code no class stands for is kept as it came."""
    assert errors.PeerError("odd", code=-7).code == -7


def test_a_timeout_is_also_the_builtin_one():
    """``except TimeoutError`` catches it."""
    with pytest.raises(TimeoutError):
        raise errors.CallTimeout("too late")


def test_a_closed_connection_tells_of_the_child_process():
    """The exit code and the tail of stderr are part of the text."""
    error = errors.ConnectionClosed("the server ended", exit_code=3, stderr="boom")
    assert str(error) == "the server ended (exit code 3)\n--- stderr of the server ---\nboom"


def test_a_closed_connection_without_a_process_is_one_line():
    """Nothing is said of a process where there was none."""
    assert str(errors.ConnectionClosed("the peer ended")) == "the peer ended"
