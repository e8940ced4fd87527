"""The rows of the queue: computed once, and sent when they have changed."""

from __future__ import annotations

import msgspec

from antiphon.host.review.summary import arrange_rows
from antiphon.web.queue_rows import QueueRows, Sifting, group_changes
from tests.host.review.questions import question

ONE, TWO, THREE = (question(id=id, identity=server) for id, server in (("1", "g"), ("2", "g"), ("3", "h")))


def rows(*questions) -> QueueRows:
    """Make a list that has just been looked at."""
    made = QueueRows()
    made.update(questions)
    return made


def test_only_what_has_changed_since_is_named():
    """A row that is new, one that is gone, one that is another: and the groups they are or were in."""
    made = rows(ONE, TWO)
    first = made.version
    made.update([ONE, TWO, THREE])
    changed = made.since(first)
    assert (changed.rows, changed.groups) == ({"3"}, {"h"})
    second = made.version
    made.update([msgspec.structs.replace(ONE, hash="other"), THREE])
    changed = made.since(second)
    assert (changed.rows, changed.groups) == ({"1", "2"}, {"g"})
    both = made.since(first)
    assert (both.rows, both.groups) == ({"1", "2", "3"}, {"g", "h"})


def test_a_row_that_goes_to_another_group_changes_both():
    """Each server is one group, whichever calls its questions belong to."""
    made = rows(ONE, TWO)
    before = made.version
    made.update([msgspec.structs.replace(ONE, identity="h"), TWO])
    assert made.since(before).groups == {"g", "h"}


def test_what_is_as_it_was_is_no_change():
    """Neither the same question, nor one of which nothing in the list is another."""
    made = rows(ONE, TWO)
    before = made.version
    made.update([ONE, TWO])
    made.update([msgspec.structs.replace(ONE, by="ada"), TWO])
    assert made.version == before
    assert made.since(before).rows == frozenset()


def test_that_nobody_waits_any_more_is_a_change():
    """The process that asked has been killed: its row is another then."""
    made = rows(ONE, TWO)
    before = made.version
    made.update([msgspec.structs.replace(ONE, waited_for=False), TWO])
    assert made.since(before).rows == {"1"}


def test_what_is_not_known_any_more_has_to_be_fetched_whole():
    """Another process's version, one of long ago, more rows than one by one are worth, and what is none."""
    made = rows(ONE)
    old = made.version
    for turn in range(300):
        made.update([msgspec.structs.replace(ONE, hash=str(turn))])
    assert made.since(old) is None
    assert made.since(rows(ONE).version) is None
    for other in ("", "x", f"{made.version}0", f"{made.version}x", made.version.replace("-", "-\u0663"), "-1"):
        assert made.since(other) is None
    before = made.version
    made.update([question(id=str(at)) for at in range(200)])
    assert made.since(before) is None


def test_a_group_is_sent_with_the_one_it_stands_before():
    """So that it is put in its place, whatever the order; one without a row left is named alone."""
    made = rows(ONE, THREE)
    before = made.version
    made.update([ONE, TWO, THREE])
    groups = arrange_rows(made.groups(), "time", "")
    changes = list(group_changes(groups, made.since(before)))
    assert [(each.key, each.before, [row.id for row in each.group.rows]) for each in changes] == [
        ("g", "h", ["1", "2"])
    ]
    before = made.version
    made.update([ONE, TWO])
    changes = list(group_changes(arrange_rows(made.groups(), "time", ""), made.since(before)))
    assert [(each.key, each.group) for each in changes] == [("h", None)]


def test_how_the_list_is_sifted_is_read_from_an_address_and_written_into_one():
    """An order that there is not is the usual one, and what is as usual needs no words."""
    assert Sifting.of({"wanted": "  ", "order": "none"}).query == ""
    sifting = Sifting.of({"wanted": " a coat & hat ", "order": "cost"})
    assert sifting.query == "?wanted=a+coat+%26+hat&order=cost"
    assert len(Sifting.of({"wanted": "x" * 1_000}).wanted) == 200
