"""An issuer as its operator names it, and its metadata."""

from __future__ import annotations

import pytest

from antiphon.auth.server.issuer import Introspection, Issuer, IssuerUnavailable, issuers_of, read_metadata
from antiphon.errors import ConfigError

URL = "https://auth.example.com"


def test_metadata_must_be_its_issuer_s_letter_by_letter():
    """A slash more is another issuer."""
    assert read_metadata(b'{"issuer": "https://auth.example.com"}', URL).jwks_uri is None
    with pytest.raises(IssuerUnavailable, match="is that of"):
        read_metadata(b'{"issuer": "https://auth.example.com/"}', URL)


def test_metadata_of_a_public_issuer_does_not_lead_to_this_machine():
    """Whoever answers for it could otherwise have keys, or tokens, exchanged with what listens here."""
    for member in ("jwks_uri", "introspection_endpoint"):
        document = f'{{"issuer": "{URL}", "{member}": "http://127.0.0.1:8080/x"}}'.encode()
        with pytest.raises(IssuerUnavailable, match="leads to this machine"):
            read_metadata(document, URL)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Issuer(url="auth.example.com"),
        lambda: Issuer(url="https://"),
        lambda: Issuer(url="https://user:password@auth.example.com"),
        lambda: Issuer(url="https://:password@auth.example.com"),
        lambda: Issuer(url=f"{URL}\n"),
        lambda: Issuer(url=f" {URL}"),
        lambda: Issuer(url="http://10.0.0.1"),
        lambda: Issuer(url=URL, jwks_uri="http://keys.example.com"),
        lambda: Issuer(url=URL, algorithms=["none"]),
        lambda: Issuer(url=URL, algorithms=["HS256"]),
        lambda: Issuer(url=URL, algorithms=[]),
        lambda: Issuer(url=URL, algorithms="RS256"),
        lambda: Issuer(url=URL, token_issuers=["a b"]),
        lambda: issuers_of([URL, URL]),
        lambda: issuers_of([]),
        lambda: issuers_of(
            [
                Issuer(url=url, introspection=Introspection(client_id="a", client_secret="b"))
                for url in (URL, "https://other.example")
            ]
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(made):
    """When the server is set up."""
    with pytest.raises(ConfigError):
        made()


def test_this_machine_needs_no_tls():
    """For tests and development."""
    assert Issuer(url="http://127.0.0.1:8080/realms/x").names == ("http://127.0.0.1:8080/realms/x",)
    assert Issuer(url="http://localhost").names == ("http://localhost",)
