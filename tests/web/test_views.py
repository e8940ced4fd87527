"""What can be looked at, over real HTTP."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time

import pytest

from antiphon import Client
from antiphon.gateway import Gateway
from antiphon.host import Echo, MemoryStore, Policy, Rule
from antiphon.host.providers.base import Usage
from antiphon.host.review.history import find_tightest_budget
from antiphon.host.store.base import Balance
from antiphon.web.render import PIECE
from antiphon.web.site import HeadBudget
from antiphon.wire.content import AudioContent, ImageContent
from antiphon.wire.origin import OriginTask
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.client.test_remote_skill import BODY, URI, describe, entry_of
from tests.gateway.test_skills_behind import Sent
from tests.host.asks import origin, request, says
from tests.host.test_own_request import models
from tests.host.test_pipeline_money import Metered, choose
from tests.web.pages import Desk, desk

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + bytes([0, 0, 0, 1] * 2) + bytes(16)
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(24)

TEXT = re.compile(r"<pre[^>]*>\n(.*?)</pre>\s*(?:<p class=\"rest\"><a[^>]* href=\"([^\"]+)\")?", re.DOTALL)
WORDS = "".join(f"word {at} " for at in range(12_000))


async def test_the_queue_lists_what_waits():
    """With who asks and for which call; a part of it alone on demand."""
    async with desk() as page:
        assert "Nothing is waiting" in (await page.get("/")).text
        question, _ = await page.asked()
        shown = (await page.get("/")).text
        assert f'data-row="{question.id}"' in shown
        assert "python catalogue.py" in shown
        part = (await page.get("/", **{"X-Part": "queue"})).text
        assert part.lstrip().startswith('<section id="queue"')


async def test_a_question_is_shown_whole():
    """Who, what to look at, prompt, model, cost, raw JSON, and what can be done."""
    async with desk() as page:
        question, _ = await page.asked(system_prompt="Be brief", max_tokens=9_000)
        shown = (await page.get(f"/review/{question.id}")).text
        for text in ("Be brief", "Describe a sweater", "an answer of up to 9,000 tokens", "while it runs", "Raw JSON"):
            assert text in shown
        for action in ("approve", "deny", "answer"):
            assert f'action="/review/{question.id}/{action}"' in shown
        part = (await page.get(f"/review/{question.id}", **{"X-Part": "detail"})).text
        assert part.lstrip().startswith('<section id="detail"')


async def test_way_through_the_model_api_is_said():
    """That a server called a vendor's API itself, and that it is not known for which call of the person's."""
    async with desk() as page:
        question, _ = await page.asked(who=origin("api-1", call=None, door="model-api"))
        shown = (await page.get(f"/review/{question.id}")).text
        assert "through the model API" in shown
        assert "not part of any call of yours" in shown
        plain, _ = await page.asked(who=origin("2", command=["other.py"]))
        assert "through the model API" not in (await page.get(f"/review/{plain.id}")).text


async def test_the_task_that_asks_is_shown_with_its_age_and_what_it_has_cost():
    """In the request as facts, with the server's own words apart and inert; in the queue as a word."""
    async with desk() as page:
        task = OriginTask(name="t", ask="a", started=time.time() - 10_810, says="Chapter <b>2</b>")
        await page.store.task_so_far("t", "earlier")
        question, _ = await page.asked(who=origin(task=task))
        shown = (await page.get(f"/review/{question.id}")).text
        assert "task, started 3 h ago · 1 ask before this one · nothing spent so far" in shown
        assert 'the server says</span> <q class="theirs">Chapter &lt;b&gt;2&lt;/b&gt;</q>' in shown
        queue = (await page.get("/", **{"X-Part": "queue"})).text
        assert "describe, task, " in queue


async def test_what_the_host_changed_is_shown():
    """The wish for context that is dropped is in the difference."""
    async with desk() as page:
        question, _ = await page.asked(request(include_context="allServers"))
        shown = (await page.get(f"/review/{question.id}")).text
        assert "includeContext: allServers" in shown
        assert "wants context of other conversations" in shown


async def test_what_is_over_says_so():
    """A decided question has no buttons; one that never was is not found."""
    async with desk() as page:
        question, task = await page.asked()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        shown = (await page.get(f"/review/{question.id}")).text
        assert "Withdrawn:" in shown
        assert "/approve" not in shown
        for path in ("/review/none", "/review/none/edit", "/alike/none"):
            assert (await page.get(path)).status_code == 404


async def test_media_are_sent_as_what_they_are():
    """A picture and a sound, each with its type, in a sandbox."""
    async with desk(provider=Echo()) as page:
        content = [ImageContent.of(PNG, "image/png"), AudioContent.of(WAV, "audio/wav")]
        question, _ = await page.asked(messages=[SamplingMessage(role="user", content=content)])
        picture = await page.get(f"/review/{question.id}/request/0")
        sound = await page.get(f"/review/{question.id}/request/1")
        assert (picture.headers["Content-Type"], picture.content) == ("image/png", PNG)
        assert sound.headers["Content-Type"] == "audio/wav"
        assert "sandbox" in picture.headers["Content-Security-Policy"]
        for path in ("request/2", "answer/9"):
            assert (await page.get(f"/review/{question.id}/{path}")).status_code == 404


async def test_a_drawing_that_is_a_program_is_never_sent():
    """SVG, and a picture that is declared as another: refused, however they came into the store."""
    async with desk() as page:
        svg = ImageContent.of(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/svg+xml")
        lie = ImageContent.of(b"<svg/>", "image/png")
        params = request(messages=[SamplingMessage(role="user", content=[svg, lie])])
        question = await waiting(page, params)
        for number in (0, 1):
            refused = await page.get(f"/review/{question}/request/{number}")
            assert (refused.status_code, refused.content) == (415, b"")


async def waiting(page: Desk, params) -> str:
    """Put a request into the queue that no host would let through."""
    from antiphon.host import ReviewItem
    from tests.host.asks import CHOICES, origin

    item = ReviewItem(origin=origin(), params=params, received=params, provider="echo", choices=CHOICES)
    page.tasks.append(asyncio.create_task(page.queue.review(item)))
    return (await page.arrived(set())).id


async def test_the_stream_tells_of_every_change():
    """A number now, another one when something arrives; with how many wait."""
    async with desk() as page, page.client.stream("GET", "/live") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        told = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
        first = await anext(told)
        assert first["pending"] == 0
        await page.asked()
        # What the request reserves may be told before the request itself.
        while (second := await anext(told))["version"] == first["version"]:
            pass
        assert (second["pending"], second["version"] > first["version"]) == (1, True)


async def test_the_stream_tells_what_is_spent_without_a_question():
    """A host that asks its model by itself changes the budget of every open tab, and nothing else of the page."""
    provider = Metered(Usage(input_tokens=7, output_tokens=5))
    async with (
        desk(provider=provider, choose=choose) as page,
        page.client.stream("GET", "/live") as one,
        page.client.stream("GET", "/live") as other,
    ):
        tabs = [
            (json.loads(line[6:]) async for line in each.aiter_lines() if line.startswith("data: "))
            for each in (one, other)
        ]
        before = [await anext(told) for told in tabs]
        assert before[0]["budget"] is None
        await page.host.complete(request())
        for told, first in zip(tabs, before, strict=True):
            while (news := await anext(told))["budget"]["text"] != "$0.000000012 of $10.00 today":
                pass
            assert {**news, "budget": None} == first


async def test_all_tabs_of_a_page_read_its_budget_together():
    """However many are open: what one tab has read a moment ago serves the others."""
    store, reads = MemoryStore(), 0
    reading = store.balances_of

    async def count(keys: list[str]) -> list[Balance]:
        nonlocal reads
        reads += 1
        return await reading(keys)

    store.balances_of = count
    budget = HeadBudget(lambda: find_tightest_budget(store, 0.0))
    await asyncio.gather(*(budget.read(older=3600) for _ in range(50)))
    assert reads == 1
    await budget.read()
    assert reads == 2


async def test_asking_whether_one_may_listen_holds_no_connection():
    """A stream without a reader would never end, and a browser has six connections to a server."""
    async with asyncio.timeout(30), desk() as page:
        for _ in range(10):
            assert (await page.client.head("/live")).status_code == 200


async def test_requests_alike_are_shown_together():
    """Each whole, with the digest of what is shown."""
    async with desk() as page:
        one, _ = await page.asked(text="One")
        two, _ = await page.asked(text="Two")
        await page.asked(text="Three", system_prompt="Be rude")
        shown = (await page.get(f"/alike/{one.id}")).text
        assert shown.count('name="id"') == 2
        assert f'name="digest-{two.id}"' in shown
        assert "Three" not in shown


async def test_what_differs_between_requests_alike_is_shown_of_each():
    """Neither metadata nor temperature make two of them unlike, so both stand beside the box that is ticked."""
    async with desk() as page:
        one, _ = await page.asked(text="One", metadata={"user": "Ada"})
        await page.asked(text="Two", metadata={"user": "Bob"}, temperature=1.7)
        shown = (await page.get(f"/alike/{one.id}")).text
        boxes = shown.split('name="id"')[1:]
        assert ["Ada" in box for box in boxes] == [True, False]
        assert ["Bob" in box and ">1.7<" in box for box in boxes] == [False, True]


async def test_a_browser_that_comes_back_chooses_nothing_by_itself():
    """It would put back a model whose price is not on the button, and tick whatever row is now where another was."""
    async with desk(provider=models()) as page:
        question, _ = await page.asked()
        shown = (await page.get(f"/review/{question.id}")).text
        forms = re.findall(r"<form [^>]*>.*?</form>", shown, flags=re.DOTALL)
        chosen = [form for form in forms if "data-post" in form and re.search("<select|checkbox", form)]
        assert len(chosen) >= 4
        assert [form for form in chosen if 'autocomplete="off"' not in form.partition(">")[0]] == []


async def test_what_is_run_is_not_translated_by_the_browser():
    """The names in the sentence and the arguments are shown as they are sent, in whatever language they seem to be."""
    async with desk() as page:
        who = origin("t", tool=Tool(name="bestellen", input_schema={}, description="Bestellt etwas"))
        task = asyncio.create_task(page.host.confirm(CallToolRequestParams.of("bestellen", {"art": "Pullover"}), who))
        page.tasks.append(task)
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        kept = re.findall(r'<(?:b|div|pre)[^>]* translate="no"[^>]*>(.*?)</(?:b|div|pre)>', shown, flags=re.DOTALL)
        assert any("bestellen" in text for text in kept)
        assert any("Pullover" in text for text in kept)


async def test_the_queue_is_filtered_and_sorted_by_its_address():
    """As its form asks; the number of all that waits stays, and an order that there is not is the usual one."""
    async with desk() as page:
        hat, coat = [(await page.asked(text=text))[0].id for text in ("A hat", "A coat")]

        async def rows(query: str) -> list[str]:
            shown = (await page.get(f"/?{query}")).text
            assert 'data-pending="2"' in shown
            return re.findall(r'data-row="(\w+)"', shown)

        assert await rows("order=newest") == [coat, hat]
        assert await rows("order=nothing") == [hat, coat]
        assert await rows("wanted=COAT&order=time") == [coat]
        assert await rows("wanted=%3Cscript%3E") == []


async def test_a_changed_definition_is_shown_with_what_has_changed():
    """As text, between what is sent and what the server says of the tool now."""
    tool = Tool(name="order", description="Order", input_schema={})
    poisoned = Tool(name="order", description="Order <b>all</b>", input_schema={})
    async with desk(policy=Policy(rules=(Rule(effect="allow", kind="tool"),))) as page:
        call = CallToolRequestParams.of("order", {})
        await page.host.confirm(call, origin("1", tool=tool))
        page.tasks.append(asyncio.create_task(page.host.confirm(call, origin("2", tool=poisoned))))
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        assert "the server has changed the definition of this tool since it was allowed" in shown
        changes = shown.partition("What has changed since it was allowed")[2].partition("What the server says")[0]
        assert "&lt;b&gt;all&lt;/b&gt;" in changes


async def test_what_a_server_says_of_a_tool_stands_as_text():
    """Its words first, as a person reads them, with marks where they hide something; then the rest."""
    said = "Order.\nNow.\u200b" + "!" * 70_000
    tool = Tool(name="order", description=said, input_schema={"title": "Order form"})
    async with desk(policy=Policy(rules=(Rule(effect="ask", kind="tool"),))) as page:
        page.tasks.append(
            asyncio.create_task(page.host.confirm(CallToolRequestParams.of("order", {}), origin(tool=tool)))
        )
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text.partition("What the server says of the tool")[2]
        words, _, rest = shown.partition("What else its definition says")
        assert 'Order.\nNow.<mark class="risky">' in words
        assert f'href="/review/{question.id}/text/description?from=' in words
        assert "Order form" in rest.partition("</section>")[0]
        assert "!!!" not in rest.partition("</section>")[0]


async def test_only_what_imitates_other_words_is_marked_among_the_arguments_of_a_call():
    """The letters of a text or of a name; of a value in JSON the row; and nothing else of the table."""
    given = {"payee": "to p\u0430ypal now", "t\u043e": "bank", "note": "plain", "more": {"to": ["p\u0430ypal"]}}
    async with desk(policy=Policy(rules=(Rule(effect="ask", kind="tool"),))) as page:
        page.tasks.append(asyncio.create_task(page.host.confirm(CallToolRequestParams.of("pay", given), origin())))
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        table = shown.partition('<div class="args"')[2].partition("</table>")[0]
        rows = {re.sub("<[^>]*>", "", row.partition("</th>")[0])[:2]: row for row in table.split("<tr>")[1:]}
        assert 'to <mark class="risky">p\u0430ypal</mark> now' in rows["pa"]
        assert '<th scope="row"><mark class="risky">t\u043e</mark>' in rows["t\u043e"]
        assert {name for name, row in rows.items() if '<pre class="risky"' in row} == {"pa", "mo"}
        assert "risky" not in rows["no"]


async def test_a_read_of_a_skill_that_waits_shows_its_text():
    """Of a running gateway: the file, in a box of the server's, with marks; it is handed over once it is approved."""
    body = BODY + "Pay\u200b <b>first</b>.\n".encode()
    server = Sent("docs", entry_of(resources=[describe(URI, body)]), **{URI: body})
    async with (
        desk(policy=Policy(default="ask")) as page,
        Client(Gateway({"docs": server}, page.host).server) as client,
    ):
        skill = await client.skill("skill://docs/pdf/SKILL.md")
        assert server.reads == []
        reading = asyncio.create_task(skill.read())
        page.tasks.append(reading)
        question = await page.arrived(set())
        assert server.reads == [URI]
        shown = (await page.get(f"/review/{question.id}")).text
        text = shown.partition("What it would read, as the server sent it")[2].partition("</section>")[0]
        assert 'Pay<mark class="risky">' in text
        assert "&lt;b&gt;first&lt;/b&gt;" in text
        assert describe(URI, body).digest in shown
        assert "characters that cannot be seen" in shown
        assert "are not shown" not in text
        assert not reading.done()
        assert (await page.post(f"/review/{question.id}/approve", page.about(question))).status_code == 200
        assert await reading == body
    assert server.reads == [URI]


async def test_what_is_not_shown_of_a_file_is_said():
    """Of one that is no text, that is all of it."""
    data = b"\xff" * 1_234
    entry = entry_of(resources=[describe(URI, BODY), describe("skill://pdf/a", data)])
    server = Sent("docs", entry, **{"skill://pdf/a": data})
    async with (
        desk(policy=Policy(default="ask")) as page,
        Client(Gateway({"docs": server}, page.host).server) as client,
    ):
        skill = await client.skill("skill://docs/pdf/SKILL.md")
        page.tasks.append(asyncio.create_task(skill.read("a")))
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        assert "1,234 bytes of it are not shown." in shown
        assert (await page.get(f"/review/{question.id}/text/read")).status_code == 404


async def pieces(page, shown: str, link: str) -> str:
    """Read a text to its end, as its links lead."""
    read = ""
    while True:
        found = TEXT.search(shown)
        assert found
        read += html.unescape(found[1])
        if not found[2]:
            return read
        assert found[2].startswith(link)
        shown = (await page.get(html.unescape(found[2]))).text
        shown = shown[shown.index('id="piece"') :]


async def test_a_long_text_is_drawn_in_pieces_that_make_it_up():
    """Nothing is left out, nothing twice; the page itself has the first piece."""
    async with desk() as page:
        question, _ = await page.asked(messages=[says("Short"), says(WORDS)])
        shown = (await page.get(f"/review/{question.id}")).text
        assert "11999" not in shown
        second = shown[shown.index("Short</pre>") :]
        assert await pieces(page, second, f"/review/{question.id}/text/request-1-0") == WORDS


@pytest.mark.parametrize("key", ["system", "raw", "tools-0", "request-0-0"])
async def test_every_text_of_a_request_has_an_address(key: str):
    """And no other has: one that is not there, or a place behind its end."""
    from antiphon.wire.tools import Tool

    tool = Tool(name="t", input_schema={"type": "object"}, description=WORDS)
    async with desk() as page:
        question, _ = await page.asked(text=WORDS, system_prompt=WORDS, tools=[tool])
        at = f"/review/{question.id}/text/{key}"
        first = (await page.get(at)).text
        assert f"{at}?from={PIECE}" in first
        assert (await page.get(f"{at}?from={PIECE}")).status_code == 200
        for other in (f"{at}x", f"{at}?from=99999999", f"/review/none/text/{key}"):
            assert (await page.get(other)).status_code == 404


async def test_what_looks_like_a_secret_is_marked_in_every_piece():
    """Also where a piece ends in the middle of it."""
    text = "x " * (PIECE // 2 - 5) + "AKIAIOSFODNN7EXAMPLE " + "y " * 100
    async with desk() as page:
        question, _ = await page.asked(text=text)
        shown = (await page.get(f"/review/{question.id}")).text
        assert '<mark class="risky">AKIAIOSFOD</mark>' in shown
        rest = (await page.get(f"/review/{question.id}/text/request-0-0?from={PIECE}")).text
        assert '<mark class="risky">NN7EXAMPLE</mark>' in rest


async def test_a_long_text_that_was_kept_is_read_to_its_end():
    """In the record of decisions as well, with its answer."""
    from antiphon.host import MemoryStore, Scripted

    async with desk(provider=Scripted([WORDS]), store=MemoryStore(keep_content=True), keep_content=True) as page:
        question, task = await page.asked(text=WORDS)
        await page.post(f"/review/{question.id}/approve", page.about(question))
        await task
        found = re.search(r'href="(/history/\d+)"', (await page.get("/history")).text)
        assert found
        shown = (await page.get(found[1])).text
        assert await pieces(page, shown, f"{found[1]}/text/request/request-0-0") == WORDS
        answer = shown[shown.index('id="answer-title"') :]
        assert await pieces(page, answer, f"{found[1]}/text/answer/answer-0-0") == WORDS
        assert (await page.get("/history/999/text/request/system")).status_code == 404
