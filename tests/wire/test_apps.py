"""Interfaces, as definitions of any server name them."""

from __future__ import annotations

import pytest

from antiphon.wire.apps import find_app_uri, is_for_model, list_app_origins
from antiphon.wire.resources import Resource
from antiphon.wire.tools import Tool


def tool(meta: object) -> Tool:
    """Make a tool with this ``_meta``."""
    return Tool(name="a", input_schema={}, meta=meta)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("meta", "uri", "model"),
    [
        (None, "", True),
        ({"ui": {"resourceUri": "ui://a"}}, "ui://a", True),
        ({"ui/resourceUri": "ui://a"}, "ui://a", True),
        ({"ui": {"resourceUri": "https://a"}}, "", True),
        ({"ui": {"resourceUri": 1, "visibility": ["model"]}}, "", True),
        ({"ui": {"visibility": ["app"]}}, "", False),
        ({"ui": {"visibility": []}}, "", False),
        ({"ui": {"visibility": "app"}}, "", True),
        ({"ui": []}, "", True),
    ],
)
def test_a_tool_of_any_server_is_read(meta, uri, model):
    """Whatever it says."""
    assert (find_app_uri(tool(meta)), is_for_model(tool(meta))) == (uri, model)


def test_origins_are_those_of_the_listed_resource():
    """Of all kinds together; ``None`` if it says nothing."""
    csp = {"connectDomains": ["https://a"], "frameDomains": ["https://b"], "other": ["https://c"], "resourceDomains": 1}
    listed = [
        Resource(uri="ui://a", name="a", meta={"ui": {"csp": csp}}),
        Resource(uri="ui://b", name="b", meta={"ui": {"csp": {}}}),
        Resource(uri="ui://c", name="c", meta={"ui": {"csp": 1}}),
    ]
    assert list_app_origins("ui://a", listed) == ("https://a", "https://b")
    assert list_app_origins("ui://b", listed) == ()
    assert list_app_origins("ui://c", listed) is list_app_origins("ui://d", listed) is None
