"""Which keys decide what."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.cli.screen.keys import help_lines, offers
from antiphon.cli.screen.words import words
from antiphon.host.review.queue import Question
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.shown import show
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams
from tests.cli.screen.reviewing import FORM
from tests.host.asks import CHOICES, origin, request

EN = words("en")
RESULT = CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")


def keys(item, kind="request", state="pending") -> str:
    """Name the keys that are offered."""
    question = Question(
        id="1", kind=kind, group="g", identity="i", created=0, expires=None, state=state, waited_for=True, item=item
    )
    shown = show(question)
    assert shown is not None
    return "".join(offer.key for offer in offers(shown, EN))


def sampling(**more) -> ReviewItem:
    """Make a request under review."""
    params = request()
    usual = {"params": params, "received": params, "origin": origin(), "choices": CHOICES, "provider": "echo"}
    return ReviewItem(**{**usual, **more})


@pytest.mark.parametrize(
    ("item", "kind", "offered"),
    [
        (sampling(), "request", "aedrwgAsb"),
        (sampling(models=("a", "b")), "request", "aedrwgAmsb"),
        (sampling(origin=origin(call=None)), "request", "aedrwgAb"),
        (sampling(choices=frozenset({"deny", "answer"})), "request", "drwsb"),
        (
            sampling(result=RESULT, models=("b",), choices=frozenset({"approve", "deny", "answer", "regenerate"})),
            "response",
            "aedrwnmsb",
        ),
        (ElicitItem(origin=origin(), params=FORM), "elicitation", "adc"),
        (ElicitItem(origin=origin(), params=ElicitRequestParams.visit("x", "https://a")), "elicitation", "adc"),
        (
            ToolItem(
                origin=origin(),
                params=CallToolRequestParams.of("x", {}),
                choices=frozenset({"approve", "deny", "grant"}),
            ),
            "tool",
            "adrgsb",
        ),
    ],
)
def test_keys_are_what_can_be_chosen(item, kind: str, offered: str):
    """No more, and no less; once it is over, none."""
    assert keys(item, kind) == offered
    assert keys(item, kind, "withdrawn") == ""


def test_every_key_is_in_the_list():
    """That ? shows."""
    listed = {offer.key for offer in help_lines(EN)}
    assert set("aedrwgAmnsbc") <= listed
    assert set("jkxl?q") <= listed


def test_what_a_says_depends_on_what_it_does():
    """Approve, send, fill in, or say that it was done."""
    labels = [
        offers(msgspec.structs.replace(show_of(item, kind)), EN)[0].label
        for item, kind in (
            (sampling(), "request"),
            (sampling(result=RESULT, choices=frozenset({"approve"})), "response"),
            (ElicitItem(origin=origin(), params=FORM), "elicitation"),
            (ElicitItem(origin=origin(), params=ElicitRequestParams.form("x", {})), "elicitation"),
            (ElicitItem(origin=origin(), params=ElicitRequestParams.visit("x", "https://a")), "elicitation"),
        )
    ]
    assert labels == ["Approve", "Send this answer", "Fill in", "Send", "Accept"]


def show_of(item, kind):
    """Show an item."""
    question = Question(
        id="1", kind=kind, group="g", identity="i", created=0, expires=None, state="pending", waited_for=True, item=item
    )
    shown = show(question)
    assert shown is not None
    return shown
