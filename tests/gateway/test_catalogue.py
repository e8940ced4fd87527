"""What many servers offer together: whose each thing is, and what happens where two have the same."""

from __future__ import annotations

from antiphon import Tool
from antiphon.gateway import Offer
from antiphon.gateway.catalogue import Catalogue, Owned
from antiphon.types import Prompt, Resource, ResourceTemplate


def tools(*names: str) -> Offer:
    """Make an offer of tools with these names."""
    return Offer(tools=tuple(Tool(name=name, input_schema={"type": "object"}) for name in names))


def test_a_tool_is_found_under_the_name_it_is_shown_by():
    """Definitions are as they were, but for the name."""
    catalogue = Catalogue({"a": tools("x"), "b": tools("x", "y")}, "prefix")
    assert [tool.name for tool in catalogue.tools] == ["a__x", "b__x", "b__y"]
    assert catalogue.find("tool", "b__x") == Owned("b", "x")
    assert catalogue.find("tool", "x") is None
    assert catalogue.find("prompt", "b__x") is None


def test_without_a_prefix_only_what_two_have_gets_one():
    """So a server that adds a tool of another's name takes nothing from it silently: both are named anew."""
    catalogue = Catalogue({"a": tools("x"), "b": tools("x", "y")}, "none")
    assert [tool.name for tool in catalogue.tools] == ["a__x", "b__x", "y"]
    assert catalogue.find("tool", "y") == Owned("b", "y")


def test_a_server_that_lists_one_name_twice_has_it_once():
    """The first counts."""
    assert [tool.name for tool in Catalogue({"a": tools("x", "x")}, "prefix").tools] == ["a__x"]


def test_a_name_that_looks_like_anothers_is_kept_apart():
    """``a`` cannot reach into the names of ``a_b``, whatever it calls its tools."""
    catalogue = Catalogue({"a": tools("b__x", "_b__x"), "a_b": tools("x")}, "prefix")
    assert [catalogue.find("tool", tool.name) for tool in catalogue.tools] == [
        Owned("a", "b__x"),
        Owned("a", "_b__x"),
        Owned("a_b", "x"),
    ]


def test_a_resource_is_the_first_servers_that_lists_it():
    """By its URI, else by a template; a template that cannot be read is listed and matches nothing."""
    one = Offer(
        resources=(Resource(uri="x://1", name="1"),),
        templates=(ResourceTemplate(uri_template="x://{broken", name="b"),),
        prompts=(Prompt(name="p"),),
    )
    two = Offer(
        resources=(Resource(uri="x://1", name="again"), Resource(uri="x://2", name="2")),
        templates=(ResourceTemplate(uri_template="x://{n}", name="t"),),
    )
    catalogue = Catalogue({"one": one, "two": two}, "prefix")
    assert [resource.name for resource in catalogue.resources] == ["1", "2"]
    assert [catalogue.reader(uri) for uri in ("x://1", "x://2", "x://3", "y://1")] == ["one", "two", "two", None]
    assert [template.name for template in catalogue.templates] == ["b", "t"]
    assert catalogue.template("x://{n}") == "two"
    assert catalogue.find("prompt", "one__p") == Owned("one", "p")
