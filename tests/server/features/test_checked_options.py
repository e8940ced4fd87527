"""What an author may name as a scope; who is held to it is in ``tests/auth/server/test_resource_server.py``."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Annotations, ConfigError, Server, Tool, ToolAnnotations
from antiphon.server.features.checked_options import checked_scopes, read_annotations


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


@pytest.mark.parametrize("name", ["read_only_hint", "readOnlyHint"])
def test_a_mapping_has_the_names_of_the_class_or_of_the_wire(name):
    """Both are in use elsewhere."""
    assert read_annotations({name: True}, ToolAnnotations, "t") == ToolAnnotations(read_only_hint=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"readOnly": True}, 'no "readOnly"; did you mean "readOnlyHint"'),
        ({"readOnlyHint": "yes"}, "wrong value"),
        (True, "ToolAnnotations"),
        (Annotations(priority=1), "ToolAnnotations"),
    ],
)
def test_anything_else_is_refused(given, said):
    """It would be sent to clients, which pass it over."""
    with pytest.raises(ConfigError, match=said):
        Server("s").tool(annotations=given, name="t")(lambda: "ok")


def test_a_finished_definition_is_read_too():
    """It may hold a mapping, which would be listed without the unknown name."""
    given: Any = {"readOnly": True}
    with pytest.raises(ConfigError, match='no "readOnly"'):
        Server("s").add_tool(Tool(name="t", input_schema={"type": "object"}, annotations=given), lambda arguments: "ok")


def test_a_resource_refuses_unknown_names_too():
    """And a template."""
    server = Server("s")
    with pytest.raises(ConfigError, match='no "prio"'):
        server.resource("r://a", annotations={"prio": 1})(lambda: "ok")
    with pytest.raises(ConfigError, match='no "prio"'):
        server.resource("r://{a}", annotations={"prio": 1})(lambda a: a)
