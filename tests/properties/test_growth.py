"""No scanner and no layout function takes more than a fixed time for each character, whatever the characters are.

Each is given a text of small pieces that are made to confuse it, and one eight times as long: that takes about eight
times as long where the work is linear, and sixty-four times where it goes with the square. What is counted is time of
the processor, the lower of several tries, with room for a busy machine: 24 times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidParams
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.checks.redact import find_secrets, make_masked_json, mask_content
from antiphon.host.checks.risk import assess_elicitation, assess_risks
from antiphon.host.checks.validate import validate_request
from antiphon.host.checks.visible import blank_runs, count_hidden, inert_line, make_inert, wrap_line
from antiphon.host.review.diff import compare_lines, format_json, make_editable, restore_edited_text
from antiphon.host.terminal.console import Layout
from antiphon.host.terminal.forms import from_form, to_form
from antiphon.json_schema.validator import MismatchError
from antiphon.server.asks.tool_loop import TypedAnswer
from antiphon.web.render import make_environment
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams
from tests.host.asks import origin, request

PIECES = [
    "eyJ", "-eyJ", "-eyJaaaaaaaa", "eyJaaaaaaaa.", "sk-", "AKIA", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----a",
    "bearer ", "basic aaaa", "a://b:", "a://", "aaaaaaaaaaaaaaaaaaaa", "password=", 'password = "', "?key=", "&sig=",
    "xoxb-", "hf_", "\u200d", "a\u200d", "\u200d\u200c", "\u2764\ufe0f", "\ufe0f\u200d", "\u0301",
    "a\u0301\u0301\u0301\u0301\u0301\u0301", "\U000e0041", "\u202e", "\x1b", "\u27e6U+", "\u27e6U+202E\u27e7", " ",
    "\n",
    " \n", "\t", "\u3000\n", "\r\n", "a ", "\u4dc0", "\u65e5\u672c", "\u05d0 ", "```\n", "```a", "{", "[", '"', "\\",
    "'''", '"""', "x\n", "1\n2\n1\n",
]  # fmt: skip

SMALL, LARGE = 2_000, 8
"""Characters of the shorter text, if it takes long enough to be measured; how many times longer the other is."""
MEASURABLE, MOST = 0.002, 64_000
"""Seconds, and characters above which a text that takes less is quick enough, however it grows."""


def forgiving(function: Callable[[str], object]) -> Callable[[str], object]:
    """Let a text be refused: that takes its time, too."""

    def run(text: str) -> object:
        try:
            return function(text)
        except (ValueError, MismatchError, InvalidParams):
            return None

    return run


def form(text: str) -> ElicitRequestParams:
    """Make a form of a text."""
    properties = {text[:5_000]: {"type": "string", "title": text, "enum": [text]}}
    return ElicitRequestParams.form(text, {"type": "object", "properties": properties})


def changed(text: str) -> CreateMessageRequestParams:
    """Ask with a text wherever one may stand."""
    return request(text, system_prompt=text, metadata={"a": text, text: [text]})


TEMPLATE = make_environment().from_string("{{ text }}{{ text|line }}{{ text|editable }}")
LINES = "x\ny\nx\nz\n"

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "find_secrets": find_secrets,
    "masked": lambda text: mask_content(changed(text)),
    "make_masked_json": lambda text: make_masked_json(changed(text)),
    "validate": lambda text: validate_request(changed(text)),
    "assess": lambda text: assess_risks(changed(text), origin()),
    "assess_elicitation": lambda text: assess_elicitation(form(text), origin()),
    "fields_of": lambda text: fields_of(form(text)),
    "inert": make_inert,
    "inert_line": inert_line,
    "hidden": count_hidden,
    "blank_runs": blank_runs,
    "editable": make_editable,
    "restore_edited_text": restore_edited_text,
    "pretty": lambda text: format_json({"a": text}),
    "compared": lambda text: compare_lines(text.split("\n"), text.replace("a", "b").split("\n")[::-1]),
    "compared words": lambda text: compare_lines(text.split("a"), text.split("e")),
    "wrap": lambda text: list(wrap_line(text, 80)),
    "quoted": lambda text: list(Layout(columns=40).quoted(text)),
    "labelled": lambda text: list(Layout(columns=40).labelled("a", text)),
    "to_form": lambda text: from_form(to_form(changed(text)), changed(text)),
    "typed answer": TypedAnswer(int).read,
    "page": lambda text: TEMPLATE.render(text=text),
}


def seconds(function: Callable[[str], object], text: str) -> float:
    """Measure the time of the processor."""
    start = time.process_time()
    function(text)
    return time.process_time() - start


def growth(function: Callable[[str], object], piece: str) -> float:
    """Measure how much longer a text takes that is eight times as long; 1 if either is too quick to be measured."""
    length = SMALL
    while (short := min(seconds(function, piece * (length // len(piece) + 1)) for _ in range(2))) < MEASURABLE:
        length *= 4
        if length > MOST:
            return 1.0
    return seconds(function, piece * (LARGE * length // len(piece) + 1)) / short


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_time_grows_with_the_length_and_no_faster(name: str):
    """With each of the pieces; what seems to grow faster is measured again."""
    function = forgiving(FUNCTIONS[name])
    steep = PIECES
    for _ in range(4):
        steep = [piece for piece in steep if growth(function, piece) > 3 * LARGE]
    assert steep == []


ALPHABET = st.text(
    st.sampled_from("eyJ.-_=:/@? \n\ta1A\"'\\`{[\u200d\ufe0f\u2764\u0301\u27e6\u3000"), min_size=1, max_size=8
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(piece=ALPHABET)
def test_no_other_piece_is_found_that_is_worse(piece: str):
    """Pieces nobody thought of, for the functions that look at every text."""
    functions: list[Any] = [find_secrets, make_inert, count_hidden, blank_runs]
    assert [each for each in functions if all(growth(each, piece) > 3 * LARGE for _ in range(4))] == []
