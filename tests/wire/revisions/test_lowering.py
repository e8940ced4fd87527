"""Differences become functions, and reach every place where a type may stand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import inspect

from antiphon.wire.common import RequestMeta, Wire
from antiphon.wire.content import ResourceContents, TextContent, UnknownContent
from antiphon.wire.methods import METHODS
from antiphon.wire.prompts import GetPromptResult, PromptMessage
from antiphon.wire.revisions import REVISIONS
from antiphon.wire.revisions.lowering import find_nested
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.tools import CallToolResult


def inside(node: inspect.Type) -> Iterator[type[Wire]]:
    """List the wire types in a type, through unions, lists and mappings."""
    if isinstance(node, inspect.StructType):
        yield node.cls
    elif isinstance(node, inspect.UnionType):
        for member in node.types:
            yield from inside(member)
    elif isinstance(node, inspect.ListType):
        yield from inside(node.item_type)
    elif isinstance(node, inspect.DictType):
        yield from inside(node.value_type)


def nested(kind: type[Wire]) -> dict[str, set[type[Wire]]]:
    """Find the attributes of a type that hold wire types."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.name: found for field in info.fields if (found := set(inside(field.type)))}


def reachable() -> set[type[Wire]]:
    """Find every type that may travel."""
    left = [InputRequiredResult, *(kind for row in METHODS.values() for kind in (row.params, row.result) if kind)]
    found: set[type[Wire]] = set()
    while left:
        kind = left.pop()
        if kind not in found:
            found.add(kind)
            left.extend(one for kinds in nested(kind).values() for one in kinds)
    return found


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda each: each.name)
def test_every_place_of_a_type_is_known(revision):
    """A type that holds one with a conversion has a conversion itself; ``_meta`` of requests is the session's."""
    find_conversion = revision.lower.__self__.find_conversion
    converted = {kind for kind in reachable() if find_conversion(kind) is not None}
    for kind in reachable():
        for name, kinds in nested(kind).items():
            if name != "meta" and kinds & converted:
                assert kind in converted, (kind, name)
                assert kinds <= set(find_nested(kind)[name]), (kind, name)


def test_nested_names_only_what_exists():
    """The attributes of each type that travels are of the types that are found in them."""
    for kind in reachable() | {RequestMeta}:
        for name, kinds in find_nested(kind).items():
            assert set(kinds) <= nested(kind)[name]


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda each: each.name)
def test_what_needs_no_change_comes_back_itself(revision):
    """No copy is made of a plain result."""
    result = CallToolResult(content=[TextContent(text="hi")])
    assert revision.lower(result) is result


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda each: each.name)
def test_unknown_content_passes(revision):
    """What we do not know we cannot judge: it goes through as it is."""
    message = PromptMessage(role="user", content=UnknownContent("hologram", {"depth": 3}))
    result = GetPromptResult(messages=[message])
    assert revision.lower(result) is result


def test_only_what_changes_is_copied():
    """A list with one changed member keeps the others themselves."""
    plain, titled = TextContent(text="a"), TextContent(text="b", meta={"x": 1})
    lowered = REVISIONS[1].lower(CallToolResult(content=[plain, titled]))
    assert lowered.content[0] is plain
    assert lowered.content[1] == TextContent(text="b")


def test_a_leaf_can_be_lowered_alone():
    """Definitions and blocks are lowered as well as whole messages."""
    contents = ResourceContents(uri="a:b", text="x", meta={"y": 1})
    assert REVISIONS[0].lower(contents) == ResourceContents(uri="a:b", text="x")
