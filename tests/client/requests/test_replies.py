"""What a reply is: a result, a round, or nothing that can be used."""

from __future__ import annotations

import pytest
from msgspec import Raw

from antiphon.client.requests.attempts import lift_error, read_legacy, read_modern
from antiphon.errors import InvalidParams, PeerError, RemoteProtocolError, ResourceNotFound
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.tools import CallToolResult

DONE = b'"content":[]'
ROUND = b'"resultType":"input_required","requestState":"s"'


@pytest.mark.parametrize("raw", [b"{%b}" % DONE, b'{%b,"resultType":"complete"}' % DONE])
def test_a_result_is_read_into_its_type(raw: bytes) -> None:
    """An absent ``resultType`` is complete."""
    assert isinstance(read_modern(Raw(raw), "tools/call", CallToolResult), CallToolResult)


@pytest.mark.parametrize("raw", [b"{%b}" % ROUND, b"{%b,%b}" % (ROUND, DONE)])
def test_a_round_is_one_by_its_type_alone(raw: bytes) -> None:
    """Even if it could be read as a result as well."""
    done = read_modern(Raw(raw), "tools/call", CallToolResult)
    assert isinstance(done, InputRequiredResult)
    assert done.request_state == "s"


def test_before_rounds_the_type_of_a_result_means_nothing() -> None:
    """It is a member like any other that is not known."""
    assert read_legacy(Raw(b"{%b,%b}" % (ROUND, DONE)), "tools/call", CallToolResult).content == []


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"3", b'{"resultType":"input_required","inputRequests":3}'])
def test_what_cannot_be_read_is_the_servers_fault(raw: bytes) -> None:
    """The error names the method."""
    with pytest.raises(RemoteProtocolError, match="tools/call"):
        read_modern(Raw(raw), "tools/call", CallToolResult)


def test_an_unknown_type_is_invalid() -> None:
    """2026-07-28 basic."""
    with pytest.raises(RemoteProtocolError, match="unknown resultType 'odd'"):
        read_modern(Raw(b'{%b,"resultType":"odd"}' % DONE), "tools/call", CallToolResult)


def test_not_found_is_one_error() -> None:
    """Only for resources; anything else stays what it is."""
    error = InvalidParams("Resource not found", data={"uri": "s://x"})
    assert isinstance(lift_error("resources/read", error), ResourceNotFound)
    assert lift_error("tools/call", error) is error
    assert type(lift_error("resources/read", PeerError("odd", code=7))) is PeerError


def test_an_error_of_reading_lets_go_of_the_message() -> None:
    """What is raised holds no frame in which the message still is."""
    with pytest.raises(RemoteProtocolError) as caught:
        read_modern(Raw(b'{"content":3}'), "tools/call", CallToolResult)
    beneath = caught.value.__context__
    assert beneath is not None
    assert (beneath.__traceback__, beneath.__context__) == (None, None)


@pytest.mark.parametrize(
    ("raw", "unknown"),
    [
        (b'{"content":[],"resultType":"odd"}', "'odd'"),
        (b'{"content":[{"type":"text","text":"input_required"}],"resultType":"odd"}', "'odd'"),
    ],
)
def test_only_the_type_of_the_result_itself_counts(raw: bytes, unknown: str) -> None:
    """Words within its content make no round of it, and a type that nobody knows is refused."""
    with pytest.raises(RemoteProtocolError, match=f"unknown resultType {unknown}"):
        read_modern(Raw(raw), "tools/call", CallToolResult)


@pytest.mark.parametrize("raw", [b'["input_required"]', b'{"resultType":1,"x":"input_required"}'])
def test_a_result_without_a_type_that_is_text_is_no_round(raw: bytes) -> None:
    """It has to be an object whose type is text."""
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        read_modern(Raw(raw), "tools/call", CallToolResult)
