"""Schemas written by hand: what is validated, what is refused."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from antiphon.errors import ConfigError
from antiphon.json_schema.mismatch import MismatchError
from antiphon.json_schema.validator import MAX_DEPTH, MAX_NODES, SchemaValidator


def nested(depth: int) -> dict:
    """Make a schema that nests so deep."""
    schema: dict = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def test_an_instance_that_fits_passes():
    """2020-12 holds without ``$schema``: ``prefixItems`` means something."""
    validator = SchemaValidator({"prefixItems": [{"type": "integer"}], "items": False}, place="here")
    validator.check([1])
    with pytest.raises(MismatchError):
        validator.check([1, 2])


def test_another_dialect_is_obeyed():
    """In draft 7, ``items`` may be a list."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    with pytest.raises(MismatchError, match=re.escape('"[0]": "a" is not of type "integer"')):
        SchemaValidator(schema, place="here").check(["a"])


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


def test_an_id_within_the_schema_may_be_referred_to():
    """That needs no network."""
    schema = {
        "$id": "https://example.com/root",
        "$defs": {"text": {"$id": "text", "type": "string"}},
        "properties": {"a": {"$ref": "text"}},
    }
    with pytest.raises(MismatchError):
        SchemaValidator(schema, place="here").check({"a": 1})


def test_a_lazy_schema_is_bounded_at_once_and_compiled_later():
    """A gateway with hundreds of tools does not pay for what is never called."""
    with pytest.raises(ConfigError, match="leaves the schema"):
        SchemaValidator({"$ref": "http://example.com"}, place="here", lazy=True)
    validator = SchemaValidator({"type": "text"}, place="here", lazy=True)
    with pytest.raises(ConfigError, match="not a valid JSON Schema"):
        validator.check({})


def test_a_costly_pattern_does_not_hang():
    """The regular expression engine backtracks only so far."""
    with pytest.raises(MismatchError):
        SchemaValidator({"pattern": "^(a+)+$"}, place="here").check("a" * 50 + "!")


def test_the_validator_loads_only_when_it_is_needed():
    """Importing this module does not load jsonschema-rs."""
    program = "import sys, antiphon.json_schema.validator; print('jsonschema_rs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
