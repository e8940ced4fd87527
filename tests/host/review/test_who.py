"""Who asks, and for what."""

from __future__ import annotations

from antiphon.host.review.shown import show
from antiphon.wire.common import Implementation
from antiphon.wire.origin import Round
from tests.host.asks import origin
from tests.host.review.questions import question


def test_it_says_who_asks_and_why():
    """What the user configured, what the server calls itself, the call with its arguments, and the round."""
    who = origin(server=Implementation(name="Shop", version="2"), round=Round(n=2, max=64))
    shown = show(question(who=who)).who
    assert (shown.target, shown.kind, shown.claims, shown.round) == (
        "python catalogue.py",
        "command",
        "Shop 2",
        (2, 64),
    )
    assert (shown.call, '"sku":7' in shown.arguments) == ("tools/call describe", True)
    assert show(question(who=origin(call=None))).who.call == ""
