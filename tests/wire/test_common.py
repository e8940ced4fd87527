"""The base of every wire type, and ``_meta``."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.wire import common
from antiphon.wire.common import (
    ABSENT,
    ClientCapabilities,
    EmptyResult,
    Icon,
    Implementation,
    PaginatedParams,
    RequestMeta,
    RootsCapability,
    RoundParams,
    SamplingCapability,
)
from antiphon.wire.envelope import decode_wire, encode_value


def test_members_are_snake_case_here_and_camel_case_there():
    """And what is absent is left out."""
    assert encode_value(Icon(src="a", mime_type="image/png")) == b'{"src":"a","mimeType":"image/png"}'
    assert decode_wire(b'{"src":"a","mimeType":"image/png"}', Icon).mime_type == "image/png"


def test_values_are_frozen():
    """Nothing that was decoded can be changed in place."""
    with pytest.raises(AttributeError):
        Icon(src="a").src = "b"


def test_members_are_given_by_name():
    """Positions mean nothing on the wire."""
    with pytest.raises(TypeError):
        Icon("a")


def test_null_is_absent():
    """Peers that write null for what they lack are understood."""
    assert decode_wire(b'{"name":"n","version":"1","title":null}', Implementation) == Implementation(
        name="n", version="1"
    )


def test_a_required_member_is_required():
    """The error names the member as it is on the wire."""
    with pytest.raises(msgspec.ValidationError, match="version"):
        decode_wire(b'{"name":"n"}', Implementation)


def test_an_empty_capability_is_offered():
    """``{}`` is not absent, at any depth."""
    offered = ClientCapabilities(sampling=SamplingCapability(tools={}), roots=RootsCapability())
    assert encode_value(offered) == b'{"roots":{},"sampling":{"tools":{}}}'
    assert decode_wire(encode_value(offered), ClientCapabilities) == offered


def test_request_meta_has_the_reserved_keys():
    """Each attribute travels under the key that the specification reserves for it."""
    meta = RequestMeta(
        progress_token="p",
        protocol_version="v",
        client_info=Implementation(name="n", version="1"),
        client_capabilities=ClientCapabilities(),
        log_level="info",
        traceparent="t",
    )
    assert decode_wire(encode_value(meta), dict) == {
        common.PROGRESS_TOKEN: "p",
        common.PROTOCOL_VERSION: "v",
        common.CLIENT_INFO: {"name": "n", "version": "1"},
        common.CLIENT_CAPABILITIES: {},
        common.LOG_LEVEL: "info",
        "traceparent": "t",
    }
    assert decode_wire(encode_value(meta), RequestMeta) == meta


def test_results_carry_any_meta():
    """Keys of others stay."""
    data = b'{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"},"x":1},"resultType":"complete"}'
    result = decode_wire(data, EmptyResult)
    assert result.meta == {common.SERVER_INFO: {"name": "n"}, "x": 1}
    assert encode_value(result) == data


def test_params_that_were_left_out_are_empty():
    """A request without params is one whose params hold nothing."""
    assert decode_wire(b"", PaginatedParams) == PaginatedParams()
    assert decode_wire(ABSENT, PaginatedParams) == decode_wire(b"{}", PaginatedParams)


def test_answers_stay_undecoded():
    """Their type is known only by their ask."""
    params = decode_wire(b'{"inputResponses":{"a":{"action": "accept"}},"requestState":"s"}', RoundParams)
    assert {key: bytes(raw) for key, raw in (params.input_responses or {}).items()} == {"a": b'{"action": "accept"}'}
    assert params.request_state == "s"


@pytest.mark.parametrize("token", ["a", 1, 0, 10**20])
def test_progress_tokens(token):
    """A string or an integer, unchanged."""
    assert decode_wire(encode_value(RequestMeta(progress_token=token)), RequestMeta).progress_token == token
