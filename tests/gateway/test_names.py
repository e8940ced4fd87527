"""Names behind a gateway: stable, short enough, and nobody's but the server's they begin with."""

from __future__ import annotations

import pytest
from hypothesis import given as having
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.gateway.names import MAX_NAME, Given, exposed, server_names

ANY = st.text(min_size=1, max_size=80)
TOOL = st.text(alphabet="abc_-.", min_size=1, max_size=80)


def test_a_name_says_whose_it_is():
    """As people would write it."""
    assert server_names(["GitHub", "my files", "über"]) == {"GitHub": "GitHub", "my files": "my_files", "über": "ber"}
    assert exposed("github", "create_issue") == "github__create_issue"


@having(st.lists(ANY, min_size=2, max_size=6, unique=True), TOOL, TOOL)
def test_no_server_can_take_the_name_of_anothers_tool(names: list[str], one: str, other: str):
    """Whatever it calls itself and its tools: separators in them included."""
    words = server_names(names)
    first, second = words[names[0]], words[names[1]]
    assert first != second
    assert exposed(first, one) != exposed(second, other)
    assert exposed(first, one).startswith(f"{first}__")


@having(st.lists(ANY, min_size=1, max_size=6, unique=True), TOOL)
def test_a_name_is_short_and_stays_the_same(names: list[str], tool: str):
    """At most as long as a model's API takes together with the host's own prefix; the same in every run."""
    word = server_names(names)[names[0]]
    name = exposed(word, tool)
    assert len(name) <= MAX_NAME
    assert name == exposed(server_names(names)[names[0]], tool)
    assert name.isascii() or not tool.isascii()


def test_foreign_letters_are_replaced_and_told_apart():
    """So that no name can imitate another by letters that look alike."""
    assert len({exposed("s", "del\u0435te"), exposed("s", "del\u0430te"), exposed("s", "delete")}) == 3
    assert exposed("s", "del\u0435te").isascii()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Given(renamed={"a": {"x": "same"}, "b": {"y": "Same"}}), "x of a and y of b are both called 'Same'"),
        (Given(renamed={"a": {"x": "no spaces"}}), "x of a: 'no spaces' cannot be used"),
        (Given(prefixes={"a": "w", "b": "W"}), "a and b both have the prefix 'W'"),
        (Given(prefixes={"a": "a__b"}), "the prefix 'a__b' of a cannot be used"),
    ],
)
def test_a_name_by_hand_that_cannot_be_used_is_an_error(given: Given, message: str):
    """It names what was written, and both servers where two have it."""
    with pytest.raises(ConfigError, match=message):
        given.checked()


def test_what_was_cut_is_told_apart():
    """Two long names that begin alike."""
    assert exposed("s", "x" * 100 + "1") != exposed("s", "x" * 100 + "2")
