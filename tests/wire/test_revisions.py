"""What we send at each revision fits its schema, whatever revision it came from."""

from __future__ import annotations

import json

import msgspec
import pytest

from antiphon.errors import NotInRevision, ResourceNotFound, UrlElicitationRequired
from antiphon.wire.common import SUBSCRIPTION_ID, ClientCapabilities, RequestMeta, RequestParams, Result
from antiphon.wire.envelope import ErrorObject, decode_wire, encode_value
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, MODERN, REVISIONS, Revision, find_revision
from antiphon.wire.subscriptions import SubscriptionsListenResult
from tests.support import mcp_schema

NAMES = mcp_schema.NAMES
PAIRS = [(source, target) for source in NAMES for target in NAMES]


def known(name: str) -> Revision:
    """Find a revision that must exist."""
    found = find_revision(name)
    assert found
    return found


def as_sent(value, target: Revision, *, ask: bool = False):
    """Encode a lowered value and add what the session does: the ``_meta`` of requests, and ``resultType``."""
    made = json.loads(encode_value(value))
    if isinstance(value, RequestParams) and not (ask and target.modern):
        made.pop("_meta", None)
        if target.modern:
            meta = RequestMeta(progress_token=1, protocol_version=target.name, client_capabilities=ClientCapabilities())
            made["_meta"] = json.loads(encode_value(meta))
    if isinstance(value, Result) and target.modern:
        made["resultType"] = "complete"
    if isinstance(value, SubscriptionsListenResult):
        made["_meta"] = {SUBSCRIPTION_ID: 1}
    return made


def lowered(value, target: Revision):
    """Lower a value, or return ``None`` where the revision cannot carry it."""
    try:
        return target.lower(value)
    except NotInRevision:
        return None


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_we_send_fits_the_schema(source, target):
    """Params and results made from one revision's schema are valid at another once they are lowered to it."""
    sent = 0
    for method, row in METHODS.items():
        if "tasks/" in method or row.extension or not row.exists_in(source) or not row.exists_in(target):
            continue
        name = mcp_schema.messages(target)[method]
        cases = [(row.params, mcp_schema.params_schema(source, method), f"{name}/properties/params")]
        if row.result and row.result.__name__ in mcp_schema.definitions(source):
            result = row.result.__name__
            cases.append((row.result, mcp_schema.definitions(source)[result], result))
        for kind, schema, pointer in cases:
            for instance in mcp_schema.instances(source, schema):
                value = lowered(decode_wire(msgspec.json.encode(instance), kind), known(target))
                if value is not None:
                    sent += 1
                    made = as_sent(value, known(target), ask=row.ask)
                    assert mcp_schema.problems(target, pointer, made) == [], (method, instance, made)
    assert sent > 300


@pytest.mark.parametrize("name", NAMES)
def test_what_a_revision_has_is_kept(name):
    """Lowering to the revision that an instance came from returns the value itself."""
    for method, row in METHODS.items():
        if "tasks/" in row.name or row.extension or not row.exists_in(name):
            continue
        cases = [(row.params, mcp_schema.params_schema(name, method))]
        if row.result and row.result.__name__ in mcp_schema.definitions(name):
            cases.append((row.result, mcp_schema.definitions(name)[row.result.__name__]))
        for kind, schema in cases:
            for instance in mcp_schema.instances(name, schema):
                value = decode_wire(msgspec.json.encode(instance), kind)
                assert known(name).lower(value) is value, (method, instance)


def test_revisions_are_those_of_the_schemas_in_order():
    """There is one revision per schema, the oldest first."""
    assert tuple(each.name for each in REVISIONS) == NAMES
    assert [each.order for each in REVISIONS] == [0, 1, 2, 3, 4]


def test_eras():
    """2026-07-28 alone is modern."""
    assert {"2026-07-28"} == MODERN
    assert LATEST.name == "2026-07-28"
    assert LATEST.modern
    assert LATEST_LEGACY.name == "2025-11-25"
    assert not any(each.modern for each in LEGACY)


def test_batches_are_of_one_revision():
    """Only 2025-03-26 has JSON-RPC batches."""
    assert [each.name for each in REVISIONS if each.batches] == ["2025-03-26"]


def test_errors_without_a_readable_id():
    """Before 2025-11-25 they carry null, since then no id."""
    assert [each.name for each in REVISIONS if each.null_id] == ["2024-11-05", "2025-03-26", "2025-06-18"]


def test_an_unknown_revision_is_not_found():
    """What we do not speak has no ``Revision``."""
    assert find_revision("1999-01-01") is None


@pytest.mark.parametrize(("name", "code"), [("2024-11-05", -32002), ("2025-11-25", -32002), ("2026-07-28", -32602)])
def test_code_of_a_resource_that_is_not_found(name, code):
    """-32002 became -32602 at 2026-07-28; the URI stays in the data."""
    error = ErrorObject(code=ResourceNotFound.CODE, message="Resource not found", data={"uri": "a:b"})
    adapted = known(name).adapt_error(error)
    assert adapted.code == code
    assert adapted.data == {"uri": "a:b"}


def test_a_resource_that_is_not_found_is_recognised():
    """-32602 with a URI is undone at 2026-07-28, and only there."""
    error = ErrorObject(code=-32602, message="Resource not found", data={"uri": "a:b"})
    assert LATEST.lift_error(error).code == ResourceNotFound.CODE
    assert LATEST_LEGACY.lift_error(error) is error


@pytest.mark.parametrize("data", [None, {}, {"uri": 1}, ["uri"], "uri"])
def test_other_invalid_params_stay(data):
    """-32602 that names no URI is not about a resource."""
    error = ErrorObject(code=-32602, message="Invalid params", data=data)
    assert LATEST.lift_error(error) is error


def test_url_elicitation_required_is_of_one_revision():
    """-32042 exists only at 2025-11-25; elsewhere it is an internal error without data."""
    error = ErrorObject(code=UrlElicitationRequired.CODE, message="Visit first", data={"elicitations": []})
    codes = {each.name: each.adapt_error(error).code for each in REVISIONS}
    assert codes.pop("2025-11-25") == UrlElicitationRequired.CODE
    assert set(codes.values()) == {-32603}


def test_other_errors_stay():
    """An error whose code is the same in every revision comes back itself."""
    error = ErrorObject(code=-32601, message="Method not found")
    assert all(each.adapt_error(error) is error for each in REVISIONS)


def test_bad_arguments_are_results_since_2025_11_25():
    """Before, they are errors of the protocol."""
    since = [each.name for each in REVISIONS if each.argument_errors_are_results]
    assert since == ["2025-11-25", "2026-07-28"]
