"""Tokens: long, kept as digests only, and worth nothing once revoked."""

from __future__ import annotations

from antiphon.model_api.access_tokens import Tokens
from tests.model_api.served import who


async def test_token_is_found_until_it_is_revoked():
    """Each process has its own; the text is kept nowhere."""
    tokens = Tokens()
    text, token = tokens.issue(who)
    other, _ = tokens.issue(who)
    assert tokens.find(text.encode()) is token
    assert len(text.removeprefix("sk-antiphon-")) * 6 >= 256
    assert text not in repr(vars(tokens)) + repr(vars(token))
    tokens.revoke(token)
    tokens.revoke(token)
    assert tokens.find(text.encode()) is None
    assert tokens.find(other.encode()) is not None
    tokens.close()
    assert tokens.find(other.encode()) is None
