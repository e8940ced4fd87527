"""Schemas written by hand: what is validated, what is refused."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from antiphon.errors import ConfigError, TooCostly
from antiphon.json_schema.validator import MAX_DEPTH, MAX_NODES, MismatchError, SchemaValidator, is_same_json
from antiphon.machine.side_process import pool


def nested(depth: int) -> dict:
    """Make a schema that nests so deep."""
    schema: dict = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


async def test_an_instance_that_fits_passes():
    """2020-12 holds without ``$schema``: ``prefixItems`` means something."""
    validator = SchemaValidator({"prefixItems": [{"type": "integer"}], "items": False}, place="here")
    await validator.check([1])
    with pytest.raises(MismatchError):
        await validator.check([1, 2])


async def test_another_dialect_is_obeyed():
    """In draft 7, ``items`` may be a list."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    with pytest.raises(MismatchError, match=re.escape('"[0]": "a" is not of type "integer"')):
        await SchemaValidator(schema, place="here").check(["a"])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$schema": "https://example.com/own"}, "unknown JSON Schema dialect 'https://example.com/own'; known: "),
        ({"$ref": "https://example.com/schema"}, "$ref 'https://example.com/schema' leaves the schema"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "$ref 'file:///etc/passwd' leaves the schema"),
        ({"$dynamicRef": "http://127.0.0.1/"}, "$dynamicRef 'http://127.0.0.1/' leaves the schema"),
        ({"$ref": "other.json"}, "not a valid JSON Schema: "),
        ({"$ref": "#/$defs/nothing"}, "not a valid JSON Schema: "),
        ({"type": "text"}, "not a valid JSON Schema: "),
        ({"pattern": "("}, "not a valid JSON Schema: "),
        (nested(MAX_DEPTH), f"JSON Schema deeper than {MAX_DEPTH}"),
        ({"enum": [[]] * MAX_NODES}, f"JSON Schema larger than {MAX_NODES} nodes"),
    ],
)
def test_what_cannot_or_must_not_be_used_is_refused(schema, problem):
    """Nothing is fetched; the message begins with the place."""
    with pytest.raises(ConfigError, match="^" + re.escape(f"here: {problem}")):
        SchemaValidator(schema, place="here")


async def test_an_id_within_the_schema_may_be_referred_to():
    """That needs no network."""
    schema = {
        "$id": "https://example.com/root",
        "$defs": {"text": {"$id": "text", "type": "string"}},
        "properties": {"a": {"$ref": "text"}},
    }
    with pytest.raises(MismatchError):
        await SchemaValidator(schema, place="here").check({"a": 1})


async def test_a_lazy_schema_is_bounded_at_once_and_compiled_later():
    """A gateway with hundreds of tools does not pay for what is never called."""
    with pytest.raises(ConfigError, match="leaves the schema"):
        SchemaValidator({"$ref": "http://example.com"}, place="here", lazy=True)
    validator = SchemaValidator({"type": "text"}, place="here", lazy=True)
    with pytest.raises(ConfigError, match="not a valid JSON Schema"):
        await validator.check({})


async def test_a_costly_pattern_does_not_hang():
    """The regular expression engine backtracks only so far."""
    with pytest.raises(MismatchError):
        await SchemaValidator({"pattern": "^(a+)+$"}, place="here").check("a" * 50 + "!")


def doubling(keyword: str, levels: int) -> dict:
    """Make a schema of which each level looks at the same value by the next one, twice."""
    defs = {f"l{n}": {keyword: [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/l0", "$defs": {**defs, f"l{levels}": {"type": "integer"}}}


@pytest.mark.parametrize(("keyword", "levels"), [("allOf", 40), ("anyOf", 24), ("oneOf", 22)])
async def test_a_schema_that_expands_without_end_is_refused(keyword, levels):
    """Before anything is compiled."""
    with pytest.raises(TooCostly):
        await SchemaValidator(doubling(keyword, levels), place="here", lazy=True).check("no integer")


async def test_a_check_that_takes_too_long_is_ended_and_the_loop_goes_on():
    """Each of 100,000 items is compared with each of 9,000 that are allowed."""
    schema = {"items": {"enum": [{"name": str(n)} for n in range(9_000)]}}
    checking = asyncio.ensure_future(SchemaValidator(schema, place="here").check([{"name": "8999"}] * 100_000))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not checking.done()
    with pytest.raises(TooCostly, match="it takes more than 2 s"):
        await checking


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [{"name": str(n)} for n in range(900)]}}, [{"name": "899"}] * 20_000),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(9_000)}}, {f"p{n}": "x" for n in range(9_000)}),
        ({"pattern": "^(a|aa)+$(?!b)"}, "a" * 50_000),
        ({"uniqueItems": True}, [{"n": n} for n in range(20_000)]),
        (doubling("anyOf", 12), 1),
    ],
    ids=["enum", "properties", "pattern", "unique", "branches"],
)
async def test_what_is_much_work_is_not_done_on_the_event_loop(schema, value, monkeypatch):
    """It is done beside it, and comes out as it would here, or is refused."""
    done, run_aside = [], pool.run_aside

    async def watched(function, payload, **options):
        done.append(function)
        return await run_aside(function, payload, **options)

    monkeypatch.setattr("antiphon.machine.side_process.pool.run_aside", watched)
    with suppress(TooCostly, MismatchError):
        await SchemaValidator(schema, place="here", lazy=True).check(value)
    assert len(done) == 1


async def test_what_is_little_work_stays_on_the_event_loop(monkeypatch):
    """A schema of the usual size costs what it did."""

    async def refused(*_arguments):
        raise AssertionError("a side process was asked")

    monkeypatch.setattr("antiphon.machine.side_process.pool.run_aside", refused)
    node = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$"},
            "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "colour": {"enum": ["red", "green", "blue"]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/node"}, "uniqueItems": True},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    parts = [{"id": f"part-{n}", "price": None, "colour": "red", "parts": [{"id": "x"}]} for n in range(10)]
    await SchemaValidator(schema, place="here").check({"id": "all", "parts": parts})


async def test_a_misfit_is_told_alike_from_both_places():
    """The same sentence, whichever process found it."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    for value in ({"a": [1, "x"]}, {"a": [*range(6_000), "x"]}):
        with pytest.raises(MismatchError, match=r'"x" is not of type "integer"') as caught:
            await SchemaValidator(schema, place="here").check(value)
        assert caught.value.mismatch.place == f"a[{len(value['a']) - 1}]"


async def test_reasons_without_number_are_not_told():
    """Each branch that fails is a reason with the value in it: 4,096 of a long one would fill the memory."""
    with pytest.raises(MismatchError, match="there is too much of it to say where"):
        await SchemaValidator(doubling("anyOf", 12), place="here").check("x" * 1_000_000)


async def test_a_large_schema_that_cannot_be_used_is_found_out_aside():
    """A stranger's, of which nothing is looked at on the event loop."""
    schema = {"properties": {f"p{n}": {"type": "text"} for n in range(3_000)}}
    with pytest.raises(ConfigError, match=r"^here: not a valid JSON Schema"):
        await SchemaValidator(schema, place="here", lazy=True).check({})


def test_the_validator_loads_only_when_it_is_needed():
    """Importing this module does not load jsonschema-rs."""
    program = "import sys, antiphon.json_schema.validator; print('jsonschema_rs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, {}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": None}, {}, False),
    ],
)
def test_json_is_compared_by_value(one, other, same):
    """As JavaScript has it: one kind of numbers, and no order of members."""
    assert is_same_json(one, other) is same
