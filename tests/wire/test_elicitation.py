"""Elicitation: forms, addresses and answers."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import decode_wire, encode_value

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def test_a_missing_mode_means_form():
    """And so none is written, which every revision understands."""
    form = ElicitRequestParams.form("Name?", FORM)
    assert form.mode == "form"
    assert decode_wire(encode_value(form), dict) == {"message": "Name?", "requestedSchema": FORM}
    assert (
        decode_wire(encode_value({"message": "Name?", "requestedSchema": FORM, "mode": "form"}), ElicitRequestParams)
        == form
    )


def test_a_visit_has_an_address():
    """Its id is there where the revision wants one."""
    visit = ElicitRequestParams.visit("Pay", "https://example.org", elicitation_id="1")
    assert decode_wire(encode_value(visit), dict) == {
        "message": "Pay",
        "mode": "url",
        "url": "https://example.org",
        "elicitationId": "1",
    }


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (b'{"message":"m"}', "requestedSchema"),
        (b'{"message":"m","mode":"form","url":"x:y"}', "requestedSchema"),
        (b'{"message":"m","mode":"url","requestedSchema":{}}', "url"),
        (b'{"message":"m","mode":"song"}', "mode"),
        (b'{"mode":"url","url":"x:y"}', "message"),
    ],
)
def test_each_mode_needs_its_own_members(data, missing):
    """The error names what is missing."""
    with pytest.raises(msgspec.ValidationError, match=missing):
        decode_wire(data, ElicitRequestParams)


def test_the_values_of_an_answer():
    """Text, numbers, booleans and lists of text; nothing deeper."""
    content = {"a": "x", "b": 1, "c": 1.5, "d": True, "e": ["x", "y"]}
    answer = ElicitResult(action="accept", content=content)
    assert decode_wire(encode_value(answer), ElicitResult) == answer
    with pytest.raises(msgspec.ValidationError, match="content"):
        decode_wire(b'{"action":"accept","content":{"a":{"b":1}}}', ElicitResult)


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_actions(action):
    """There are three."""
    assert encode_value(ElicitResult(action=action)) == b'{"action":"' + action.encode() + b'"}'
