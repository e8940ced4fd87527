"""The record of what happened."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from antiphon.host import Host, Scripted
from antiphon.host.audit import Audit, check_lines, csv_lines, day_of, json_lines
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Entry, Fault, Head, Record, extend_chain
from antiphon.host.store.memory_store import MemoryStore
from tests.host.asks import origin, request
from tests.host.store.stores import DURABLE, Place, record


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def change(place: Place, sql: str) -> None:
    """Write into a store behind its back."""
    from sqlalchemy import text

    runner = place.runner()
    await runner.run(lambda connection: connection.execute(text(sql)))
    await runner.aclose()


async def filled(place: Place) -> Head:
    """Make an audit of ten records. Returns its end."""
    async with place.open() as store:
        await store.commit(Change(records=(record(),) * 10))
        return await store.head()


async def fault(place: Place, known: Head | None = None) -> tuple[int, str]:
    """Check the chain. Returns the record that is named, and why."""
    async with place.open() as store:
        found = (await Audit(store).verify(known)).fault
        assert found is not None
        return found.seq, found.problem


def test_steps_are_at_hand_in_order_and_by_ask():
    """Oldest first; the steps of one ask can be picked out."""
    audit = Audit()
    audit.keep(audit.draft(origin("1"), "sampling/createMessage", "received"))
    audit.keep(audit.draft(origin("2"), "sampling/createMessage", "received"))
    audit.keep(audit.draft(origin("1"), "sampling/createMessage", "refused", "policy", "abc"))
    assert [record.step for record in audit.records("1")] == ["received", "refused"]
    last = audit.records()[-1]
    assert (last.identity, last.outcome, last.digest, last.call) == (origin().identity, "policy", "abc", "call-1")
    assert last.at > 1e9


def test_what_is_at_hand_is_bounded():
    """A server that asks for ever cannot fill the memory."""
    audit, asking = Audit(), origin()
    for _ in range(10_005):
        audit.keep(audit.draft(asking, "sampling/createMessage", "received"))
    assert len(audit.records()) == 10_000


async def test_a_chain_in_memory_may_begin_in_the_middle():
    """The oldest are dropped; what is left still proves itself."""
    store = MemoryStore()
    for _ in range(3):
        await store.commit(Change(records=(record(),) * 5_000))
    proof = await Audit(store).verify()
    assert (proof.whole, proof.head.seq, len(await store.entries(limit=20_000))) == (True, 15_000, 10_000)


async def test_a_whole_log_is_proven(place: Place):
    """And an end that was noted before is part of it."""
    noted = await filled(place)
    async with place.open() as store:
        await store.commit(Change(records=(record(),)))
        proof = await Audit(store).verify(noted)
        assert (proof.whole, proof.records, proof.head) == (True, 11, await store.head())


async def test_a_changed_record_is_named(place: Place):
    """In its body or in its hash."""
    await filled(place)
    await change(place, "UPDATE audit SET body = replace(body, 'command:x', 'command:y') WHERE seq = 4")
    assert await fault(place) == (4, "the record was changed: its hash is another")


async def test_any_byte_of_the_file_matters(tmp_path: Path):
    """Of every record, what it says and its hash: flipped in the file itself, whichever it is."""
    path = tmp_path / "host.db"
    place = Place("sqlite", tmp_path)
    place.path = path
    await filled(place)
    whole = path.read_bytes()
    async with place.open() as store:
        cells = [text.encode() for entry in await store.entries() for text in (entry.body, entry.hash)]
    for cell in cells[:6]:
        start = whole.index(cell)
        for at in (start, *range(start + 1, start + len(cell) - 1, 29), start + len(cell) - 1):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert (await fault(place))[0] <= 4
    path.write_bytes(whole)
    async with place.open() as store:
        assert (await Audit(store).verify()).whole


async def test_a_removed_record_is_named(place: Place):
    """In the middle; and at the beginning, which only a store in memory may drop."""
    await filled(place)
    await change(place, "DELETE FROM audit WHERE seq = 5")
    assert (await fault(place))[0] == 5
    await change(place, "DELETE FROM audit WHERE seq < 5")
    assert (await fault(place))[0] == 1


async def test_a_log_that_was_cut_off_is_found(place: Place):
    """By the end that is kept beside it."""
    await filled(place)
    await change(place, "DELETE FROM audit WHERE seq > 7")
    assert await fault(place) == (8, "the chain was cut off: there were 10 records")


async def test_an_end_that_was_changed_is_found(place: Place):
    """It is not the hash of the last record."""
    await filled(place)
    await change(place, "UPDATE audit_head SET hash = 'x'")
    assert (await fault(place))[0] == 10


async def test_a_new_chain_is_found_by_an_end_noted_elsewhere(place: Place):
    """Whoever can write the whole store can make another whole chain, but not the one that was noted."""
    noted = await filled(place)
    await change(place, "DELETE FROM audit")
    await change(place, f"UPDATE audit_head SET seq = 0, hash = '{'0' * 64}'")
    async with place.open() as store:
        await store.commit(Change(records=(record(outcome="forged"),) * 12))
        assert (await Audit(store).verify()).whole
    assert (await fault(place, noted))[0] == noted.seq


@pytest.mark.parametrize("sql", ["UPDATE spent SET money = money - 1", "DELETE FROM spent"])
async def test_a_changed_sum_of_spending_is_found(place: Place, sql: str):
    """Audit.verify computes the sums again from the records, and finds the one that differs."""
    async with place.open() as store:
        await store.commit(Change(records=(record("settled", model="m", input_tokens=1, money=7), record("answered"))))
        assert (await Audit(store).verify()).whole
    await change(place, sql)
    assert await fault(place) == (2, "the sum of 1970-01-01 for m is not that of the records")


async def test_spending_is_summed_up_by_day_server_and_model():
    """What was settled, and what was counted after a crash; not what was released."""
    store = MemoryStore()
    used = record("settled", model="m", input_tokens=10, output_tokens=5, money=7)
    counted = record("recovered", outcome="counted", input_tokens=3, output_tokens=0, money=2)
    released = record("recovered", outcome="released")
    later = msgspec.structs.replace(used, at=86_400.0 * 2)
    await store.commit(Change(records=(used, used, counted, released, later, record())))
    lines = await Audit(store).spending()
    assert [(line.day, line.model, line.requests, line.money) for line in lines] == [
        ("1970-01-01", "", 1, 2),
        ("1970-01-01", "m", 2, 14),
        ("1970-01-03", "m", 1, 7),
    ]
    assert (lines[1].input_tokens, lines[1].output_tokens) == (20, 10)


async def test_content_is_kept_only_if_asked_for():
    """By default not a word of it; with ``keep_content`` what was asked and what was answered."""
    for keep in (False, True):
        host = Host(Scripted(["SECRET ANSWER"]), reviewer=None, review="never", keep_content=keep)
        await host(request("SECRET PROMPT"), origin())
        written = "".join([entry.body async for entry in host.audit.entries()])
        assert ("SECRET PROMPT" in written, "SECRET ANSWER" in written) == (keep, keep)


def test_days_are_those_of_utc():
    """Wherever the machine is."""
    assert day_of(86_399.9) == "1970-01-01"


def entries(**more) -> tuple[list[Entry], Head]:
    """Make a chain of three records."""
    record = Record(at=0.5, ask="1", identity="command:x", method="sampling/createMessage", step="received", **more)
    return extend_chain(Head(), [record] * 3)


def test_lines_are_json_and_can_be_checked():
    """One object per record; the end is the same as in the store."""
    made, head = entries()
    lines = list(json_lines(made))
    assert json.loads(lines[0])["record"]["step"] == "received"
    assert check_lines(lines) == (head, None)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_any_changed_byte_of_a_line_is_found(at: int):
    """Whichever it is."""
    lines = list(json_lines(entries()[0]))
    for place in range(len(lines[at]) - 1):
        changed = f"{lines[at][:place]}{chr(ord(lines[at][place]) ^ 1)}{lines[at][place + 1 :]}"
        _, fault = check_lines([*lines[:at], changed, *lines[at + 1 :]])
        assert fault is not None, changed
        assert fault.seq == at + 1


@pytest.mark.parametrize("line", ["", "null", "9" * 5_000, '{"hash":"x","seq":%s}' % ("[" * 60_000 + "]" * 60_000)])
def test_a_line_that_is_no_record_is_found(line: str):
    """Whatever somebody has put into the file."""
    lines = list(json_lines(entries()[0]))
    _, fault = check_lines([lines[0], line, *lines[2:]])
    assert fault == Fault(seq=2, problem="the line cannot be read")


def test_a_line_that_is_missing_is_found():
    """In the middle; a file that was cut off has another end than the store."""
    lines = list(json_lines(entries()[0]))
    assert check_lines([lines[0], lines[2]])[1] is not None
    assert check_lines(lines[:2])[0].seq == 2


def test_a_table_has_a_row_for_each_record():
    """With the time in UTC."""
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(entries(money=5)[0])))))
    assert (rows[0]["seq"], rows[0]["at"], rows[0]["money"]) == ("1", "1970-01-01T00:00:00.500+00:00", "5")
    assert len(rows) == 3


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", '"=1', "\uff1d1"])
def test_no_cell_is_a_formula(cell: str):
    """A spreadsheet shows it as text."""
    [row, *_] = csv.DictReader(io.StringIO("".join(csv_lines(entries(by=cell)[0])), newline=""))
    assert row["by"] == f"'{cell}"


@pytest.mark.parametrize("separator", [";", ",", "|", "\t"])
@pytest.mark.parametrize("cell", ["a{}=1+1", "a{} @x", 'a{}"=1"', "a\n=1{}-2", "{}+1", "a\r\n{}=1"])
def test_no_cell_is_a_formula_wherever_it_is_split(cell: str, separator: str):
    """Spreadsheets of many countries split at another separator, and end rows within what was quoted for a comma."""
    text = "".join(csv_lines(entries(by=cell.format(separator))[0]))
    for split in (";", "|", "\t"):
        for line in text.splitlines():
            for part in line.split(split):
                assert not part.lstrip(" \"'").startswith(("=", "+", "-", "@")) or part.lstrip().startswith("'"), part


def test_a_table_holds_no_control_characters():
    """They are marked as everywhere a person reads them; a sheet, a terminal or a mail does not obey them."""
    [row, *_] = csv.DictReader(io.StringIO("".join(csv_lines(entries(by="a\x1b[2J\x00\n\u202eb")[0])), newline=""))
    assert row["by"] == "a⟦U+001B⟧[2J⟦U+0000⟧⟦U+000A⟧⟦U+202E⟧b"


def test_a_table_in_parts_has_one_heading():
    """As whoever writes page after page needs it."""
    made, _ = entries()
    assert list(csv_lines(made[:1])) + list(csv_lines(made[1:], heading=False)) == list(csv_lines(made))
