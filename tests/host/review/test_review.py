"""The digest that ties a decision to what was shown."""

from __future__ import annotations

from antiphon.host.review.review import digest
from antiphon.wire.content import UnknownContent
from antiphon.wire.sampling import SamplingMessage
from tests.host.asks import request


def test_the_digest_does_not_depend_on_the_order_of_keys():
    """It is over canonical JSON."""
    assert digest(request(metadata={"a": 1, "b": 2})) == digest(request(metadata={"b": 2, "a": 1}))


def test_any_change_changes_the_digest():
    """Down to one invisible character."""
    assert digest(request("a")) != digest(request("a\u200b"))
    assert digest(request()) != digest(request(max_tokens=101))


def test_content_of_unknown_type_has_a_digest():
    """What came from a newer peer can still be compared."""
    asked = request(messages=[SamplingMessage(role="user", content=UnknownContent("hologram", {"x": 1}))])
    assert len(digest(asked)) == 64
