"""Heads that come again: what is remembered, and what counts as the same."""

from __future__ import annotations

import httptools
import pytest

from antiphon.transports.http.server.heads import remember


class Reader:
    """What httptools finds."""

    def __init__(self):
        self.headers = []

    def on_header(self, name, value):
        self.headers.append((name.lower(), value))


def read(data):
    """Return the scope of a request, as far as it counts here."""
    reader = Reader()
    httptools.HttpRequestParser(reader).feed_data(data)
    return {"headers": reader.headers}


def request(body=b"hello", *, length=None, more=(), name=b"Content-Length", before=(b"Host: a",)):
    """Write a request."""
    size = b"%d" % len(body) if length is None else length
    lines = [b"POST / HTTP/1.1", *before, name + b": " + size, *more]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def known(data):
    """Remember a request."""
    return remember(data, read(data))


@pytest.mark.parametrize("body", [b"hello", b"", b"x" * 12_345])
@pytest.mark.parametrize("options", [{}, {"more": (b"X: y",)}, {"name": b"content-LENGTH"}, {"before": ()}])
def test_the_same_head_is_read_as_httptools_reads_it(body, options):
    """Wherever the length stands, and whatever it is."""
    data = request(body, **options)
    found = known(request(**options)).match(data)
    assert found == (read(data)["headers"], body)


def test_what_was_read_first_is_left_as_it_was():
    """Its headers are somebody's."""
    data = request()
    scope = read(data)
    remember(data, scope).match(request(b"a much longer body"))
    assert scope == read(data)


@pytest.mark.parametrize(
    "data",
    [
        request(before=(b"Host: b",)),
        request(more=(b"X: y",)),
        request(b"hello", length=b"6"),
        request(b"hello", length=b"4"),
        request(b"hello", length=b"x"),
        request(b"hello", length=b""),
        request(b"hello", length=b"5 "),
        request(b"hello", length=b"-5"),
        request(b"hello", length=b"\xb25"),
        request(b"hello", length=b"0" * 20 + b"5"),
        request()[:-1],
        request() + b"G",
        request()[:20],
        b"",
    ],
)
def test_everything_else_is_to_be_parsed(data):
    """Another head, another length, or not exactly one request."""
    assert known(request()).match(data) is None


@pytest.mark.parametrize(
    "data",
    [
        request(more=(b"Expect: 100-continue",)),
        request(more=(b"Connection: upgrade", b"Upgrade: websocket")),
        request(more=(b"X: " + b"x" * 4096,)),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_means_more_than_a_request_with_a_body_is_not_remembered(data):
    """The parser knows best."""
    reader = Reader()
    try:
        httptools.HttpRequestParser(reader).feed_data(data)
    except httptools.HttpParserUpgrade:
        assert b"Upgrade" in data
    assert remember(data, {"headers": reader.headers}) is None


@pytest.mark.parametrize("data", [request() + request(), request()[:-1]])
def test_only_what_is_exactly_one_request_is_remembered(data):
    """Else it is not clear where the next begins."""
    assert known(request()) is not None
    assert remember(data, read(request())) is None
