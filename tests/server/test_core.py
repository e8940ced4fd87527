"""What others are told of a failure."""

from __future__ import annotations

import logging

import pytest

from antiphon import Server
from antiphon.errors import CallTimeout, InvalidParams, NotInRevision, SamplingFailed, ToolError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InvalidParams("count: too many"), "count: too many"),
        (ToolError("sold out"), "sold out"),
        (NotInRevision("no such thing"), "t: no such thing"),
        (CallTimeout("too late"), "t: too late"),
        (SamplingFailed("no JSON", text="secret"), "t: no JSON"),
    ],
)
def test_what_is_meant_for_others_is_told(error: Exception, words: str) -> None:
    """Words of the author's for them, and our own."""
    assert Server("s")._service.core.failure_text("t", error) == words


def test_anything_else_is_logged_and_named_by_its_type(caplog: pytest.LogCaptureFixture) -> None:
    """A path or a key in an exception's text stays here."""
    with caplog.at_level(logging.ERROR, "antiphon.server"):
        assert Server("s")._service.core.failure_text("t", KeyError("sk-secret")) == "t failed: KeyError"
    assert "sk-secret" in caplog.text


def test_a_server_may_tell_details() -> None:
    """If its author wants it."""
    assert (
        Server("s", error_details=True)._service.core.failure_text("t", ValueError("why"))
        == "t failed: ValueError: why"
    )
