"""Answers that come with a request are what was asked for, or the place is named."""

from __future__ import annotations

import pytest
from msgspec import Raw

from antiphon.errors import InvalidParams, RemoteProtocolError
from antiphon.server.calls.client_answers import read_answer, read_given, read_reply
from antiphon.wire.methods import METHODS
from antiphon.wire.sampling import CreateMessageResult

SAMPLE = METHODS["sampling/createMessage"]
GOOD = Raw(b'{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}')
BAD = [Raw(b'{"role":7}'), Raw(b"[]"), Raw(b"null"), Raw(b'{"role":"assistant","content":{"type":"text"},"model":"m"}')]


def test_a_good_answer_is_read_to_what_was_asked_for() -> None:
    """Whichever way it came, and its bytes are kept."""
    for answer in (read_answer("k", GOOD, SAMPLE), read_given(GOOD, SAMPLE)):
        assert answer is not None
        assert isinstance(answer.value, CreateMessageResult)
        assert answer.value.text == "hi"
        assert answer.raw is GOOD
    assert read_reply(GOOD, SAMPLE) == read_answer("k", GOOD, SAMPLE).value


@pytest.mark.parametrize("answer", BAD)
def test_a_bad_answer_names_its_key(answer: Raw) -> None:
    """-32602 to who sent it in a retry; one that came unasked is none; a reply's fault is the author's to see."""
    assert read_given(answer, SAMPLE) is None
    with pytest.raises(InvalidParams, match=r"inputResponses\.k: "):
        read_answer("k", answer, SAMPLE)
    with pytest.raises(RemoteProtocolError, match=r"sampling/createMessage cannot be read"):
        read_reply(answer, SAMPLE)
