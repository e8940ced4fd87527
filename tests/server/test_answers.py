"""Answers that come with a request are what was asked for, or the place is named."""

from __future__ import annotations

import pytest
from msgspec import Raw

from antiphon.errors import InvalidParams
from antiphon.server.answers import check_readable, is_readable
from antiphon.wire.methods import METHODS

SAMPLE = METHODS["sampling/createMessage"]
GOOD = Raw(b'{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}')
BAD = [Raw(b'{"role":7}'), Raw(b"[]"), Raw(b"null"), Raw(b'{"role":"assistant","content":{"type":"text"},"model":"m"}')]


def test_a_good_answer_is_readable() -> None:
    """Nothing is raised."""
    check_readable("k", GOOD, SAMPLE)
    assert is_readable(GOOD, SAMPLE)


@pytest.mark.parametrize("answer", BAD)
def test_a_bad_answer_names_its_key(answer: Raw) -> None:
    """-32602, and what is wrong."""
    assert not is_readable(answer, SAMPLE)
    with pytest.raises(InvalidParams, match=r"inputResponses\.k: "):
        check_readable("k", answer, SAMPLE)
