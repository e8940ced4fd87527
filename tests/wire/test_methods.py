"""The method table against the schemas."""

from __future__ import annotations

import pytest

from antiphon.wire.methods import METHODS as ALL_METHODS
from antiphon.wire.methods import spec
from antiphon.wire.task import TASKS
from tests.support import mcp_schema

METHODS = {name: row for name, row in ALL_METHODS.items() if row.extension is None and "tasks/" not in name}
"""Those of the protocol; the schemas know no extension."""


@pytest.mark.parametrize("revision", mcp_schema.NAMES)
def test_table_has_what_the_schema_has(revision):
    """Every method of a revision is in the table with the right life span, and nothing else is."""
    ours = {name for name, row in METHODS.items() if row.exists_in(revision)}
    assert ours == set(mcp_schema.messages(revision))


@pytest.mark.parametrize("revision", mcp_schema.NAMES)
@pytest.mark.parametrize("side", ["client", "server"])
def test_each_side_sends_what_the_schema_lets_it(revision, side):
    """The schema's unions of requests and notifications per side agree with ``sent_by``."""
    definitions = mcp_schema.definitions(revision)
    by_definition = {name: method for method, name in mcp_schema.messages(revision).items()}
    allowed = set()
    for union in (f"{side.title()}Request", f"{side.title()}Notification"):
        schema = definitions.get(union, {})
        for option in schema.get("anyOf", [schema]):
            if "$ref" in option:
                allowed.add(by_definition.get(option["$ref"].rpartition("/")[2]))
            elif "properties" in option:
                allowed.add(option["properties"]["method"]["const"])
    assert {name for name, row in METHODS.items() if row.note_sender(side, revision)} == allowed - {None}


def test_only_answered_methods_have_results():
    """A request has a type of result, a notification none."""
    assert {row.kind for row in METHODS.values() if row.result} == {"request"}
    assert {row.kind for row in METHODS.values() if not row.result} == {"notification"}


def test_rounds_are_what_the_schema_says():
    """Only the requests whose response may be ``InputRequiredResult`` may be answered by rounds."""
    definitions = mcp_schema.definitions(mcp_schema.MODERN)
    asking = {
        method
        for method, name in mcp_schema.messages(mcp_schema.MODERN).items()
        if "InputRequiredResult" in str(definitions.get(f"{name.removesuffix('Request')}ResultResponse"))
    }
    assert {name for name, row in METHODS.items() if row.rounds} == asking


def test_cacheable_results_are_what_the_schema_says():
    """Only results with a required ``ttlMs`` are cacheable."""
    definitions = mcp_schema.definitions(mcp_schema.MODERN)
    cacheable = {
        name
        for name, row in METHODS.items()
        if row.result and "ttlMs" in definitions.get(row.result.__name__, {}).get("properties", {})
    }
    assert {name for name, row in METHODS.items() if row.cacheable} == cacheable


def test_asks_are_what_the_schema_says():
    """The requests that may stand in ``inputRequests`` are the asks of the table."""
    union = mcp_schema.definitions(mcp_schema.MODERN)["InputRequest"]["anyOf"]
    by_definition = {name: method for method, name in mcp_schema.messages(mcp_schema.MODERN).items()}
    assert {row.name for row in METHODS.values() if row.ask} == {
        by_definition[option["$ref"].rpartition("/")[2]] for option in union
    }


def test_completion_needs_its_capability_only_where_it_exists():
    """2024-11-05 has completion but no capability for it."""
    complete = METHODS["completion/complete"]
    assert complete.needed("2024-11-05") is None
    assert complete.needed("2025-03-26") == "completions"


def test_an_unknown_method_has_no_row():
    """What no revision and no extension has is not found."""
    assert spec("tools/list") is METHODS["tools/list"]
    assert spec("tools/destroy") is None


def test_tasks_are_those_of_the_extension():
    """Where the experiment of 2025-11-25 has a message of the same name it is the same row; two are its own."""
    rows = [row for row in ALL_METHODS.values() if row.extension == TASKS]
    assert {row.name for row in rows} == {"tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"}
    both = {row.name for row in rows if row.since == "2025-11-25"}
    assert both == {"tasks/get", "tasks/cancel"}
    assert {row.since for row in rows if row.name not in both} == {mcp_schema.MODERN}
    of_experiment = {row.name for row in ALL_METHODS.values() if row.until == "2025-11-25" and "tasks/" in row.name}
    assert of_experiment == {"tasks/result", "notifications/tasks/status"}
    assert spec("tasks/list") is None
