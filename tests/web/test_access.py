"""Tokens and sessions: once each, bounded, and of one run."""

from __future__ import annotations

from antiphon.web.access import MAX_SESSIONS, MAX_TOKENS, Access


def test_a_token_opens_once():
    """The second use of an address gives nothing."""
    access = Access()
    token = access.issue()
    secret = access.redeem(token)
    assert secret is not None
    assert access.redeem(token) is None
    assert access.session(secret).number == 1


def test_nothing_opens_without_a_token():
    """Neither an invented token nor an invented secret, nor what another run gave out."""
    access, other = Access(), Access()
    assert access.redeem("") is None
    assert access.redeem(other.issue()) is None
    assert access.session(None) is None
    assert access.session(other.redeem(other.issue())) is None


def test_secrets_are_long_and_all_different():
    """Token, session and CSRF token have 256 bits each."""
    access = Access()
    token = access.issue()
    secret = access.redeem(token)
    csrf = access.session(secret).csrf
    assert len({token, secret, csrf}) == 3
    assert min(map(len, (token, secret, csrf))) >= 43


def test_a_session_allows_its_own_token_only():
    """The CSRF token of another browser is refused, whatever characters it is made of."""
    access = Access()
    one, other = (access.session(access.redeem(access.issue())) for _ in range(2))
    assert one.allows(one.csrf)
    assert not one.allows(other.csrf)
    assert not one.allows("\udc80é")


def test_tokens_and_sessions_are_bounded():
    """The oldest go first."""
    access = Access()
    tokens = [access.issue() for _ in range(MAX_TOKENS + 1)]
    assert access.redeem(tokens[0]) is None
    secrets = [access.redeem(access.issue()) for _ in range(MAX_SESSIONS + 1)]
    assert access.session(secrets[0]) is None
    assert access.session(secrets[-1]) is not None
