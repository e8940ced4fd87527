"""A call of a tool edited before it runs: fields, values that stay as they are, and the check by the tool's schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.host.checks.forms import parse_value
from antiphon.host.review.edit_call import argument_fields, arguments_of, edit_call, read_fields
from antiphon.host.review.review import ToolItem, digest
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin

SCHEMA: dict[str, Any] = {
    "properties": {
        "to": {"type": "string", "format": "email", "description": "Who gets it"},
        "amount": {"type": "number", "maximum": 1000},
        "express": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}, "description": "What"},
    },
    "required": ["to", "amount"],
    "additionalProperties": False,
}


def item(arguments: dict[str, Any], schema: dict[str, Any] | None = None) -> ToolItem:
    """Make a call that waits for a person."""
    tool = Tool(name="order", input_schema=SCHEMA if schema is None else schema)
    return ToolItem(
        origin=msgspec.structs.replace(origin(), tool=tool),
        params=CallToolRequestParams.of("order", arguments),
        choices=frozenset({"approve", "edit"}),
    )


def edited(asked: ToolItem, **typed: str) -> dict[str, Any]:
    """Type into the fields; the others stay as they are."""
    fields = argument_fields(asked)
    said = [[typed[field.name]] if field.name in typed else shown for field, shown in fields]
    return read_fields(asked, lambda field, at: parse_value(field, "".join(said[at])), lambda at: said[at])


def test_arguments_are_fields_and_the_rest_is_json():
    """By the tool's schema; what no form has, or is of another type than declared, is JSON."""
    asked = item({"to": "a@b.org", "amount": "many", "lines": [{"sku": 1}], "more": None})
    fields = {field.name: (field.kind, field.format, shown) for field, shown in argument_fields(asked)}
    assert fields == {
        "to": ("string", "email", ["a@b.org"]),
        "amount": ("string", "json", ['"many"']),
        "express": ("boolean", "", []),
        "lines": ("string", "json", ['[{"sku": 1}]']),
        "more": ("string", "json", ["null"]),
    }
    assert [field.description for field, _ in argument_fields(asked)][:4:3] == ["Who gets it", "What"]


def test_what_is_not_touched_stays_exactly_as_it_was():
    """Also a number that would be written differently, and line ends of another system."""
    arguments = {"to": "a@b.org", "amount": 1e2, "lines": [{"sku": "a\r\nb"}]}
    assert edited(item(arguments)) == arguments
    assert edited(item({"text": "a\r\nb"}, {"properties": {"text": {"type": "string"}}})) == {"text": "a\r\nb"}


def test_typed_values_replace_those_asked_for():
    """Of each kind; an empty line leaves an argument out."""
    asked = item({"to": "a@b.org", "amount": 5, "lines": []})
    assert edited(asked, to="c@d.org", amount="7.5", express="true", lines='[{"sku": 2}]') == {
        "to": "c@d.org",
        "amount": 7.5,
        "express": True,
        "lines": [{"sku": 2}],
    }
    assert edited(asked, lines="") == {"to": "a@b.org", "amount": 5}


def test_what_is_no_json_names_its_field():
    """So that the person finds it."""
    with pytest.raises(ValueError, match="lines: JSON is needed"):
        edited(item({"to": "a@b.org", "amount": 1, "lines": []}), lines="[{")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"to": "a@b.org"}, "amount"),
        ({"to": "a@b.org", "amount": 2000}, "amount"),
        ({"to": "a@b.org", "amount": "5"}, "amount"),
        ({"to": "a@b.org", "amount": 5, "lines": [{}]}, r"lines\[0\]"),
        ({"to": "a@b.org", "amount": 5, "other": 1}, "other"),
    ],
)
async def test_an_edit_is_checked_as_the_server_would_check_it(arguments: dict[str, Any], place: str):
    """The error names the place."""
    with pytest.raises(ValueError, match=place):
        await edit_call(item({}), arguments)


async def test_an_edit_is_bound_to_its_digest():
    """And keeps everything but the arguments."""
    asked = item({"to": "a@b.org", "amount": 5})
    made = await edit_call(asked, {"to": "a@b.org", "amount": 6})
    assert made.digest == digest(made.params)
    assert arguments_of(made.params) == {"to": "a@b.org", "amount": 6}
