"""Names behind a gateway: stable, short enough, and nobody's but the server's they begin with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.gateway.names import MAX_NAME, exposed, server_names

ANY = st.text(min_size=1, max_size=80)
TOOL = st.text(alphabet="abc_-.", min_size=1, max_size=80)


def test_a_name_says_whose_it_is():
    """As people would write it."""
    assert server_names(["GitHub", "my files", "über"]) == {"GitHub": "GitHub", "my files": "my_files", "über": "ber"}
    assert exposed("github", "create_issue") == "github__create_issue"


@given(st.lists(ANY, min_size=2, max_size=6, unique=True), TOOL, TOOL)
def test_no_server_can_take_the_name_of_anothers_tool(names: list[str], one: str, other: str):
    """Whatever it calls itself and its tools: separators in them included."""
    words = server_names(names)
    first, second = words[names[0]], words[names[1]]
    assert first != second
    assert exposed(first, one) != exposed(second, other)


@given(st.lists(ANY, min_size=1, max_size=6, unique=True), TOOL)
def test_a_name_is_short_and_stays_the_same(names: list[str], tool: str):
    """At most as long as a model's API takes together with the host's own prefix; the same in every run."""
    word = server_names(names)[names[0]]
    name = exposed(word, tool)
    assert len(name) <= MAX_NAME
    assert name == exposed(server_names(names)[names[0]], tool)
    assert name.isascii() or not tool.isascii()


def test_what_was_cut_is_told_apart():
    """Two long names that begin alike."""
    assert exposed("s", "x" * 100 + "1") != exposed("s", "x" * 100 + "2")
