"""Who sends a request, and what its token allows."""

from __future__ import annotations

import pytest

from antiphon.protocol.caller import Caller


@pytest.mark.parametrize(
    ("granted", "required", "allowed"),
    [
        ({"a", "b"}, ["a"], True),
        ({"a", "b"}, ["a", "b"], True),
        ({"a"}, ["a", "b"], False),
        (set(), ["a"], False),
        (set(), [], True),
        ({"A"}, ["a"], False),
    ],
)
def test_all_that_is_required_must_be_granted(granted, required, allowed):
    """Letter by letter."""
    assert Caller("ann", frozenset(granted)).has(required) is allowed


@pytest.mark.parametrize("said", [None, 0, 1, "yes", "", [1]])
def test_a_hierarchy_says_yes_or_no(said):
    """What is not ``True`` includes nothing: a function that was forgotten to be awaited, above all."""
    assert Caller("ann", frozenset({"a"}), covers=lambda _granted, _required: said).has(["b"]) is False


def test_a_caller_shows_nothing_but_its_name():
    """Claims name people."""
    assert "a@b.example" not in repr(Caller("ann", claims={"email": "a@b.example"}))
