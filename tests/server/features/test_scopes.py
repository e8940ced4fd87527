"""What an author may name as a scope; who is held to it is in ``tests/auth/server/test_resource_server.py``."""

from __future__ import annotations

import pytest

from antiphon import ConfigError
from antiphon.server.features.scopes import checked_scopes


@pytest.mark.parametrize("scope", ["", "a b", 'a"b', "a\\b", "a\n", "ä", "x" * 257])
def test_what_would_break_a_header_is_no_scope(scope):
    """RFC 6749, section 3.3."""
    with pytest.raises(ConfigError, match="cannot be a scope"):
        checked_scopes([scope], "tool 't'")


def test_scopes_are_kept_in_their_order_and_once():
    """Addresses are scopes as well."""
    assert checked_scopes(["https://a.example/x", "b", "b"], "x") == ("https://a.example/x", "b")


def test_one_text_is_no_list():
    """Its letters would be the scopes."""
    with pytest.raises(ConfigError, match="list"):
        checked_scopes("orders", "x")
