from __future__ import annotations

import pytest
from pydantic_ai import exceptions as theirs

from antiphon.host.catalogue import Model
from antiphon.host.providers.vendor.failures import failure

MODEL = Model(name="mine", provider="openai", model="x")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (theirs.ModelQuotaExceededError("x", "secret"), "quota"),
        (theirs.ModelTimeoutError("x", "secret"), "timeout"),
        (theirs.ModelConnectionError("x", "secret"), "connection"),
        (theirs.ModelContextWindowExceededError("x", "secret"), "context"),
        (theirs.ModelOverloadedError("x", "secret"), "unavailable"),
        (theirs.ContentFilterError("secret"), "refused"),
        (theirs.UnexpectedModelBehavior("secret"), "invalid"),
        (theirs.UserError("secret"), "unsupported"),
        (theirs.ModelHTTPError(502, "x", "secret"), "unavailable"),
        (theirs.ModelHTTPError(418, "x", "secret"), "rejected"),
        (TimeoutError("secret"), "timeout"),
        (ConnectionResetError("secret"), "connection"),
        (KeyError("secret"), "invalid"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_a_kind_and_no_text(error: Exception, kind: str):
    """Whatever their library raises."""
    made = failure(error, MODEL)
    assert made.kind == kind
    assert "secret" not in str(made)
    assert str(made).startswith("mine at openai: ")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("insufficient_quota", True),
        ("sk-abcdefghijklmnop", False),
        ("AKIAABCDEFGHIJKLMNOP", False),
        ("see http://x.y", False),
        ("a" * 49, False),
        (7, False),
        (None, False),
    ],
)
def test_only_a_plain_word_is_told(code: object, told: bool):
    """A code is chosen by the vendor, and could be anything."""
    error = theirs.ModelHTTPError(429, "x")
    error.provider_error_code = code
    assert (str(code) in str(failure(error, MODEL))) is told
