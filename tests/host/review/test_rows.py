"""The queue as a list: groups, rows, their order, and what is left of it by a filter."""

from __future__ import annotations

from antiphon.host.review.rows import Group, arranged, groups_of
from antiphon.host.review.who import who_of
from antiphon.wire.content import ImageContent
from antiphon.wire.sampling import SamplingMessage
from tests.host.asks import origin, request, says
from tests.host.review.questions import question, waiting


def test_the_queue_is_in_groups():
    """The asks of one round together, in the order in which the rounds began."""
    groups = groups_of([question(id="1"), question(id="2", group="h"), question(id="3")])
    assert [[row.id for row in group.rows] for group in groups] == [["1", "3"], ["2"]]


def test_a_summary_is_one_line_of_what_is_new():
    """Short; a picture alone is named by its kind."""
    row = groups_of([question(request(messages=[says("x" * 500), says("Second")]))])[0].rows[0]
    assert row.summary == "x" * 120
    picture = SamplingMessage(role="user", content=ImageContent.of(b"a", "image/png"))
    assert groups_of([question(request(messages=[picture]))])[0].rows[0].summary == "image"


def test_rows_are_filtered_and_sorted():
    """By server, call or first words, whatever the case; by age, time left, risks or cost."""
    first, second = who_of(origin(command=["python", "a.py"])), who_of(origin(command=["python", "b.py"]))
    groups = [
        Group(who=first, rows=(waiting("old", 1.0, expires=60.0), waiting("new", 2.0, warnings=1))),
        Group(who=second, rows=(waiting("dear", 3.0, worst=9, expires=50.0),)),
    ]

    def ids(order, wanted=""):
        return [each.id for group in arranged(groups, order, wanted) for each in group.rows]

    assert ids("time") == ["old", "new", "dear"]
    assert ids("newest") == ["dear", "new", "old"]
    assert ids("expiry") == ["dear", "old", "new"]
    assert ids("risk") == ["new", "old", "dear"]
    assert ids("cost") == ["dear", "old", "new"]
    assert ids("time", "B.PY") == ["dear"]
    assert ids("time", "OF NEW") == ["new"]
    assert ids("time", "nothing") == []


def test_a_row_names_the_hash_that_its_decision_must_name():
    """So that what is decided in the list is what the list showed."""
    asked = question(hash="abc")
    assert groups_of([asked])[0].rows[0].hash == "abc"


def test_the_list_is_narrowed_to_a_kind_or_to_warnings():
    """Only prompts, only what warns; everything if nothing is named."""
    groups = groups_of([question(id="1"), question(id="2", result=None)])
    assert [row.id for group in arranged(groups, "time", "", "request") for row in group.rows] == ["1", "2"]
    assert arranged(groups, "time", "", "tool") == []
    assert arranged(groups, "time", "", "risk") == []
