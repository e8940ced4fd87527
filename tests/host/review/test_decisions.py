"""From what is typed to a decision."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.host import UNBOUNDED, Approve, Deny, ElicitItem, ReviewItem, Terms, digest
from antiphon.host.checks.form_fields import fields_of, parse_value
from antiphon.host.review.decisions import (
    DecisionForm,
    InvalidInput,
    argument_fields,
    arguments_of,
    describe_rule,
    edit_call,
    read_answer,
    read_approval,
    read_denial,
    read_edit,
    read_edited_request,
    read_fields,
    read_filled_form,
)
from antiphon.host.review.review import ToolItem
from antiphon.host.review.summary import load_texts
from antiphon.wire.content import ImageContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import SamplingMessage, ToolChoice
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import CHOICES, origin, request, says

TOOLS = [Tool(name=name, input_schema={"type": "object"}) for name in ("a", "b")]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + bytes([0, 0, 0, 1] * 2) + bytes(16)
FIELDS = {
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0},
        "score": {"type": "number"},
        "agrees": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "likes": {"type": "array", "items": {"enum": ["tea", "coffee"]}},
    },
    "required": ["name"],
}


def typed(**fields: str) -> DecisionForm:
    """Fill in a form."""
    return DecisionForm([(name.replace("_", "-"), value) for name, value in fields.items()])


def test_an_approval_is_of_what_was_shown():
    """By its digest; once if nothing else is said, with another model if one was chosen."""
    assert read_approval(typed(digest="d"), 0) == Approve(digest="d")
    assert read_approval(typed(digest="d", model="m"), 0).model == "m"


def test_a_grant_has_its_bounds():
    """Requests, dollars and minutes; what is emptied is no bound."""
    given = read_approval(typed(digest="d", scope="always", uses="5", dollars="0.25", minutes="15"), 1_000.0)
    assert (given.scope, given.terms) == ("always", Terms(uses=5, money=250_000_000, until=1_900.0))
    assert read_approval(typed(digest="d", scope="call", uses=""), 0).terms == UNBOUNDED


@pytest.mark.parametrize("scope", ["call", "session", "always"])
def test_a_grant_without_a_bound_has_the_usual_ones(scope: str):
    """Ten requests and half a dollar, or what the caller says; none only for whoever says so."""
    usual = Terms(uses=10, money=500_000_000)
    assert read_approval(typed(digest="d", scope=scope), 0).terms == usual
    assert read_approval(typed(digest="d", scope=scope), 0, Terms(uses=3)).terms == Terms(uses=3)
    assert read_approval(typed(digest="d", scope=scope, unbounded="yes"), 0).terms == usual
    assert read_approval(typed(digest="d", scope=scope, unbounded="true"), 0).terms == UNBOUNDED


@pytest.mark.parametrize("number", ["0", "-1", "many", "nan", "inf", "1e99"])
def test_a_bound_is_a_number_above_nothing(number: str):
    """Anything else is said to be wrong, and gives nothing."""
    with pytest.raises(InvalidInput) as refused:
        read_approval(typed(digest="d", scope="call", uses=number), 0)
    assert refused.value.key == "problem.number"


def test_an_unknown_scope_or_reach_is_refused():
    """They come from a list of ours."""
    with pytest.raises(InvalidInput):
        read_approval(typed(digest="d", scope="everything"), 0)
    with pytest.raises(InvalidInput):
        read_denial(typed(reach="everything"))


def test_a_denial_may_have_a_reason_and_reach_further():
    """Without one there is none."""
    assert read_denial(typed()) == Deny()
    assert read_denial(typed(reason=" no ", reach="server")) == Deny(reason="no", reach="server")


def test_an_answer_needs_a_text():
    """Spaces are none; marks are characters again."""
    assert read_answer(typed(text="a\u27e6U+0009\u27e7b")).result == "a\tb"
    with pytest.raises(InvalidInput):
        read_answer(typed(text=" \n"))


def test_an_edit_changes_what_was_changed_and_nothing_else():
    """The other messages are the very same, with all that the form does not show."""
    params = request(messages=[says("One"), says("Two", "assistant"), says("Three")], system_prompt="Be brief")
    form = {"max_tokens": "50", "system": "Be long", "text-0-0": "One", "text-1-0": "2", "text-2-0": "Three"}
    made = read_edited_request(DecisionForm(list(form.items())), params)
    assert (made.max_tokens, made.system_prompt, made.messages[1].text) == (50, "Be long", "2")
    assert made.messages[0] is params.messages[0]


def test_an_edit_that_changes_nothing_is_the_same_request():
    """To the byte: the same digest."""
    picture = SamplingMessage(role="user", content=[ImageContent.of(PNG, "image/png")])
    params = request(messages=[picture, says("b")], system_prompt="", tools=TOOLS, tool_choice=ToolChoice(mode="auto"))
    form = [("max_tokens", "100"), ("system", ""), ("tool-0", "1"), ("tool-1", "1"), ("text-1-0", "b")]
    assert digest(read_edited_request(DecisionForm(form), params)) == digest(params)


def test_tools_and_messages_can_be_left_out():
    """All tools gone takes the choice of tools with it."""
    params = request(messages=[says("a"), says("b")], tools=TOOLS, tool_choice=ToolChoice(mode="auto"))
    made = read_edited_request(DecisionForm([("max_tokens", "100"), ("tool-1", "1"), ("drop-0", "1")]), params)
    assert ([tool.name for tool in made.tools], len(made.messages)) == (["b"], 1)
    none = read_edited_request(DecisionForm([("max_tokens", "100")]), params)
    assert (none.tools, none.tool_choice) == (None, None)


@pytest.mark.parametrize("tokens", ["101", "0", "", "1.5", "x"])
def test_tokens_only_become_fewer(tokens: str):
    """And stay a whole number."""
    with pytest.raises(InvalidInput):
        read_edited_request(typed(max_tokens=tokens), request())


def test_an_edit_that_is_no_request_is_refused():
    """Without a message there is nothing to answer; what the host says of it is told."""
    with pytest.raises(InvalidInput) as refused:
        read_edited_request(DecisionForm([("max_tokens", "5"), ("drop-0", "1")]), request())
    assert refused.value.key == "problem.invalid"
    assert refused.value.detail


def test_only_what_was_shown_of_an_edit_is_sent():
    """Another form with the digest of a preview is refused."""
    params = request()
    item = ReviewItem(origin=origin(), params=params, received=params, provider="echo", choices=CHOICES)
    shown = read_edited_request(DecisionForm([("max_tokens", "50")]), params)
    fields = [("max_tokens", "50"), ("digest", digest(shown))]
    assert read_edit(DecisionForm(fields), item).params == shown
    with pytest.raises(InvalidInput):
        read_edit(DecisionForm([("max_tokens", "49"), *fields[1:]]), item)


def form_item() -> ElicitItem:
    """Ask for every kind of field."""
    return ElicitItem(origin=origin(), params=ElicitRequestParams.form("Who?", FIELDS))


def test_a_form_is_filled_in():
    """Each kind of field becomes a value of its kind."""
    fields = [
        *(("action", "accept"), ("field-0", "Ada"), ("field-1", "36"), ("field-2", "1.5"), ("field-3", "true")),
        *(("field-4", "blue"), ("field-5", "tea"), ("field-5", "coffee")),
    ]
    assert read_filled_form(DecisionForm(fields), form_item()).content == {
        "name": "Ada",
        "age": 36,
        "score": 1.5,
        "agrees": True,
        "colour": "blue",
        "likes": ["tea", "coffee"],
    }


def test_what_is_left_empty_is_left_out():
    """Unless it is needed."""
    assert read_filled_form(DecisionForm([("action", "accept"), ("field-0", "Ada")]), form_item()).content == {
        "name": "Ada"
    }
    with pytest.raises(InvalidInput):
        read_filled_form(DecisionForm([("action", "accept"), ("field-0", "")]), form_item())


def test_a_default_can_be_taken_out():
    """The form came with it; a field that was emptied is left out, and one that is needed is asked for."""
    number = {"type": "integer", "default": 7}
    for required in ([], ["age"]):
        form = ElicitRequestParams.form("Age?", {"properties": {"age": number}, "required": required})
        item = ElicitItem(origin=origin(), params=form)
        emptied = DecisionForm([("action", "accept"), ("field-0", " ")])
        if required:
            with pytest.raises(InvalidInput) as refused:
                read_filled_form(emptied, item)
            assert refused.value.values_in(load_texts("en")) == {"title": "age", "rule": "a whole number"}
        else:
            assert read_filled_form(emptied, item).content == {}


@pytest.mark.parametrize("field", [("field-0", "A"), ("field-1", "-1"), ("field-4", "green"), ("field-5", "milk")])
def test_what_does_not_fit_is_refused(field: tuple[str, str]):
    """With the field named."""
    fields = [("action", "accept"), *({"field-0": "Ada"} | dict([field])).items()]
    with pytest.raises(InvalidInput) as refused:
        read_filled_form(DecisionForm(fields), form_item())
    assert refused.value.key == "problem.unfit"


def test_a_form_can_be_declined_or_left():
    """Any other action is none."""
    assert read_filled_form(typed(action="decline"), form_item()).action == "decline"
    assert read_filled_form(typed(action="cancel"), form_item()).action == "cancel"
    with pytest.raises(InvalidInput):
        read_filled_form(typed(action="approve"), form_item())


def test_an_address_is_accepted_without_values():
    """What happens there is between the person and the server."""
    visit = ElicitItem(origin=origin(), params=ElicitRequestParams.visit("Go", "https://example.com"))
    assert read_filled_form(typed(action="accept"), visit).content is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "minLength": 1}, "at least 1 character"),
        ({"type": "string", "minLength": 2, "maxLength": 9}, "at least 2 characters, at most 9 characters"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "at most 1 choice"),
        ({"type": "integer", "minimum": 1}, "a whole number, at least 1"),
        ({"type": "integer", "maximum": 1_234_567.0}, "a whole number, at most 1234567"),
        ({"type": "number", "minimum": 1_234_567.25}, "a number, at least 1234567.25"),
    ],
)
def test_the_bounds_of_a_field_are_said(schema: dict[str, object], said: str):
    """In words, one of something as one."""
    [field] = fields_of(ElicitRequestParams.form("?", {"properties": {"x": schema}}))
    assert describe_rule(field, load_texts("en")) == said


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


def edited_edit_call(asked: ToolItem, **typed: str) -> dict[str, Any]:
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


def test_a_field_is_what_the_reference_of_its_schema_leads_to():
    """A choice and a list of choices by their definition; what the definition says stands beside what is JSON, too."""
    schema = {
        "properties": {
            "colour": {"$ref": "#/$defs/Colour"},
            "others": {"type": "array", "items": {"$ref": "#/$defs/Colour"}},
            "buyer": {"$ref": "#/$defs/Person"},
        },
        "$defs": {
            "Colour": {"type": "string", "enum": ["red", "blue"], "description": "Of the roof"},
            "Person": {"type": "object", "description": "Who pays"},
        },
    }
    found = argument_fields(item({"colour": "red"}, schema))
    assert [(field.name, field.kind, field.format, field.description) for field, _ in found] == [
        ("colour", "choice", "", "Of the roof"),
        ("others", "choices", "", ""),
        ("buyer", "string", "json", "Who pays"),
    ]
    assert [option.value for field, _ in found for option in field.options] == ["red", "blue"] * 2


def test_an_argument_that_may_be_null_is_the_field_of_its_other_type():
    """As pydantic and FastMCP write ``str | None``; one that is null now is shown as what it is."""
    null = {"type": "null"}
    schema = {
        "properties": {
            "note": {"anyOf": [{"type": "string"}, null], "default": None, "description": "For whom"},
            "size": {"anyOf": [{"$ref": "#/$defs/Size"}, null]},
            "count": {"type": ["integer", "null"], "minimum": 1},
            "same": {"$ref": "#/properties/size/anyOf/0"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, null]},
            "twice": {"anyOf": [null, null]},
            "none": {"anyOf": [{"type": "string"}, null]},
            "astray": {"$ref": "#/properties/size/anyOf/2"},
        },
        "$defs": {"Size": {"enum": ["S", "L"], "type": "string"}},
    }
    asked = item({"note": "Ann", "none": None}, schema)
    fields = {field.name: (field.kind, field.format, shown) for field, shown in argument_fields(asked)}
    assert fields == {
        "note": ("string", "", ["Ann"]),
        "size": ("choice", "", []),
        "count": ("integer", "", []),
        "same": ("choice", "", []),
        "either": ("string", "json", []),
        "twice": ("string", "json", []),
        "none": ("string", "json", ["null"]),
        "astray": ("string", "json", []),
    }
    assert edited_edit_call(asked, note="Bob", count="3") == {"note": "Bob", "none": None, "count": 3}


def test_what_is_not_touched_stays_exactly_as_it_was():
    """Also a number that would be written differently, and line ends of another system."""
    arguments = {"to": "a@b.org", "amount": 1e2, "lines": [{"sku": "a\r\nb"}]}
    assert edited_edit_call(item(arguments)) == arguments
    assert edited_edit_call(item({"text": "a\r\nb"}, {"properties": {"text": {"type": "string"}}})) == {
        "text": "a\r\nb"
    }


def test_a_list_of_choices_that_is_not_touched_keeps_its_order():
    """A form sends what is chosen in the order of the options, and each option once."""
    schema = {
        "properties": {"likes": {"type": "array", "items": {"enum": ["tea", "coffee"]}}, "to": {"type": "string"}}
    }
    asked = item({"likes": ["coffee", "tea", "coffee"], "to": "ann"}, schema)
    said = [["tea", "coffee"], ["bob"]]
    made = read_fields(asked, lambda field, at: parse_value(field, ", ".join(said[at])), lambda at: said[at])
    assert made == {"likes": ["coffee", "tea", "coffee"], "to": "bob"}
    said[0] = ["tea"]
    assert read_fields(asked, lambda field, at: parse_value(field, ", ".join(said[at])), lambda at: said[at]) == {
        "likes": ["tea"],
        "to": "bob",
    }


def test_typed_values_replace_those_asked_for():
    """Of each kind; an empty line leaves an argument out."""
    asked = item({"to": "a@b.org", "amount": 5, "lines": []})
    assert edited_edit_call(asked, to="c@d.org", amount="7.5", express="true", lines='[{"sku": 2}]') == {
        "to": "c@d.org",
        "amount": 7.5,
        "express": True,
        "lines": [{"sku": 2}],
    }
    assert edited_edit_call(asked, lines="") == {"to": "a@b.org", "amount": 5}


def test_what_is_no_json_names_its_field():
    """So that the person finds it."""
    with pytest.raises(ValueError, match="lines: JSON is needed"):
        edited_edit_call(item({"to": "a@b.org", "amount": 1, "lines": []}), lines="[{")


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
