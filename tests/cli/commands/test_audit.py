"""``antiphon audit``: the record, read, checked and summed up by another process than the one that wrote it."""

from __future__ import annotations

import asyncio
import csv
import io
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from antiphon import Client, Context, Server
from antiphon.host import Approve, Host, ModelPrice, Queue, Scripted, digest
from antiphon.host.audit import check_lines
from antiphon.host.models.selection import Chosen
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.store import open_store
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record
from antiphon.wire.sampling import text_answer
from tests.cli.program import SHOP, Done, at_terminal, ended
from tests.host.asks import SERVER, origin, request

DAY = 86_400.0


def spent(at: float, dollars: float, *, server: str = "command:shop", model: str = "mini", **more) -> Record:
    """Make the record of a request that was paid for."""
    return Record(
        at=at,
        ask="1",
        identity=server,
        method="sampling/createMessage",
        step="settled",
        outcome="used",
        model=model,
        input_tokens=100,
        output_tokens=10,
        money=int(dollars * 1_000_000_000),
        **more,
    )


async def test_what_a_host_did_is_listed(tmp_path: Path, audit: Callable[..., Done]):
    """Step by step, the newest last, and all of one ask by the number of any of them."""
    store = open_store(tmp_path / "host.db")
    host = Host("echo", review="never", reviewer=None, store=store)
    await host(request(), origin("1"))
    await host(request(), origin("2"))
    await store.aclose()
    listed = audit("--json").objects
    assert [one["seq"] for one in listed] == list(range(1, len(listed) + 1))
    assert listed[0]["step"] == "received"
    assert {one["ask"] for one in listed} == {"1", "2"}
    assert {one["ask"] for one in audit("show", "1", "--json").objects} == {"1"}
    lines = [line.split("\t") for line in audit("list", "--step", "settled").out.splitlines()]
    assert [(line[4], line[6], line[8]) for line in lines] == [("1", "settled", "echo"), ("2", "settled", "echo")]
    assert {(line[2], line[3]) for line in lines} == {("python catalogue.py", "describe")}


async def approved(queue: Queue) -> None:
    """Approve the question that waits, as soon as one does."""
    async for _ in queue.changes():
        for question in await queue.pending():
            assert question.item is not None
            await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
            return


async def test_what_became_of_an_answer_is_said_with_its_ask(tmp_path: Path, audit: Callable[..., Done]):
    """Beside the records: handed over, or too late and why; nothing where nobody has said."""
    store = open_store(tmp_path / "host.db")
    queue = Queue(store)
    host = Host(Scripted(["Warm"] * 3), reviewer=queue, store=store)
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe a product."""
        return (await ctx.sample("Describe a hat")).text

    async with Client(server, sampling=host) as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await approved(queue)
        await called
    over = (await store.head()).seq
    asked = asyncio.create_task(host(request(), origin("gone")))
    await approved(queue)
    await asked
    await host.handed_over(origin("gone"), "closed")
    late = (await store.head()).seq
    asked = asyncio.create_task(host(request(), origin("untold")))
    await approved(queue)
    await asked
    untold = (await store.head()).seq
    await store.aclose()
    assert audit("show", str(over)).err == "Handed over to the server.\n"
    assert audit("show", str(late)).err == "Too late: it did not reach the server. The connection had closed.\n"
    assert audit("show", str(untold)).err == ""
    assert audit("show", str(late), "--json").err == ""


async def test_records_are_chosen(kept, audit: Callable[..., Done]):
    """By time, server, outcome, call, and how many."""
    now = datetime.now(UTC).timestamp()
    await kept(
        spent(now - 3 * DAY, 1), spent(now, 2, server="command:other"), spent(now, 3, call="7"), spent(now, 4, call="7")
    )

    def numbers(*words: str) -> list[int]:
        return [one["seq"] for one in audit(*words, "--json").objects]

    assert numbers("--since", "2d") == [2, 3, 4]
    assert numbers("--server", "command:") == [1, 2, 3, 4]
    assert numbers("--call", "7", "-n", "1") == [4]
    assert numbers("--outcome", "us") == [1, 2, 3, 4]
    assert numbers("--step", "refused") == []
    assert audit("--server", SHOP).out == ""


async def test_records_from_before_a_clock_was_set_back_are_found(kept, audit: Callable[..., Done]):
    """Later ones seem to be older; the search goes on behind them, though it reads the latest first."""
    now = datetime.now(UTC).timestamp()
    await kept(spent(now - 60, 1), *(spent(now - DAY / 2, 2) for _ in range(30)))
    assert [one["seq"] for one in audit("--since", "1h", "-n", "5", "--json").objects] == [1]


async def test_what_stands_in_a_record_is_inert(kept, audit: Callable[..., Done]):
    """The name of a model or a reviewer may be anything."""
    await kept(spent(1.0, 1, model="mini\x1b[2J\u202e", by="a\nb"))
    for words in ([], ["--json"], ["spend", "--by", "model"], ["show", "1"], ["export"]):
        done = audit(*words)
        assert done.code == 0
        assert not set("\x1b\x07") & set(done.out)
        assert len(done.out.splitlines()) == 1


async def test_verify_prints_head_and_count(kept, audit: Callable[..., Done]):
    """The head can be noted, and is known later."""
    await kept(spent(1.0, 1), spent(2.0, 1))
    done = audit("verify")
    assert done.code == 0
    assert done.out.startswith("2 records, and none was changed")
    head = done.out.split()[-1]
    assert head.startswith("2:")
    await kept(spent(3.0, 1))
    [proof] = audit("verify", "--known", head, "--json").objects
    assert (proof["whole"], proof["records"], proof["fault"]) == (True, 3, None)
    other = audit("verify", "--known", f"2:{'0' * 64}")
    assert (other.code, "the chain is another" in other.out) == (1, True)
    assert audit("verify", "--known", "12").code == 2


def tampered(path: Path, *statements: str) -> None:
    """Change a store behind its back."""
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE audit SET body = replace(body, '\"used\"', '\"Used\"') WHERE seq = 2", 2),
        ("UPDATE audit SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE seq = 3", 3),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 3", 3),
        ("UPDATE audit SET body = CAST(x'ff00' AS TEXT) WHERE seq = 2", 2),
        ("UPDATE audit SET seq = 9 WHERE seq = 2", 2),
    ],
)
async def test_verify_names_the_broken_record(statement: str, record: int, tmp_path: Path, audit: Callable[..., Done]):
    """Changed, left out, cut off or unreadable."""
    store = open_store(tmp_path / "host.db")
    await store.commit(Change(records=(spent(1.0, 1), spent(2.0, 1), spent(3.0, 1))))
    await store.aclose()
    tampered(tmp_path / "host.db", statement)
    [proof] = (done := audit("verify", "--json")).objects
    assert done.code == 1
    assert (proof["whole"], proof["fault"]["record"]) == (False, record)
    assert f"Broken at record {record}: " in audit("verify").out


async def test_verify_detects_a_changed_byte_of_the_file(tmp_path: Path, audit: Callable[..., Done]):
    """Wherever in a record it is: no byte of one can be changed unseen."""
    path = tmp_path / "host.db"
    store = open_store(path)
    await store.commit(Change(records=tuple(spent(float(at), 1, by="ada") for at in range(3))))
    await store.aclose()
    data = path.read_bytes()
    start = data.index(b'"by":"ada"')
    for at in (start, start + 7, start + 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        done = audit("verify")
        assert done.code == 1
        assert "record" in done.out + done.err
    path.write_bytes(data)
    assert audit("verify").code == 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE spent SET requests = requests - 1", "is not that of the records"),
        ("DELETE FROM spent", "is not that of the records"),
        (
            "UPDATE asks SET body = replace(body, '\"answered\"', '\"refused\"') WHERE ask = '1'",
            "otherwise than the records",
        ),
        ("DELETE FROM asks WHERE ask = '2'", "the history shows"),
    ],
)
async def test_verify_covers_what_people_see(statement: str, said: str, tmp_path: Path, audit: Callable[..., Done]):
    """The page and ``spend`` show tables that are made from the records, and may be changed alone."""
    store = open_store(tmp_path / "host.db")
    host = Host("echo", review="never", reviewer=None, store=store)
    for ask in ("1", "2"):
        await host(request(), origin(ask))
    while await store.gather():
        pass
    await host(request(), origin("not gathered yet"))
    await store.aclose()
    assert audit("verify").code == 0
    tampered(tmp_path / "host.db", statement)
    done = audit("verify")
    assert (done.code, said in done.out) == (1, True)


async def test_an_export_can_be_checked_again(kept, audit: Callable[..., Done], tmp_path: Path):
    """Line by line, without the store, and with a head that was noted."""
    await kept(spent(1.0, 1), spent(2.0, 1))
    lines = audit("export").out.splitlines(keepends=True)
    head, fault = check_lines(lines)
    assert (head.seq, fault) == (2, None)
    file = tmp_path / "out.jsonl"
    assert audit("export", "-o", str(file)).err == f"2 records in {file}\n"
    assert file.read_text(encoding="utf-8") == "".join(lines)
    assert file.stat().st_mode & 0o777 == 0o600
    known = f"1:{check_lines(lines[:1])[0].hash}"
    assert audit("verify", str(file), "--known", known).code == 0
    assert audit("verify", str(file), "--known", f"1:{'0' * 64}").code == 1
    file.write_text("".join(lines).replace("mini", "maxi", 1), encoding="utf-8")
    assert "Broken at record 1" in audit("verify", str(file)).out
    # Not 1, which says that a record was changed.
    assert audit("verify", str(tmp_path / "none")).code == 2


async def test_an_export_is_a_table(kept, audit: Callable[..., Done]):
    """One heading, however many records; no cell is a formula."""
    await kept(*(spent(float(at), 1) for at in range(1500)), spent(1.0, 1, by="=1+1"))
    rows = list(csv.DictReader(io.StringIO(audit("export", "--format", "csv").out)))
    assert (len(rows), rows[0]["seq"], rows[-1]["seq"], rows[-1]["by"]) == (1501, "1", "1501", "'=1+1")


async def test_spending_is_added_up(kept, audit: Callable[..., Done]):
    """By day, server or model; the dearest first."""
    await kept(
        spent(0.0, 0.5),
        spent(DAY, 0.25),
        spent(DAY, 1, server="command:other", model="max"),
        spent(DAY, 0, model="home"),
    )

    def rows(*words: str) -> list[tuple[str, str, str]]:
        lines = [line.split("\t") for line in audit("spend", *words).out.splitlines()]
        return [(line[0], line[1], line[-1]) for line in lines]

    assert rows() == [("1970-01-01", "1", "$0.50"), ("1970-01-02", "3", "$1.25")]
    assert rows("--by", "server") == [("command:other", "1", "$1.00"), ("command:shop", "3", "$0.75")]
    assert rows("--by", "model") == [("max", "1", "$1.00"), ("mini", "2", "$0.75"), ("home", "1", "$0.00")]
    assert rows("--since", "1970-01-02", "--by", "model")[1] == ("mini", "1", "$0.25")
    assert len(rows("--by", "all")) == 4
    lines = audit("spend", "--json").objects
    assert sum(Decimal(line["dollars"]) for line in lines) == Decimal("1.75")
    assert sum(line["money"] for line in lines) == 1_750_000_000


async def test_spending_is_drawn_at_a_terminal(kept, tmp_path: Path):
    """As bars beside the figures, the longest for the most, and a total."""
    await kept(spent(0.0, 1), spent(DAY, 0.5), spent(2 * DAY, 0.000001))
    child = at_terminal("audit", "spend", "--store", str(tmp_path / "host.db"), NO_COLOR="1")
    assert ended(child) == 0
    shown = child.before
    day, half, least, total = (line for line in shown.splitlines() if "$" in line)
    assert [line.count("█") for line in (day, half, least, total)] == [30, 15, 0, 0]
    assert "▏" in least
    assert "$1.51" in total


async def test_what_has_no_price_is_drawn_in_tokens(kept, tmp_path: Path):
    """So that a local model has bars as well."""
    await kept(spent(0.0, 0), spent(DAY, 0))
    child = at_terminal("audit", "spend", "--store", str(tmp_path / "host.db"))
    assert ended(child) == 0
    assert child.before.count("█") == 60
    assert "Bars are of tokens" in child.before


async def test_a_host_with_prices_is_summed_up(tmp_path: Path, audit: Callable[..., Done]):
    """From the request to the sum: what the provider said it took."""

    class Costly:
        name = "costly"
        tools = False
        personal = False

        async def complete(self, params, *, model=None):
            return (await self.generate(params)).result

        async def generate(self, params, *, model=None, fallbacks=()):
            usage = Usage(input_tokens=1000, output_tokens=100)
            return Completion(result=text_answer("dear", model="m"), usage=usage)

    price = ModelPrice(input=Decimal(3), output=Decimal(15))
    store = open_store(tmp_path / "host.db")
    chosen = Chosen(model="m", prices={"m": price})
    host = Host(Costly(), review="never", reviewer=None, store=store, choose=lambda *_: chosen)
    await host(request(), origin())
    await store.aclose()
    [line] = audit("spend", "--json").objects
    assert (line["model"], line["input_tokens"], line["output_tokens"], line["dollars"]) == ("m", 1000, 100, "0.0045")


async def test_a_configured_server_is_named(kept, audit: Callable[..., Done], tmp_path: Path):
    """By its command line, not by its hash."""
    from antiphon.identity import identity_of

    await kept(spent(0.0, 1, server=identity_of(SERVER)))
    file = tmp_path / "own.toml"
    file.write_text(f'[servers.shop]\ntarget = ["{SERVER[0]}", "{SERVER[1]}"]\n', encoding="utf-8")
    assert audit("spend", "--by", "server", "--config", str(file)).out.startswith("python catalogue.py\t")


def test_a_store_that_is_not_there_is_a_mistake(audit: Callable[..., Done], tmp_path: Path):
    """It is not made by looking for it."""
    done = audit("verify")
    assert (done.code, done.err) == (2, f"antiphon: {tmp_path / 'host.db'}: there is no such store\n")
    assert not (tmp_path / "host.db").exists()


def test_a_file_that_is_no_store_is_told(audit: Callable[..., Done], tmp_path: Path):
    """In one line."""
    (tmp_path / "host.db").write_text("This is a diary. " * 100, encoding="utf-8")
    done = audit("verify")
    assert done.code == 1
    assert "cannot be read: file is not a database" in done.err
    assert done.err.count("\n") == 1


async def test_records_at_a_terminal_fit_a_line(kept, tmp_path: Path):
    """Each on one, with what a person looks for."""
    await kept(spent(0.0, 0.0042, server=f"command:{'a' * 64}", by="ada"))
    child = at_terminal("audit", "--store", str(tmp_path / "host.db"), NO_COLOR="1")
    assert ended(child) == 0
    [line] = (line.split() for line in child.before.splitlines() if "settled" in line)
    assert line == ["1", "1970-01-01", "00:00:00", "command:aaaaaaaa", "1", "settled", "used", "mini", "$0.0042", "ada"]


async def test_a_server_and_its_tool_are_named_at_a_terminal(kept, tmp_path: Path):
    """By the end of a long command line, in each record of the ask."""
    named = {"identity": f"command:{'a' * 64}", "method": "sampling/createMessage", "host": "h"}
    program = f"python {'/folder' * 9}/catalogue.py"
    await kept(
        Record(at=0.0, ask="1", step="received", server=program, tool="describe", **named),
        Record(at=1.0, ask="1", step="policy", outcome="allow", **named),
        Record(at=2.0, ask="2", step="policy", outcome="deny", **named),
    )
    child = at_terminal("audit", "--store", str(tmp_path / "host.db"), NO_COLOR="1")
    assert ended(child) == 0
    lines = [line.split() for line in child.before.splitlines() if "allow" in line or "deny" in line]
    assert [line[3][-13:] for line in lines] == ["/catalogue.py"] * 2
    assert [line[4] for line in lines] == ["describe", "2"]


def cut_off(path: Path, after: int) -> None:
    """Cut off records that spent a token each, as somebody does who knows of all that stands beside them."""
    with sqlite3.connect(path) as database:
        [last] = database.execute("SELECT hash FROM audit WHERE seq = ?", (after,)).fetchone()
        database.execute("DELETE FROM audit WHERE seq > ?", (after,))
        database.execute("UPDATE audit_head SET seq = ?, hash = ?", (after, last))
        sums = ", ".join(f"{name} = {name} * {after} / requests" for name in ("input_tokens", "output_tokens", "money"))
        database.execute(f"UPDATE spent SET {sums}, requests = {after}")
    database.close()


async def test_records_that_were_cut_off_with_their_head_are_found(kept, tmp_path: Path, audit: Callable[..., Done]):
    """By what was noted elsewhere, in the store and in an export of it; without it nobody could tell."""
    anchors = tmp_path / "elsewhere" / "anchors.jsonl"
    anchors.parent.mkdir()
    await kept(*[spent(1.0, 1)] * 3)
    assert audit("anchor", str(anchors)).out.startswith("Noted: 3:")
    await kept(*[spent(1.0, 1)] * 2)
    assert audit("anchor", str(anchors)).out.startswith("Noted: 5:")
    assert anchors.stat().st_mode & 0o777 == 0o600
    assert audit("verify", "--anchors", str(anchors)).code == 0
    cut_off(tmp_path / "host.db", 4)
    assert audit("verify").code == 0
    done = audit("verify", "--anchors", str(anchors))
    assert (done.code, "Broken at record 5: the chain was cut off: record 5 was noted." in done.out) == (1, True)
    export = tmp_path / "export.jsonl"
    audit("export", "-o", str(export))
    assert audit("verify", str(export)).code == 0
    assert audit("verify", str(export), "--anchors", str(anchors)).code == 1


async def test_a_file_without_an_anchor_proves_nothing(kept, tmp_path: Path, audit: Callable[..., Done]):
    """Somebody may have emptied it together with the end of the record."""
    await kept(spent(0, 1))
    (tmp_path / "anchors").touch()
    done = audit("verify", "--anchors", str(tmp_path / "anchors"))
    assert done.code == 2
    assert "has no anchor in it" in done.err
    assert audit("anchor", str(tmp_path / "anchors")).code == 0


async def test_a_broken_record_is_not_noted(kept, tmp_path: Path, audit: Callable[..., Done]):
    """Else it would be taken as whole later; nor is one that goes not on from what was noted."""
    anchors = tmp_path / "anchors.jsonl"
    await kept(*[spent(1.0, 1)] * 3)
    audit("anchor", str(anchors))
    before = anchors.read_bytes()
    cut_off(tmp_path / "host.db", 2)
    await kept(*[spent(2.0, 1)] * 5)
    done = audit("anchor", str(anchors))
    assert (done.code, "Broken at record 3: it is not the record that was noted" in done.out) == (1, True)
    assert anchors.read_bytes() == before


@pytest.mark.parametrize("line", ["no anchor", '{"at":"now","head":"3"}', "{}"])
async def test_a_file_of_something_else_is_left_alone(line: str, kept, tmp_path: Path, audit: Callable[..., Done]):
    """It is named, with the line."""
    file = tmp_path / "notes.txt"
    file.write_text(f"{line}\n", encoding="utf-8")
    await kept(spent(1.0, 1))
    for words in (["anchor", str(file)], ["verify", "--anchors", str(file)]):
        done = audit(*words)
        assert (done.code, "line 1: not an anchor" in done.err) == (2, True)
    assert file.read_text(encoding="utf-8") == f"{line}\n"


async def test_an_anchor_goes_into_a_pipe(kept, audit: Callable[..., Done]):
    """As one line of JSON, which another program notes elsewhere."""
    await kept(spent(1.0, 1))
    done = audit("anchor", "--json")
    assert (done.code, [one["head"][:2] for one in done.objects]) == (0, ["1:"])


async def test_the_latest_are_listed_from_the_end(kept, audit: Callable[..., Done]):
    """Whether or not the rest is read for it."""
    await kept(*[spent(float(at), 1) for at in range(30)])
    assert [one["seq"] for one in audit("-n", "3", "--json").objects] == [28, 29, 30]
    assert [one["seq"] for one in audit("-n", "3", "--step", "settled", "--json").objects] == [28, 29, 30]
