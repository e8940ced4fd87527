"""Annotations that are given as a mapping."""

from __future__ import annotations

import pytest

from antiphon import Annotations, ConfigError, Server, ToolAnnotations
from antiphon.server.features.annotations import read_annotations


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


def test_a_resource_refuses_unknown_names_too():
    """And a template."""
    server = Server("s")
    with pytest.raises(ConfigError, match='no "prio"'):
        server.resource("r://a", annotations={"prio": 1})(lambda: "ok")
    with pytest.raises(ConfigError, match='no "prio"'):
        server.resource("r://{a}", annotations={"prio": 1})(lambda a: a)
