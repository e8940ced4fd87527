"""Modern messages over HTTP: what makes one, and what has to agree between its headers and its body."""

from __future__ import annotations

import json

import pytest

from antiphon.protocol.http.modern import is_modern, read_modern
from antiphon.protocol.http.param_headers import HeaderParam
from antiphon.protocol.http.rules import HttpRefusal, status_of
from antiphon.wire.envelope import decode_envelope

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}

PARAMETERS = {"echo": [HeaderParam("Mcp-Param-Region", ("region",)), HeaderParam("Mcp-Param-Deep", ("a", "b"))]}


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
    found = read_modern(sent, envelope, parameters and (lambda name, _principal: parameters(name)))
    return code_of(found if isinstance(found, HttpRefusal) else None)


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
    assert is_modern(sent, envelope, bytes(envelope.params)) is modern


def test_an_escaped_name_is_seen_as_well():
    """Some encoders put a backslash before every slash."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": META}}).replace("/", "\\/")
    assert is_modern({}, decode_envelope(body.encode()), body.encode())


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
    assert status_of(-32022, modern=True) == 400


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
