"""Headers as they are written."""

from __future__ import annotations

import pytest

from antiphon.transports.http.server.header_lines import header_line, header_lines


def test_lines_are_written_in_order_with_names_in_lower_case():
    """As HTTP/2 has it, and HTTP/1.1 takes it."""
    assert header_lines(((b"A", b"1"), (b"b", b"2"))) == b"a: 1\r\nb: 2\r\n"


@pytest.mark.parametrize(
    ("name", "value"), [(b"", b"1"), (b"a b", b"1"), (b"a\r\n", b"1"), (b"a", b"1\r\nb: 2"), (b"a", b"\0")]
)
def test_what_would_be_read_as_something_else_is_not_written(name, value):
    """A value with a line's end would be two headers. Nothing of it is remembered."""
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Invalid HTTP header"):
            header_line(name, value)
