"""What is asked in forms, and what becomes of the answers."""

from __future__ import annotations

import pytest

from antiphon.cli.screen.dialog import Dialog
from antiphon.cli.screen.forms import answering, choosing, denying, filling, granting
from antiphon.cli.screen.words import words
from antiphon.host import Answer, Approve, Deny, ElicitItem, Terms
from antiphon.host.checks.forms import fields_of
from antiphon.host.review.decisions import Form, Refused
from antiphon.wire.elicitation import ElicitRequestParams
from tests.cli.screen.reviewing import FORM, RESULT, sampling, show_of
from tests.host.asks import origin

EN = words("en")


def asked(dialog: Dialog) -> dict[str, list[str]]:
    """Name what is asked, with what can be chosen."""
    return {field.name: [choice.value for choice in field.choices] for field in dialog._fields if field.name}


def test_a_denial_reaches_as_far_as_there_is_something():
    """Without a call there is none to stop; what the key stands for is chosen at first."""
    shown = show_of(sampling(), "request")
    dialog = denying(shown, EN, "call")
    fields = {field.name: field for field in dialog._fields}
    assert [choice.value for choice in fields["reach"].choices] == ["once", "call", "server"]
    assert fields["reach"].value == "call"
    assert dialog._check(Form([("reason", " no "), ("reach", "server")])) == Deny(reason="no", reach="server")
    background = show_of(sampling(origin=origin(call=None)), "request")
    assert asked(denying(background, EN, "once"))["reach"] == ["once", "server"]


def test_a_grant_is_of_what_was_shown():
    """With the model that was chosen; for a call only where there is one."""
    shown = show_of(sampling(models=("b",)), "request")
    dialog = granting(shown, EN, 1_000.0, "b")
    made = dialog._check(Form([("scope", "session"), ("uses", "2"), ("minutes", "1")]))
    assert made == Approve(digest=shown.digest, scope="session", model="b", terms=Terms(uses=2, until=1_060.0))
    assert [field.value for field in dialog._fields if field.name in ("uses", "dollars", "minutes")] == [
        "10",
        "0.50",
        "",
    ]
    background = show_of(sampling(origin=origin(call=None)), "request")
    assert asked(granting(background, EN, 0, None))["scope"] == ["session", "always"]


def test_an_answer_begins_with_what_is_there():
    """Nothing, or the answer of the model, with marks for what nobody sees."""
    assert answering(show_of(sampling(), "request"), EN)._fields[0].value == ""
    shown = show_of(sampling(result=RESULT), "response")
    dialog = answering(shown, EN)
    assert dialog._fields[0].value == "x"
    assert dialog._check(Form([("text", "y")])) == Answer(result="y")
    with pytest.raises(Refused):
        dialog._check(Form([("text", " ")]))


def test_a_model_is_one_that_may_be_chosen():
    """The usual one first, and each once."""
    dialog = choosing(sampling(model="a", models=("a", "b")), EN, "b")
    assert asked(dialog) == {"model": ["", "b"]}
    assert dialog._fields[0].value == "b"
    assert dialog._check(Form([("model", "b")])) == "b"


def test_a_server_s_form_is_asked_field_by_field():
    """With its choices and defaults; what may be left out can be; a text of several lines has room."""
    params = ElicitRequestParams.form(
        "x",
        {
            "properties": {
                "must": {"type": "string", "enum": ["a"]},
                "agrees": {"type": "boolean", "default": False},
                "long": {"type": "string", "default": "two\nlines"},
                "sum": {"type": "number", "default": 1.5},
            },
            "required": ["must"],
        },
    )
    item = ElicitItem(origin=origin(), params=params)
    dialog = filling(item, fields_of(params), EN)
    kinds = [(field.kind, field.value, [choice.value for choice in field.choices]) for field in dialog._fields]
    assert kinds == [
        ("one", None, ["a"]),
        ("one", "false", ["", "true", "false"]),
        ("text", "two\nlines", []),
        ("line", "1.5", []),
    ]
    made = dialog._check(Form([("field-0", "a"), ("field-1", ""), ("field-2", ""), ("field-3", "2")]))
    assert made.content == {"must": "a", "sum": 2}


def test_a_form_that_does_not_fit_is_refused():
    """With the field named."""
    item = ElicitItem(origin=origin(), params=FORM)
    dialog = filling(item, fields_of(FORM), EN)
    with pytest.raises(Refused) as refused:
        dialog._check(Form([("field-0", "x")]))
    assert "name: at least 2 characters" in refused.value.detail
