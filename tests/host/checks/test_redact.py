"""What looks like a secret is found, and masked for logs."""

from __future__ import annotations

import pytest

from antiphon.host.checks.redact import find_secrets, mask

SECRETS = [
    ("API key", "sk-proj-abcdefghijklmnop1234"),
    ("AWS access key", "AKIAIOSFODNN7EXAMPLE"),
    ("Google API key", "AIza" + "x" * 35),
    ("GitHub token", "ghp_" + "a" * 36),
    ("Slack token", "xoxb-123456789012-abcdef"),
    ("JSON web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def"),
    ("bearer token", "Bearer abcdefghijklmnop1234"),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END"),
    ("password in a URL", "postgres://bob:hunter2@db/"),
    ("key in a URL", "https://api.example/?key=abcdefgh12"),
    ("password", "password = hunter22"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_a_secret_is_found_and_masked(kind: str, secret: str):
    """Each vendor's form is recognised; what is left names only the kind."""
    text = f"before {secret} after"
    assert kind in [finding.kind for finding in find_secrets(text)]
    assert secret not in mask(text)
    assert mask(text).startswith("before ")


@pytest.mark.parametrize(
    "text", ["Describe a sweater", "risk-adjusted skeleton", "the password is up to you", "x" * 999]
)
def test_ordinary_text_has_none(text: str):
    """A word about secrets is not one."""
    assert find_secrets(text) == []
    assert mask(text) == text
