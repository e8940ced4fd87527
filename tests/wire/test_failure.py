"""Exceptions on the wire and back."""

from __future__ import annotations

import pytest

from antiphon import errors
from antiphon.wire.envelope import ErrorObject, cause_of, from_wire, to_wire

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.PeerError)
    and kind is not errors.PeerError
    and "CODE" in vars(kind)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_peer_error_comes_back_as_itself(kind):
    """Class, message, code and data survive the way there and back."""
    back = from_wire(to_wire(kind("What happened", data={"x": 1})))
    assert type(back) is kind
    assert (back.message, back.code, back.data) == ("What happened", kind.CODE, {"x": 1})


@pytest.mark.parametrize("kind", [errors.SamplingUnavailable, errors.ElicitationUnavailable])
def test_a_finer_error_travels_as_its_code(kind):
    """The other side sees the class that the code stands for."""
    assert type(from_wire(to_wire(kind("no", data={})))) is errors.MissingCapability


def test_codes_are_distinct():
    """One class per code."""
    assert len({kind.CODE for kind in KINDS}) == len(KINDS)


def test_an_unknown_code_is_a_plain_peer_error():
    """A server's own code is kept."""
    error = from_wire(ErrorObject(code=4711, message="odd"))
    assert type(error) is errors.PeerError
    assert error.code == 4711


def test_a_code_given_by_hand_is_kept():
    """A handler may choose the code, whatever the class."""
    assert to_wire(errors.InvalidParams("no", code=7)).code == 7


@pytest.mark.parametrize("error", [ValueError("secret"), KeyboardInterrupt(), errors.ToolError("secret")])
def test_nothing_else_gets_out(error):
    """The text of any other exception stays here."""
    assert to_wire(error) == ErrorObject(code=-32603, message="Internal error")


def test_what_another_peer_has_said_does_not_go_on():
    """It is about a request of ours."""
    error = from_wire(ErrorObject(code=-32602, message="secret of another server"))
    assert to_wire(error) == ErrorObject(code=-32603, message="Internal error")


def test_a_group_of_one_is_that_one():
    """However deep; of several nobody can say which was the cause."""
    cause = ValueError("it")
    several = ExceptionGroup("two", [ValueError(), KeyError()])
    assert cause_of(ExceptionGroup("outer", [ExceptionGroup("inner", [cause])])) is cause
    assert cause_of(cause) is cause
    assert cause_of(several) is several
