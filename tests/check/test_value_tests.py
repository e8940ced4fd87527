"""Tests of values take any JSON, and yield what is wrong with its place."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.check.check_rules import TESTS, list_texts, read_rules
from tests.check.faulty_definitions import change_argument, find_rules
from tests.check.test_server_lists import ANY_JSON


@given(value=ANY_JSON | st.dictionaries(st.sampled_from(["properties", "required", "default", "$ref"]), ANY_JSON))
@settings(max_examples=200)
def test_each_test_takes_any_value(value: object):
    """No value makes the test of a rule raise."""
    for test in sorted({rule.test for rule in read_rules().rules.values() if rule.test}):
        name, _, kinds = test.partition(":")
        list(TESTS[name](value, kinds.split(",")))


def test_texts_are_listed_with_the_names_of_arguments():
    """Icons and patterns are nothing that a model reads."""
    tool = {"name": "a", "inputSchema": {"properties": {"day": {"type": "string", "pattern": "b"}}}, "icons": ["c"]}
    assert [text for _, text in list_texts(tool)] == ["a", "day", "string"]


def test_no_schema_is_fetched():
    """A reference to another document is reported, and nobody connects to its host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        away = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/x"}
        for keyword in ("prefixItems", "unevaluatedItems", "contains", "items"):
            schema = {"type": "array", "default": [1], keyword: [away] if keyword == "prefixItems" else away}
            case = change_argument("", "", schema)
            assert {rule for rule, _, _ in find_rules(case.lists)} <= {"schema.unchecked", "vendor.array-items"}
        with pytest.raises(BlockingIOError):
            listener.accept()
