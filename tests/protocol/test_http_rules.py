"""The rules of a POST: which era, which refusal, which status."""

from __future__ import annotations

import json

import pytest

from antiphon.protocol import http_rules as rules
from antiphon.protocol.param_headers import HeaderParam
from antiphon.wire.envelope import decode_envelope

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def message(method="tools/call", id=1, **params):
    """Decode a request with these params."""
    return decode_envelope(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())


def call(name="echo", meta=META, **more):
    """Make a call of a tool."""
    return message(name=name, _meta=meta, **more)


def headers(version="2026-07-28", method="tools/call", name="echo", **more):
    """Make the headers of a call; ``None`` leaves one out."""
    named = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name, **more}
    return {key.replace("_", "-").encode(): value.encode() for key, value in named.items() if value is not None}


def code_of(refusal):
    """Return the status and the code of a refusal."""
    return None if refusal is None else (refusal.status, refusal.error.code)


def check(sent, envelope, parameters=None):
    """Check a modern message."""
    found = rules.read_modern(sent, envelope, parameters)
    return code_of(found if isinstance(found, rules.Refusal) else None)


# --- eras ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "envelope", "modern"),
    [
        (headers(), call(meta={}), True),
        (headers("2025-11-25"), call(), True),
        (headers(None), call(), True),
        (headers(None), call(meta={"io.modelcontextprotocol/protocolVersion": "v999"}), True),
        (headers("2025-11-25"), call(meta={}), False),
        (headers(None), message("initialize", protocolVersion="2025-11-25"), False),
        (headers(None), message("initialize", protocolVersion="2025-11-25", _meta="broken"), False),
    ],
)
def test_a_modern_header_or_a_modern_meta_makes_a_message_modern(sent, envelope, modern):
    """Even one that is broken, so that it gets an error modern clients understand."""
    assert rules.is_modern(sent, envelope, bytes(envelope.params)) is modern


def test_an_escaped_name_is_seen_as_well():
    """Some encoders put a backslash before every slash."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": META}}).replace("/", "\\/")
    assert rules.is_modern({}, decode_envelope(body.encode()), body.encode())


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_legacy_version_is_taken(version):
    """And none at all: the header is younger than the transport."""
    assert rules.check_legacy(headers(version), message()) is None


def test_an_invalid_legacy_version_is_refused():
    """2025-11-25: "it MUST respond with 400 Bad Request"; what we speak is said, for those who can read it."""
    refusal = rules.check_legacy(headers("2000-01-01"), message())
    assert code_of(refusal) == (400, -32022)
    assert refusal.error.data["requested"] == "2000-01-01"


def test_initialize_may_name_any_version():
    """Nothing is agreed yet."""
    assert rules.check_legacy(headers("2000-01-01"), message("initialize")) is None


# --- headers against the body ----------------------------------------------------------------------------------------


def test_what_agrees_is_taken():
    """The plain case, white space around values, and a name in base64."""
    assert check(headers(), call()) is None
    assert check(headers(name="  echo\t"), call()) is None
    assert check(headers(name="=?base64?ZWNobw==?="), call()) is None


@pytest.mark.parametrize(
    "sent",
    [
        headers(method="tools/list"),
        headers(method="TOOLS/CALL"),
        headers(method=None),
        headers(name="other"),
        headers(name=None),
        headers(name="=?base64?ZWNobw?="),
        headers(name="ec\x01ho"),
        headers(version=None),
        headers(version="2025-11-25"),
    ],
)
def test_what_differs_is_a_mismatch(sent):
    """A missing header, another value, another case, or characters no header may have."""
    assert check(sent, call()) == (400, -32020)


def test_a_version_in_the_body_that_is_not_the_header_s_is_a_mismatch():
    """Before anything else is said of it."""
    assert check(headers(), call(meta={**META, "io.modelcontextprotocol/protocolVersion": "v999"})) == (400, -32020)


def test_a_version_nobody_knows_is_the_session_s_to_refuse():
    """It says which versions there are, and we choose the status by its code."""
    unknown = {**META, "io.modelcontextprotocol/protocolVersion": "v999"}
    assert check(headers(version="v999"), call(meta=unknown)) is None
    assert rules.status_of(-32022, modern=True) == 400


@pytest.mark.parametrize("missing", list(META))
def test_a_message_without_its_meta_is_malformed(missing):
    """2026-07-28 basic, ``_meta``: -32602 and 400."""
    meta = {key: value for key, value in META.items() if key != missing}
    assert check(headers(), call(meta=meta)) == (400, -32602)
    assert check(headers(), call(meta="broken")) == (400, -32602)


@pytest.mark.parametrize(("method", "params"), [("resources/read", {"uri": "echo"}), ("prompts/get", {"name": "echo"})])
def test_a_name_is_the_member_the_method_has_for_it(method, params):
    """Of resources it is the URI."""
    assert check(headers(method=method), message(method, _meta=META, **params)) is None
    assert check(headers(method=method, name="no"), message(method, _meta=META, **params)) == (400, -32020)


def test_other_methods_need_no_name():
    """Whatever ``Mcp-Name`` says."""
    assert check(headers(method="tools/list", name=None), message("tools/list", _meta=META)) is None


def test_a_modern_client_sends_no_responses():
    """The revision says that it MUST NOT."""
    reply = decode_envelope(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert check(headers(), reply) == (400, -32600)


def test_notifications_need_no_headers():
    """The revision defines none for them."""
    assert check({}, decode_envelope(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')) is None


# --- parameters ------------------------------------------------------------------------------------------------------

PARAMETERS = {"echo": [HeaderParam("Mcp-Param-Region", ("region",)), HeaderParam("Mcp-Param-Deep", ("a", "b"))]}


@pytest.mark.parametrize(
    ("sent", "arguments", "fits"),
    [
        ("eu", {"region": "eu"}, True),
        ("=?base64?SGVsbG8=?=", {"region": "Hello"}, True),
        ("=?base64?SGVsbG8?=", {"region": "Hello"}, False),
        ("=?base64?SGVs!!!bG8=?=", {"region": "Hello"}, False),
        ("SGVsbG8=?=", {"region": "SGVsbG8=?="}, True),
        ("=?base64?SGVsbG8=", {"region": "=?base64?SGVsbG8="}, True),
        ("us", {"region": "eu"}, False),
        (None, {"region": "eu"}, False),
        ("eu", {}, False),
        (None, {}, True),
        (None, {"region": None}, True),
        ("42", {"region": 42}, True),
        ("42.0", {"region": 42}, True),
        ("42", {"region": 42.0}, True),
        ("43", {"region": 42}, False),
        ("forty", {"region": 42}, False),
        ("true", {"region": True}, True),
        ("1", {"region": True}, False),
        ("x", {"region": ["not a primitive"]}, True),
    ],
)
def test_parameters_in_headers_must_fit_the_arguments(sent, arguments, fits):
    """As "Server Behavior for Custom Headers" has it; integers compare by value."""
    refusal = check(headers(mcp_param_region=sent), call(arguments=arguments), lambda name: PARAMETERS.get(name, ()))
    assert refusal == (None if fits else (400, -32020))


def test_a_parameter_within_an_object_is_found():
    """By its path of properties."""
    sent = headers(mcp_param_deep="1")
    find = PARAMETERS.__getitem__
    assert check(sent, call(arguments={"a": {"b": 1}}), find) is None
    assert check(sent, call(arguments={"a": {"b": 2}}), find) == (400, -32020)
    assert check(sent, call(arguments={"a": 1}), find) == (400, -32020)


# --- media types, ids, doubles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_may_come_with_parameters(kind):
    """And in any case."""
    assert rules.check_media({b"content-type": kind.encode()}, json_only=False) is None


@pytest.mark.parametrize("kind", ["text/plain", "", "application/jsonx", "text/plain; application/json"])
def test_anything_but_json_is_415(kind):
    """A form of another site's page can send only such."""
    assert code_of(rules.check_media({b"content-type": kind.encode()}, json_only=False)) == (415, -32600)


@pytest.mark.parametrize(
    ("accept", "json_only", "fits"),
    [
        ("application/json, text/event-stream", False, True),
        ("text/event-stream;q=0.5, APPLICATION/*", False, True),
        ("*/*", False, True),
        ("application/json", False, False),
        ("application/json", True, True),
        ("text/event-stream", False, False),
        ("text/event-stream, application/json;q=0", False, False),
        ("text/html", True, False),
    ],
)
def test_a_client_must_take_both(accept, json_only, fits):
    """Ranges count, and ``q=0`` excludes."""
    refusal = rules.check_media({b"content-type": b"application/json", b"accept": accept.encode()}, json_only=json_only)
    assert code_of(refusal) == (None if fits else (406, -32600))


def test_no_accept_at_all_takes_anything():
    """RFC 9110, section 12.5.1."""
    assert rules.check_media({b"content-type": b"application/json"}, json_only=False) is None


@pytest.mark.parametrize("name", [b"mcp-method", b"mcp-session-id", b"host", b"origin"])
def test_a_header_that_decides_may_not_come_twice(name):
    """A proxy may go by the other one."""
    pairs = [(name, b"a"), (name, b"b")]
    assert code_of(rules.check_unambiguous(pairs, dict(pairs))) == (400, -32020)


def test_other_headers_may_come_twice():
    """Cookies do."""
    pairs = [(b"cookie", b"a"), (b"cookie", b"b")]
    assert rules.check_unambiguous(pairs, dict(pairs)) is None


@pytest.mark.parametrize(
    "body", [b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0"}']
)
def test_what_is_no_message_is_refused(body):
    """An id of null, or none of method, result and error."""
    assert code_of(rules.check_id(decode_envelope(body))) == (400, -32600)


@pytest.mark.parametrize(
    ("code", "status"),
    [(None, 200), (-32601, 404), (-32021, 400), (-32022, 400), (-32020, 400), (-32602, 200), (-32603, 200), (-1, 200)],
)
def test_a_modern_status_follows_the_code(code, status):
    """Legacy revisions answer 200 always."""
    assert rules.status_of(code, modern=True) == status
    assert rules.status_of(code, modern=False) == 200


@pytest.mark.parametrize(("version", "null"), [(None, True), ("2025-06-18", True), ("2025-11-25", False)])
def test_an_error_without_an_id_is_written_as_the_revision_wants(version, null):
    """Null before 2025-11-25, absent since."""
    sent = headers(version)
    body = rules.check_id(decode_envelope(b'{"jsonrpc":"2.0"}')).body(null_id=rules.has_null_ids(sent))
    assert (b'"id":null' in body) is null


def test_only_the_newest_legacy_revision_has_priming_events():
    """An older client would take the empty data for a message."""
    assert [rules.is_priming(each) for each in ("2025-06-18", "2025-11-25", None)] == [False, True, False]


def test_one_revision_has_batches():
    """2025-03-26."""
    assert [rules.takes_batches(each) for each in ("2025-03-26", "2025-06-18", None, "x")] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("body", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"error":"not an object"}', 7),
        (b'{"id":"x","result":{}}', "x"),
        (b'{"id":7,"method":"x","result":{}}', None),
        (b'{"id":7}', None),
        (b'{"id":[],"result":{}}', None),
        (b"{", None),
    ],
)
def test_a_reply_that_cannot_be_read_is_an_error_to_whoever_waits(body, id):
    """Else an ask would wait for it forever."""
    salvaged = rules.salvage_reply(body)
    assert (salvaged.id if salvaged else None) == id
    assert salvaged is None or salvaged.error.code == -32600
