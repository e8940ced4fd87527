"""The record of decisions: listed, searched, opened, exported."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import InvalidParams, Rejected
from antiphon.host import Edit, MemoryStore, Queue, Scripted, digest
from antiphon.host.audit import check_lines
from antiphon.host.store import open_store
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record
from antiphon.server.state import request_state
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin, request
from tests.web.hostile import HOSTILE
from tests.web.pages import Desk, desk

FORM = ElicitRequestParams.form("Which size?", {"properties": {"size": {"type": "string"}}})


async def decided(page: Desk) -> None:
    """Approve one request and deny another."""
    first, answered = await page.asked(text="First")
    await page.post(f"/review/{first.id}/approve", {"digest": digest(first.item.params)})
    await answered
    second, refused = await page.asked(text="Second")
    await page.post(f"/review/{second.id}/deny", {})
    with pytest.raises(Rejected):
        await refused


def rows(shown: str) -> list[str]:
    """Return the text of each row of a list, without its marks."""
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in shown.split("<tr>")[2:]]


async def listed(page: Desk, query: str = "") -> list[str]:
    """Return the rows of a view."""
    return rows((await page.get(f"/history{query}")).text)


async def opened(page: Desk, query: str = "") -> str:
    """Open the first ask of a view."""
    found = re.search(r'href="(/history/\d+)"', (await page.get(f"/history{query}")).text)
    assert found
    return (await page.get(found[1])).text


async def test_a_row_says_who_asked_what_was_decided_and_how_it_ended():
    """The latest first: server, tool, decision, by whom, outcome, cost."""
    async with desk() as page:
        await decided(page)
        refused, answered = await listed(page)
        assert re.search(r"python catalogue\.py completion · describe not kept denied by page 1 refused", refused)
        assert re.search(r"not kept approved by page 1 answered \$0\.00 \d+ tokens · scripted", answered)


async def test_without_contents_the_page_says_how_they_are_kept_and_shows_what_waits():
    """What still waits is there, and leads to the question; it is never said not to be kept."""
    async with desk() as page:
        await decided(page)
        question, _ = await page.asked(text="Still waiting")
        shown = (await page.get("/history")).text
        assert "keep_content = true" in shown
        assert "Anyone who can read the store can then read it" in shown
        assert "Still waiting" in rows(shown)[0]
        assert "not kept" not in rows(shown)[0]
        assert f'href="/review/{question.id}"' in await opened(page)


async def test_first_words_are_shown_where_content_is_kept():
    """And nowhere else."""
    async with desk(keep_content=True) as page:
        await decided(page)
        assert "Second denied" in (await listed(page))[0]


async def test_forms_and_calls_of_tools_are_recorded_like_requests():
    """Each with its own words."""
    async with desk() as page:
        asked = asyncio.ensure_future(page.host.elicit(FORM, origin("7")))
        form = await page.arrived(set())
        await page.post(f"/review/{form.id}/fill", {"action": "decline"})
        await asked
        called = asyncio.ensure_future(
            page.host.confirm(CallToolRequestParams(name="order", arguments={}), origin("8"))
        )
        tool = await page.arrived({form.id})
        await page.post(f"/review/{tool.id}/approve", {"digest": digest(tool.item.params)})
        await called
        confirmed, declined = await listed(page)
        assert "tool call" in confirmed
        assert "approved by page 1" in confirmed
        assert "form" in declined
        assert "declined" in declined
        assert await listed(page, "?kind=elicitation/create") == [declined]


async def test_what_waits_is_open_and_its_end_follows():
    """A record that came in two pieces is one row."""
    async with desk() as page:
        question, task = await page.asked()
        [waiting] = await listed(page)
        assert "open" in waiting
        await page.post(f"/review/{question.id}/deny", {})
        with pytest.raises(Rejected):
            await task
        assert "refused" in (await listed(page))[0]


async def handed_in(page: Desk, *, gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approve what a real server asks of a real client; ``gone``: when the server knows the call no longer."""
    async with Client(describing(), sampling=page.host, revision="2026-07-28") as client:
        called = asyncio.create_task(client.call_tool("describe"))
        question = await page.arrived(set())
        if gone:
            # All that the server has sealed is too old from here on.
            monkeypatch.setattr(request_state, "SKEW", -1e9)
        await page.post(f"/review/{question.id}/approve", {"digest": digest(question.item.params)})
        with pytest.raises(InvalidParams) if gone else nullcontext():
            await called
    # A client that has closed has told its host of every answer.


def describing() -> Server:
    """Make a server whose tool asks a model."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe a product."""
        return (await ctx.sample("Describe a hat")).text

    return server


@pytest.mark.parametrize(
    ("gone", "language", "said"),
    [
        (False, "en", "answered handed over"),
        (True, "en", "withdrawn too late: the server no longer knew the call"),
        (True, "zh", "太晚了：所属的调用已结束"),
    ],
)
async def test_an_answer_says_what_became_of_it(gone: bool, language: str, said: str, monkeypatch: pytest.MonkeyPatch):
    """In the list and where the ask is opened: handed over, or too late and why."""
    async with desk() as page:
        await page.post("/settings", {"language": language, "theme": "auto"})
        await handed_in(page, gone=gone, monkeypatch=monkeypatch)
        [row] = await listed(page)
        assert said in row
        assert said in " ".join(re.sub(r"<[^>]*>", " ", await opened(page)).split())


async def test_all_words_that_are_sought_are_found():
    """In any part of a row, whatever case; what somebody types is text."""
    async with desk() as page:
        await decided(page)
        assert len(await listed(page, "?q=APPROVE+page")) == 1
        assert len(await listed(page, "?q=catalogue.py")) == 2
        for nothing in ("approve+nobody", "%3Cscript%3E", "%25", "%00"):
            shown = (await page.get(f"/history?q={nothing}")).text
            assert ("Nothing found" in shown) == (nothing != "%00")
            assert "<script>" not in shown


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?ending=refused", 1),
        ("?ending=nonsense&kind=nonsense&since=never&until=3&before=x", 2),
        ("?kind=tools/call", 0),
        ("?since=2000-01-01&until=2090-01-01", 2),
        ("?until=2000-01-01", 0),
        ("?since=2090-01-01", 0),
        (f"?server={origin().identity}", 2),
        ("?server=command:other", 0),
        ("?before=1", 0),
    ],
)
async def test_the_list_can_be_narrowed(query: str, found: int):
    """By kind, outcome, time and server; what makes no sense excludes nothing."""
    async with desk() as page:
        await decided(page)
        assert len(await listed(page, query)) == found


async def test_a_long_list_has_pages():
    """Each leads to the next, with what is sought; none is left out, none comes twice."""
    store = MemoryStore()
    for number in range(120):
        record = Record(at=float(number), ask=str(number), identity="command:x", method="tools/call", step="received")
        await store.commit(Change(records=(record,)))
    async with desk(store=store) as page:
        seen: list[str] = []
        path: str | None = "/history?kind=tools/call"
        while path is not None:
            shown = (await page.get(path)).text
            seen += re.findall(r'href="/history/(\d+)"', shown)
            following = re.search(r'href="([^"]+)" data-go rel="next"', shown)
            path = following[1].replace("&amp;", "&") if following else None
            assert path is None or "kind=tools" in path
        assert seen == [str(number) for number in range(120, 0, -1)]


async def test_an_ask_opens_into_its_steps():
    """At an address of its own: every step in order; what was not kept is said to be so."""
    async with desk() as page:
        await decided(page)
        shown = await opened(page, "?ending=answered")
        assert "The contents were not kept" in shown
        steps = [re.sub(r"<[^>]*>", " ", row) for row in shown.split("<tr>")[2:]]
        words = ["received", "checked against your rules", "decided:", "sent to", "answered", "charged:"]
        assert [word for word, step in zip(words, steps, strict=True) if word in step] == words
        assert (await page.get("/history/99999")).status_code == 404


async def test_no_number_in_an_address_is_too_large_for_a_store(tmp_path: Path):
    """A database takes 64 bits; what is beyond them is the number of no record."""
    async with desk(store=open_store(tmp_path / "host.db"), asks=True) as page:
        for path in ("", "/text/request/0-0", "/again"):
            assert (await page.get(f"/history/{2**63}{path}")).status_code == 404


async def test_what_was_kept_is_shown_with_what_was_changed():
    """The request as it was sent, its difference to what the server asked, and the answer."""
    store = MemoryStore(keep_content=True)
    async with desk(store=store, keep_content=True, provider=Scripted(["Wool it is"])) as page:
        question, task = await page.asked(text="Describe a sweater", max_tokens=100)
        edited = request("Describe a scarf", max_tokens=50)
        await Queue(store).decide(question.id, Edit(params=edited, digest=digest(edited)), hash=question.hash)
        await task
        shown = await opened(page)
        for text in ("Describe a scarf", "Describe a sweater", "removed:", "Wool it is", "approved with changes"):
            assert text in shown
        assert "not kept" not in shown
        assert len(await listed(page, "?q=wool")) == 1


async def test_a_form_that_was_kept_is_shown_with_what_was_filled_in():
    """As JSON, as it was sent."""
    async with desk(keep_content=True) as page:
        asked = asyncio.ensure_future(page.host.elicit(FORM, origin("7")))
        form = await page.arrived(set())
        await page.post(f"/review/{form.id}/fill", {"action": "accept", "value-size": "XL", "size": "XL"})
        await asked
        shown = await opened(page)
        assert "Which size?" in shown
        assert "&#34;accept&#34;" in shown


@pytest.mark.parametrize("text", HOSTILE[:12])
async def test_what_a_server_wrote_is_text(text: str):
    """In the row, and where it is opened."""
    async with desk(keep_content=True) as page:
        question, task = await page.asked(text=text)
        await page.post(f"/review/{question.id}/approve", {"digest": digest(question.item.params)})
        await task
        for shown in ((await page.get("/history")).text, await opened(page)):
            assert text not in shown
            assert text in html.unescape(shown)


async def test_a_record_that_cannot_be_read_hides_no_other():
    """The rest is listed, and opened."""
    store = MemoryStore()
    async with desk(store=store) as page:
        await decided(page)
        store._entries[0] = type(store._entries[0])(seq=1, body="{", hash="")
        await store.commit(Change(records=(Record(at=1.0, ask="9", identity="c", method="m", step="invalid"),)))
        assert len(await listed(page)) == 3


async def test_a_store_that_cannot_be_written_shows_what_it_has(caplog: pytest.LogCaptureFixture):
    """And how much is missing."""

    class Full(MemoryStore):
        async def gather(self, limit: int = 2000) -> int:
            raise OSError("no space left")

    async with desk(store=Full()) as page:
        await decided(page)
        shown = (await page.get("/history")).text
        assert "records are still being read" in shown
        assert "could not be brought up to date" in caplog.text


async def test_the_record_is_exported_whole():
    """As JSON Lines that can be checked, and as a table; nothing else has a name there."""
    async with desk() as page:
        await decided(page)
        lines = await page.get("/history/audit.jsonl")
        head, fault = check_lines(lines.text.splitlines(keepends=True))
        assert (fault, head.seq) == (None, (await page.store.head()).seq)
        assert lines.headers["Content-Disposition"] == 'attachment; filename="audit.jsonl"'
        table = list(csv.reader(io.StringIO((await page.get("/history/audit.csv")).text)))
        assert len(table) == head.seq + 1
        assert (await page.get("/history/passwd")).status_code == 404


async def test_a_long_record_is_exported_in_pieces():
    """With one heading, and nothing left out where one piece ends."""
    store = MemoryStore()
    record = Record(at=1.0, ask="1", identity="command:x", method="tools/call", step="received")
    await store.commit(Change(records=(record,) * 1_234))
    async with desk(store=store) as page:
        table = list(csv.reader(io.StringIO((await page.get("/history/audit.csv")).text)))
        assert [row[0] for row in table] == ["seq", *map(str, range(1, 1_235))]
        head, fault = check_lines((await page.get("/history/audit.jsonl")).text.splitlines(keepends=True))
        assert (head.seq, fault) == (1_234, None)


async def test_what_is_found_is_exported():
    """With the filters of the list: the records of these asks, and no others."""
    async with desk() as page:
        for number, server in ((1, "one.py"), (2, "two.py")):
            question, task = await page.asked(who=origin(str(number), command=["python", server]))
            await page.post(f"/review/{question.id}/approve", {"digest": digest(question.item.params)})
            await task
        listed = (await page.get(f"/history?server={question.identity}")).text
        assert f"/history/audit.jsonl?server={question.identity.replace(':', '%3A')}" in listed
        found = (await page.get(f"/history/audit.jsonl?server={question.identity}")).text.splitlines()
        assert {json.loads(line)["record"]["identity"] for line in found} == {question.identity}
        assert len((await page.get("/history/audit.jsonl")).text.splitlines()) == 2 * len(found)
        assert (await page.get("/history/audit.csv?day=yesterday")).text == ""


async def test_a_server_has_a_page_of_its_own():
    """Cost, rules, history; it is blocked and unblocked there, which withdraws what waits."""
    async with desk() as page:
        first, answered = await page.asked()
        await page.post(f"/review/{first.id}/approve", {"digest": digest(first.item.params)})
        await answered
        _, waits = await page.asked(text="Another")
        path = f"/servers/{first.identity}"
        shown = (await page.get(path)).text
        assert "catalogue.py" in shown
        assert "Block the server, and refuse 1 that wait" in shown
        assert (await page.post("/servers/block", {"identity": first.identity})).status_code == 200
        with pytest.raises(Rejected):
            await waits
        assert "Unblock" in (await page.get(path)).text
        assert (await page.post("/servers/block", {"identity": "command:no"})).status_code == 404
        assert (await page.get("/servers/command:no")).status_code == 404
