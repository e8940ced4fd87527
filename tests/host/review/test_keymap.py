"""The keys, written once: none twice, all with words, and only those that can be used."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from antiphon.host.review.keymap import (
    KEYMAP,
    Subject,
    Surface,
    describe_key,
    find_subject,
    key_for,
    keys_on,
    label_key,
    list_offered_keys,
    print_key_name,
)
from antiphon.host.review.question import Question
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.shown import Shown, collect_shown
from antiphon.host.review.summary import LANGUAGES, load_texts
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import CHOICES, origin, request

RESULT = CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")
FORM = ElicitRequestParams.form("Name?", {"name": {"type": "string"}})


def shown(item, kind="request", state="pending") -> Shown:
    """Show an item."""
    question = Question(
        id="1", kind=kind, group="g", identity="i", created=0, expires=None, state=state, waited_for=True, item=item
    )
    made = collect_shown(question)
    assert made is not None
    return made


def sampling(**more) -> ReviewItem:
    """Make a request under review."""
    params = request()
    usual = {"params": params, "received": params, "origin": origin(), "choices": CHOICES, "provider": "echo"}
    return ReviewItem(**{**usual, **more})


@pytest.mark.parametrize("surface", get_args(Surface))
def test_no_key_does_two_things(surface: Surface):
    """On one surface, whatever is on show."""
    names = [name for key in keys_on(surface) for name in key.keys]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_key_has_words(language: str):
    """A label and a sentence, and of its own for whatever it can decide about."""
    words = load_texts(language)
    for key in KEYMAP:
        for about in (None, *get_args(Subject)):
            assert label_key(key, words, about).strip()
            assert describe_key(key, words, about).strip()


def test_what_permits_decides():
    """A key that lets something pass belongs to the request on show."""
    assert {key.action for key in KEYMAP if key.permits} == {"approve", "edit", "grant", "alike"}
    assert all(key.decides and key.permits <= key.subjects for key in KEYMAP if key.permits)


def test_blocking_and_stopping_are_there_for_everything():
    """Whatever a server asks, it can be refused with all of its call, or of its server."""
    for action in ("approve", "deny", "reason", "stop", "block"):
        assert key_for(action, "inline").subjects == set(get_args(Subject))
    with pytest.raises(KeyError):
        key_for("language", "page")


@pytest.mark.parametrize(
    ("item", "kind", "keys"),
    [
        (sampling(), "request", "aedrwgAsb"),
        (sampling(models=("a", "b")), "request", "aedrwgAsbm"),
        (sampling(origin=origin(call=None)), "request", "aedrwgAb"),
        (sampling(choices=frozenset({"deny", "answer"})), "request", "drwsb"),
        (
            sampling(result=RESULT, models=("b",), choices=frozenset({"approve", "deny", "answer", "regenerate"})),
            "response",
            "aedrwtsbm",
        ),
        (ElicitItem(origin=origin(), params=FORM), "elicitation", "adrsbc"),
        (ElicitItem(origin=origin(), params=ElicitRequestParams.visit("x", "https://a")), "elicitation", "adrsbco"),
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
def test_keys_are_what_can_be_chosen(item, kind: str, keys: str):
    """No more, and no less; once it is over, none."""
    assert "".join(key.keys[0] for key in list_offered_keys(shown(item, kind), "page")) == keys
    assert list_offered_keys(shown(item, kind, "withdrawn"), "page") == []


def test_what_a_says_depends_on_what_it_does():
    """Approve, send, fill in, or accept."""
    items = (
        (sampling(), "request"),
        (sampling(result=RESULT, choices=frozenset({"approve"})), "response"),
        (ElicitItem(origin=origin(), params=FORM), "elicitation"),
        (ElicitItem(origin=origin(), params=ElicitRequestParams.visit("x", "https://a")), "elicitation"),
    )
    key = key_for("approve", "page")
    labels = [label_key(key, load_texts("en"), find_subject(shown(item, kind))) for item, kind in items]
    assert labels == ["Approve", "Send this answer", "Fill in", "Accept"]


def test_keys_are_printed_as_on_keyboards():
    """A browser's names are for programs."""
    assert [print_key_name(name) for name in ("a", "Control+Enter", "Escape", "ArrowDown")] == [
        "a",
        "Ctrl+Enter",
        "Esc",
        "↓",
    ]


def test_the_docs_list_these_keys():
    """In this order, with these words: the table of the how-to page is this one."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "review-and-audit.md").read_text(encoding="utf-8")
    for row in rows_of_docs():
        assert f"{row}\n" in page
    assert page.count("\n| `") >= len(rows_of_docs())


def rows_of_docs() -> list[str]:
    """Write the keymap as rows of a table."""
    words, surfaces = load_texts("en"), get_args(Surface)
    rows: dict[str, str] = {}
    for key in KEYMAP:
        on = [surface for surface in surfaces if any(each.action == key.action for each in keys_on(surface))]
        where = "" if len(on) == len(surfaces) else ", ".join(on)
        names = " ".join(f"`{print_key_name(name)}`" for name in key.keys)
        rows.setdefault(key.action, f"| {names} | {describe_key(key, words)} | {where} |".replace("  |", " |"))
    return list(rows.values())
