"""What a caller is told when HTTP fails, and how it is recognised."""

from __future__ import annotations

import pytest

from antiphon.errors import PeerError
from antiphon.transports.http.client.error_replies import (
    BROKEN,
    UNREACHABLE,
    UNUSABLE,
    HttpFailure,
    first_line,
    has_session_gone,
    http_status,
    is_not_streamable,
    is_passing,
    is_refused_outright,
    read_wait,
    suggest_remedy,
)
from antiphon.transports.http.client.message import error_of
from antiphon.wire.envelope import from_wire


def arrived(failure) -> PeerError:
    """The exception that the caller gets."""
    error = error_of(failure.frame(1))
    assert error is not None
    return from_wire(error)


@pytest.mark.parametrize(
    ("failure", "yes"),
    [
        (HttpFailure(UNREACHABLE, "m"), {is_passing, is_refused_outright}),
        (HttpFailure(BROKEN, "m"), {is_passing}),
        (HttpFailure(UNUSABLE, "m"), set()),
        (HttpFailure.of_status("u", 404, "Not Found", ""), {is_not_streamable}),
        (HttpFailure.of_status("u", 404, "Not Found", "", gone=True), {is_not_streamable, has_session_gone}),
        (HttpFailure.session_gone("u"), {is_not_streamable, has_session_gone}),
        (HttpFailure.of_status("u", 405, "", ""), {is_not_streamable}),
        (HttpFailure.of_status("u", 401, "", ""), {is_refused_outright}),
        (HttpFailure.of_status("u", 403, "", ""), {is_refused_outright}),
        (HttpFailure.of_status("u", 400, "", ""), {is_not_streamable}),
        (HttpFailure.of_status("u", 500, "", ""), set()),
        (HttpFailure.of_status("u", 429, "", ""), {is_passing}),
        (HttpFailure.of_status("u", 503, "", ""), {is_passing}),
    ],
)
def test_each_failure_is_recognised(failure, yes):
    """By the questions that a client has."""
    questions = {is_passing, is_not_streamable, has_session_gone, is_refused_outright}
    assert {ask for ask in questions if ask(arrived(failure))} == yes


@pytest.mark.parametrize("data", [None, 5, [], {"httpStatus": "404"}, {"httpStatus": 405}])
def test_an_error_of_the_servers_is_no_failure_of_http(data):
    """Even if it looks a little like one."""
    assert http_status(PeerError("m", code=404, data=data)) is None


def test_a_status_is_said_with_what_helps():
    """Status, place, reason, first line; for 401 what to do."""
    error = arrived(HttpFailure.of_status("http://h/mcp", 401, "Unauthorized", "no token"))
    assert error.message.startswith("http://h/mcp answered HTTP 401 Unauthorized: no token (it wants authorization")
    assert http_status(error) == 401


def test_how_long_to_wait_is_said_in_seconds_or_by_a_date():
    """RFC 9110, section 10.2.3: at most a minute, and not at all for what is neither."""
    ago, later = "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2065 07:28:00 GMT"
    named = {"7": 7.0, "600": 60.0, "9" * 400: 60.0, ago: 0.0, later: 60.0, "-5": 0.0, "soon": 0.0, "": 0.0}
    assert {text: read_wait({"retryAfter": text}) for text in named} == named
    assert [read_wait(data) for data in (None, {}, "7", {"retryAfter": None})] == [0.0] * 4


def test_only_the_first_line_of_a_body_is_shown():
    """Short, printable, never HTML."""
    assert first_line(b"\n one\x07 \nTraceback", "text/plain") == "one "
    assert first_line(b"<p>", "text/html") == ""
    assert len(first_line(b"x" * 1000, "text/plain")) == 200
    assert first_line(b"\xff", "text/plain") == "\ufffd"


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_status_that_keeps_us_out_has_a_remedy(status):
    """It says what to pass."""
    assert "headers=" in suggest_remedy(status) or "proxy=" in suggest_remedy(status)


def test_other_statuses_have_none():
    """Nobody knows one."""
    assert suggest_remedy(500) == ""
