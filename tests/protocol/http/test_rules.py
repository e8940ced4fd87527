"""The rules of any POST: which refusal, which status."""

from __future__ import annotations

import json

import pytest

from antiphon.auth.server.resource_server import Entrance, ResourceServer
from antiphon.protocol.http import rules
from antiphon.protocol.http.rules import Gate
from antiphon.transports.http.server.entrance import TokenCheck
from antiphon.wire.envelope import decode_envelope


def message(method="tools/call", id=1, **params):
    """Decode a request with these params."""
    return decode_envelope(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())


def headers(version="2026-07-28", method="tools/call", name="echo", **more):
    """Make the headers of a call; ``None`` leaves one out."""
    named = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name, **more}
    return {key.replace("_", "-").encode(): value.encode() for key, value in named.items() if value is not None}


def code_of(refusal):
    """Return the status and the code of a refusal."""
    return None if refusal is None else (refusal.status, refusal.error.code)


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


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_may_come_with_parameters(kind):
    """And in any case."""
    assert rules.check_media({b"content-type": kind.encode()}, json_only=False) is None


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, gzip"])
def test_a_compressed_body_is_415(coding):
    """A bomb would be small on the wire; the text says what to send."""
    body = {b"content-type": b"application/json", b"content-encoding": coding.encode()}
    refusal = rules.check_media(body, json_only=False)
    assert code_of(refusal) == (415, -32600)
    assert refusal.error.message == "Content-Encoding is not supported; send the body uncompressed"
    assert rules.check_media({**body, b"content-encoding": b"Identity"}, json_only=False) is None


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


def test_both_that_check_tokens_are_gates():
    """A transport cannot tell them apart."""
    auth = ResourceServer("https://auth.example.com", "https://mcp.example.com/mcp")
    gates: list[Gate] = [TokenCheck({"t": "ann"}.get), Entrance(auth, "/mcp")]
    assert [bool(gate.documents()) for gate in gates] == [False, True]
    assert all(b'scope="a b"' in gate.challenge(["b", "a"])[0][1] for gate in gates)
