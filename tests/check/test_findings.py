"""Rules say all that a person needs; a piece of a message is bounded."""

from __future__ import annotations

import pytest

from antiphon.check.findings import MAX_SEEN, excerpt_of, find_rule, load_rules, name_place


def test_every_rule_says_all_that_a_person_needs():
    """Its title and its remedy are sentences; an error names the section."""
    rules = load_rules().values()
    assert len(rules) >= 100
    assert [one.id for one in rules if not (one.title.endswith(".") and one.why.endswith(".") and one.remedy)] == []
    assert [one.id for one in rules if one.level not in ("error", "advice")] == []
    assert [one.id for one in rules if one.level == "error" and not one.section] == []


def test_an_unknown_rule_is_an_error():
    """A misspelt id is noticed at once."""
    with pytest.raises(KeyError):
        find_rule("nothing.at-all")


def test_a_piece_of_a_message_is_one_bounded_line():
    """JSON, text and bytes; a long one is cut in its middle."""
    assert excerpt_of({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert excerpt_of(b"a\n\xff") == "a \ufffd"
    assert MAX_SEEN < len(excerpt_of("x" * 100_000)) + 10 < 2 * MAX_SEEN
    assert name_place("tools/list", "tools", 3, "add") == 'tools/list: tools[3] "add"'
