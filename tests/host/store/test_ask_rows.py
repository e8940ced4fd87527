"""What became of an ask, as its records say."""

from __future__ import annotations

import json

import pytest

from antiphon.host.store.ask_rows import MAX_TRAIL, AskRow, NumberedRecord, Sought, decode_records, gather_rows
from antiphon.host.store.chain import Entry, Head, Record, extend_chain

SAMPLING = "sampling/createMessage"


def record(step: str, outcome: str = "", **more) -> Record:
    """Make a record of one ask."""
    more.setdefault("ask", "1")
    more.setdefault("at", 5.0)
    return Record(identity="command:x", method=SAMPLING, step=step, outcome=outcome, host="h", **more)


def gathered(*records: Record) -> list[AskRow]:
    """Gather records that follow one another."""
    asks = {}
    gather_rows(asks, [NumberedRecord(seq, each) for seq, each in enumerate(records, 1)])
    return list(asks.values())


def test_a_row_says_what_was_decided_by_whom_and_how_it_ended():
    """Of all the records of an ask together."""
    [row] = gathered(
        record("received", server="python shop.py", tool="describe"),
        record("policy", "ask"),
        record("review", "approve", by="Ada"),
        record("settled", "used", model="small", input_tokens=10, output_tokens=5, money=7),
        record("settled", "used", model="small", input_tokens=1, output_tokens=1, money=2),
        record("answered"),
    )
    assert (row.server, row.tool, row.decision, row.by) == ("python shop.py", "describe", "approve", "Ada")
    assert (row.ending, row.model, row.money, row.tokens, row.trail) == ("answered", "small", 9, 17, [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("records", "decision"),
    [
        ([record("policy", "allow")], "policy"),
        ([record("policy", "deny")], "policy"),
        ([record("policy", "ask"), record("grant", grant="g")], "grant"),
        ([record("policy", "ask"), record("review", "deny:server")], "deny:server"),
        ([record("policy", "ask")], ""),
    ],
)
def test_who_decides_without_a_person_is_said_as_well(records: list[Record], decision: str):
    """A rule, or a grant; nobody yet."""
    assert gathered(*records)[0].decision == decision


def test_the_reason_a_person_gave_is_told_and_searched():
    """In the person's words."""
    [row] = gathered(record("review", "deny", by="Ada", reason="Too DEAR"), record("refused", "user"))
    assert row.reason == "Too DEAR"
    assert row in Sought(words=(("dear", ()),))


def test_an_ask_of_another_process_is_another():
    """Each counts its own."""
    rows = gathered(record("received"), Record(at=6.0, ask="1", identity="c", method=SAMPLING, step="received"))
    assert [row.seq for row in rows] == [1, 2]


def test_what_was_said_is_quoted_where_it_was_kept():
    """The newest message, of the first record that has it; the answer can be searched."""
    asked = {"messages": [{"role": "user", "content": {"type": "text", "text": f"Question {n}"}} for n in (1, 2)]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Blue WOOL"}], "model": "m"}
    [row] = gathered(record("policy", "ask", content=json.dumps(asked)), record("answered", content=json.dumps(answer)))
    assert row.words == "Question 2"
    assert row in Sought(words=(("wool", ()),))
    assert row not in Sought(words=(("question 1", ()),))
    [bare] = gathered(record("policy", "ask"))
    assert bare.words == ""


def test_what_was_said_is_quoted_within_bounds():
    """However long it was; and what cannot be read is left out."""
    content = json.dumps({"messages": [{"content": {"type": "text", "text": "a" * 1_000_000}}]})
    [row] = gathered(*[record("policy", "ask", content=content)] * 3, record("answered", content="{"))
    assert (len(row.words), len(row.quoted)) == (200, 4_000)


def test_a_tool_that_was_to_be_called_is_quoted_by_its_arguments():
    """And a form by its message."""
    [tool] = gathered(record("policy", "ask", content='{"name":"order","arguments":{"sku":7}}'))
    [form] = gathered(record("policy", "ask", content='{"message":"Which size?","requestedSchema":{}}'))
    assert (tool.words, form.words) == ('{"sku":7}', "Which size?")


def test_a_row_names_so_many_records_and_no_more():
    """A server that repeats one ask for ever makes no row that grows for ever."""
    [row] = gathered(*[record("received")] * (MAX_TRAIL + 5))
    assert len(row.trail) == MAX_TRAIL


def test_a_record_that_cannot_be_read_hides_no_other():
    """``verify`` is there to name it."""
    entries, _ = extend_chain(Head(), [record("received")] * 2)
    broken = [entries[0], Entry(seq=9, body="{", hash=""), entries[1]]
    assert [seq for seq, _ in decode_records(broken)] == [1, 2]


@pytest.mark.parametrize(
    ("sought", "found"),
    [
        (Sought(), True),
        (Sought(words=(("ada", ()), ("shop", ()))), True),
        (Sought(words=(("ada", ()), ("nobody", ()))), False),
        (Sought(words=(("notes", ("command:x",)),)), True),
        (Sought(identity="command:y"), False),
        (Sought(method="elicitation/create"), False),
        (Sought(ending="refused"), False),
        (Sought(ending="answered", method=SAMPLING), True),
        (Sought(since=6.0), False),
        (Sought(since=5.0, until=5.5), True),
        (Sought(until=5.0), False),
    ],
)
def test_what_is_sought_is_found(sought: Sought, found: bool):
    """All words, and whatever else is said."""
    [row] = gathered(
        record("received", server="python SHOP.py"), record("review", "approve", by="Ada"), record("answered")
    )
    assert (row in sought) is found


@pytest.mark.parametrize(
    ("step", "outcome", "arrival"),
    [
        ("answered", "handed-over", ("handed-over", "")),
        ("withdrawn", "late:closed", ("late", "closed")),
        ("withdrawn", "", None),
        ("answered", "accept", None),
        ("failed", "late:closed", None),
    ],
)
def test_a_row_says_what_became_of_the_answer(step: str, outcome: str, arrival: tuple[str, str] | None):
    """As far as the last record of the ask says it; that nobody waited for a decision says nothing of an answer."""
    [row] = gathered(record("received"), record("answered"), record(step, outcome))
    assert row.arrival == arrival
