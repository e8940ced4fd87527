"""The screen: what is shown of the queue, and that what is shown stays until the person moves."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

import pytest
from rich.cells import cell_len
from sqlalchemy.exc import OperationalError

from antiphon.cli.screen import stage
from antiphon.cli.screen.sheet import now
from antiphon.cli.screen.views import QueueView, RowsView
from antiphon.host import Approve, Question, digest
from antiphon.wire.common import RequestMeta
from antiphon.wire.origin import Round
from tests.cli.screen.reviewing import asking, lines, reviewing
from tests.host.asks import origin, request


async def test_what_waits_is_listed_by_calls():
    """Below who asks and for what; the first is shown at once."""
    async with asking() as desk:
        await desk.ask("First", origin("1", round=Round(n=2, max=9)))
        await desk.ask("Second", origin("2", call="call-2"))
        async with reviewing(desk.store) as review:
            assert "Queue: 2" in review.text
            assert "catalogue.py · describe" in review.text
            assert "│ First" in review.page
            assert "tools/call describe" in review.page
            assert "round 2 of at most 9" in review.page


async def test_an_empty_queue_says_so_and_fills_by_itself():
    """What arrives is shown, and rings."""
    async with asking() as desk, reviewing(desk.store) as review:
        await review.sees("Nothing is waiting. Requests of servers appear here by themselves.")
        rung = []
        review.app.bell = lambda: rung.append(1)
        await desk.ask("Describe a hat")
        await review.sees("│ Describe a hat")
        assert rung == [1]


async def test_no_bell_is_no_bell():
    """Where it is not wanted."""
    async with asking() as desk, reviewing(desk.store, bell=False) as review:
        rung = []
        review.app.bell = lambda: rung.append(1)
        await desk.ask()
        await review.sees("│ Describe a sweater")
        assert rung == []


async def test_keys_move_through_the_queue():
    """To its ends, and no further; arrows do the same in the queue itself."""
    async with asking() as desk:
        for name in ("First", "Second", "Third"):
            await desk.ask(name)
        async with reviewing(desk.store) as review:
            await review.press("j", sees="│ Second")
            await review.press("j", sees="│ Third")
            await review.press("j", "k", sees="│ Second")
            await review.press("tab", "up", sees="│ First")
            assert isinstance(review.app.focused, QueueView)
            await review.press("down", sees="│ Second")
            review.type("enter")
            await review.until(lambda: isinstance(review.app.focused, RowsView))
            review.type("tab")
            await review.until(lambda: isinstance(review.app.focused, QueueView))


async def test_a_line_can_be_clicked():
    """A head of a group cannot."""
    async with asking() as desk:
        await desk.ask("First")
        await desk.ask("Second")
        async with reviewing(desk.store) as review:
            await review.pilot.click("#queue", offset=(5, 2))
            await review.sees("│ Second")
            await review.pilot.click("#queue", offset=(5, 0))
            assert review.stage.shown is not None and review.stage.shown.turns[0].parts[0].text == "Second"


async def test_what_is_shown_stays_when_somebody_else_decides_it():
    """And says what became of it; nothing can be decided any more, and moving goes on from its place."""
    async with asking() as desk:
        asked = await desk.ask("First")
        first = await desk.newest()
        await desk.ask("Second")
        async with reviewing(desk.store) as review:
            await desk.queue.decide(first.id, Approve(digest=digest(request("First"))), by="bob", hash=first.hash)
            await asked
            await review.sees("Decided. By bob.")
            assert "a Approve" not in review.text
            await review.pilot.press("a", "d")
            assert len(await desk.queue.pending()) == 1
            await review.press("j", sees="│ Second")


async def test_the_second_reviewer_is_told_who_was_first():
    """Even where the screen does not know yet."""
    async with asking() as desk:
        asked = await desk.ask("First")
        first = await desk.newest()
        async with reviewing(desk.store) as one, reviewing(desk.store, by="bob") as other:
            other.stage.workers.cancel_group(other.stage, "watch")
            await one.press("d", sees="Denied.")
            await other.press("a", sees="ada was faster and has decided.")
        await asyncio.wait([asked])
        assert (await desk.queue.get(first.id)).by == "ada"


async def test_what_has_just_appeared_cannot_be_approved():
    """A key meant for the last one does not meet it; denying works at once."""
    async with asking() as desk:
        asked = await desk.ask("First")
        async with reviewing(desk.store, dead=3600.0) as review:
            await review.until(lambda: review.stage.arming.seen(now()))
            await review.pilot.press("a", "g", "A")
            assert review.app.screen is review.stage
            assert not asked.done()
            assert [question.state for question in await desk.queue.pending()] == ["pending"]
            await review.press("d", sees="Denied.")


async def test_what_arrives_behind_a_form_has_not_been_seen():
    """Its moment begins when the form is gone."""
    async with asking() as desk, reviewing(desk.store) as review:
        await review.press("?", sees="Go to the next request.")
        asked = await desk.ask("First")
        await review.until(lambda: review.stage.shown)
        await review.pilot.pause(0.05)
        assert not review.stage.arming.seen(now())
        review.type("escape")
        await review.until(lambda: review.app.screen is review.stage)
        await review.press("a", sees="Approved.")
        assert (await asked).text == "one"


async def test_keys_are_dead_while_another_request_loads():
    """From a slow store: neither the one that was shown nor the one to come is decided."""
    async with asking() as desk:
        await desk.ask("First")
        await desk.ask("Second")
        async with reviewing(desk.store) as review:
            await review.ready()
            get, slow = review.stage.queue.get, asyncio.Event()

            async def slowly(id):
                await slow.wait()
                return await get(id)

            review.stage.queue.get = slowly
            review.type("j")
            await review.until(lambda: review.stage.shown is None)
            for key in "dar":
                review.type(key)
            await review.pilot.pause()
            slow.set()
            await review.sees("\u2502 Second")
            assert review.decisions == []
            assert review.app.screen is review.stage


async def test_a_long_text_is_folded_with_its_size():
    """So that the rest is in sight; a key shows all of it, and folds it again."""
    async with asking() as desk:
        await desk.ask("long " * 2000 + "and its end")
        async with reviewing(desk.store, size=(80, 24)) as review:
            await review.sees("\u2502 long long")
            assert "its end" not in review.page
            assert "9403 more characters" in review.page
            review.type("f")
            await review.until(lambda: "its end" in review.page)
            review.type("f")
            await review.until(lambda: "its end" not in review.page)


async def test_the_next_risk_is_marked():
    """Also in what is folded, in turn; who has none is told."""
    async with asking() as desk:
        await desk.ask("Plain")
        await desk.ask("word " * 400 + "\u200bhidden\n" + "word " * 400 + "\u202ereversed")
        async with reviewing(desk.store, size=(80, 24)) as review:
            await review.press("n", sees="No place in the text stands out.")
            await review.press("j", sees="\u2502 word word")
            await review.press("n", sees="Risk 1 of 2 is marked.")
            assert any(line.startswith("\u25b6") and "\u27e6U+200B\u27e7" in line for line in lines(review.app))
            await review.press("n", sees="Risk 2 of 2 is marked.")
            assert any(line.startswith("\u25b6") and "\u27e6U+202E\u27e7" in line for line in lines(review.app))
            await review.press("n", sees="Risk 1 of 2 is marked.")


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_the_next_risk_is_also_beside_the_messages(size: tuple[int, int]):
    """In stop sequences, metadata and ``_meta``."""
    secret = "AKIAIOSFODNN7EXAMPLE"
    async with asking() as desk:
        more = {"stop_sequences": [secret], "metadata": {"key": secret}, "meta": RequestMeta(baggage=secret)}
        await desk.ask("Plain", **more)
        async with reviewing(desk.store, size=size) as review:
            for number in (1, 2, 3, 1):
                await review.press("n", sees=f"Risk {number} of 3 is marked.")
                [marked] = [line for line in lines(review.app) if "\u25b6" in line]
                assert secret in marked


async def test_a_long_request_is_drawn_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """Keys are taken and clocks go on meanwhile."""
    threads: list[str] = []
    shown = stage.show

    def noted(question: Question):
        threads.append(threading.current_thread().name)
        return shown(question)

    monkeypatch.setattr(stage, "show", noted)
    async with asking() as desk:
        await desk.ask("word " * 100_000)
        async with reviewing(desk.store) as review:
            await review.sees("word word")
    assert threads
    assert "MainThread" not in threads


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_what_will_be_sent_is_on_the_first_screen(size: tuple[int, int]):
    """Below one line for who, for what, cost and time; even where the server wrote a long system prompt."""
    async with asking() as desk:
        await desk.ask("Describe a hat", system_prompt="You write for a shop. " * 200)
        async with reviewing(desk.store, size=size) as review:
            await review.sees("\u2502 Describe a hat")
            assert "catalogue.py \u00b7 describe" in review.text
            assert "\u2502 You write for a shop." in review.text


async def test_a_permission_can_be_taken_back():
    """While it is held: the request waits again, and is shown."""
    async with asking() as desk:
        asked = await desk.ask("First")
        async with reviewing(desk.store, undo=5.0) as review:
            await review.press("u", sees="There is nothing to take back.")
            await review.press("a", sees="Approved. u takes it back within 5 s.")
            await review.press("u", sees="Taken back: it is waiting again.")
            await review.sees("\u2502 First")
            assert not asked.done()
            await review.press("d", sees="Denied.")
        await asyncio.wait([asked])


async def test_several_are_selected_and_denied_together():
    """By two keys; the rest goes on waiting."""
    async with asking() as desk:
        for name in ("First", "Second", "Third"):
            await desk.ask(name)
        async with reviewing(desk.store) as review:
            await review.press("D", sees="Nothing is selected.")
            await review.press("v", sees="\u2502 Second")
            await review.press("v", sees="\u2502 Third")
            await review.press("D", sees="2 denied.")
            assert [question.item.params.messages[0].content.text for question in await desk.queue.pending()] == [
                "Third"
            ]


async def test_the_list_is_filtered_and_sorted():
    """By a text that it must contain; by risk first."""
    async with asking() as desk:
        await desk.ask("Describe a hat")
        await desk.ask("Describe a coat\u200b")
        async with reviewing(desk.store) as review:
            await review.press("z", sees="most risks first")
            rows = [line for line in lines(review.app) if "Describe a" in line]
            assert "coat" in rows[0]
            await review.press("/", sees="Show only what contains")
            await review.pilot.press(*"hat")
            await review.press("ctrl+s", sees='only "hat"')
            await review.until(lambda: "Describe a coat" not in "".join(line[:40] for line in lines(review.app)))


async def test_after_the_pause_it_can_be_approved():
    """Which begins when it is on the screen, and again with the next one."""
    async with asking() as desk:
        asked = await desk.ask("First")
        await desk.ask("Second")
        async with reviewing(desk.store, dead=0.4) as review:
            await review.sees("│ First")
            await review.until(lambda: review.stage.arming.armed(now()))
            await review.press("a", sees="Approved.")
            await review.sees("│ Second")
            review.type("a")
            assert (await asked).text == "one"
            assert len(await desk.queue.pending()) == 1


async def test_a_request_that_expires_says_so():
    """Its clock runs down; who is late is told."""
    now = [1_000.0]
    async with asking() as desk:
        await desk.ask("First")
        question = await desk.newest()
        assert question.expires is not None
        now[0] = question.expires - 65
        async with reviewing(desk.store, clock=lambda: now[0]) as review:
            await review.sees("1:05 · catalogue.py")
            now[0] = question.expires
            await review.sees("Queue: 0")


async def test_a_request_that_is_withdrawn_says_so():
    """The server does not wait any more."""
    async with asking() as desk:
        asked = await desk.ask("First")
        async with reviewing(desk.store) as review:
            asked.cancel()
            await review.sees("Withdrawn: nobody is waiting for it any more.")


async def test_the_raw_json_is_shown_on_demand():
    """And put away again."""
    async with asking() as desk:
        await desk.ask("First")
        async with reviewing(desk.store) as review:
            assert '"maxTokens": 100' not in review.page
            await review.press("x", sees='"maxTokens": 100')
            await review.press("x", sees="x shows the raw JSON.")


async def test_the_keys_are_listed():
    """All of them; Esc goes back."""
    async with asking() as desk, reviewing(desk.store) as review:
        await review.press("?", sees="Ask the model for another answer.")
        await review.press("escape", sees="Nothing is waiting.")


async def test_it_speaks_chinese():
    """By the terminal's language, or by a key."""
    async with asking() as desk:
        await desk.ask("描述一件毛衣\u202e")
        async with reviewing(desk.store, language="zh") as review:
            await review.sees("│ 描述一件毛衣")
            assert "服务器想使用您的模型" in review.text
            assert "a 批准" in review.text
            assert "! 含有不可见字符\uff081 个改变方向的字符\uff09" in review.text
            await review.press("l", sees="A server wants to use your model")
            await review.press("l", "?", sees="快捷键")


@pytest.mark.parametrize("size", [(200, 60), (80, 24), (60, 20), (40, 12), (30, 8)])
async def test_it_fits_any_terminal(size: tuple[int, int]):
    """Down to a corner of one: queue and request by Tab, the usual keys, and no row that is wider."""
    async with asking() as desk:
        asked = await desk.ask("First " * 100 + "\u6c49\u5b57" * 100)
        async with reviewing(desk.store, size=size) as review:
            await review.sees("A server wants")
            assert "First First" in review.page
            assert "a Approve" in review.text
            assert {cell_len(line) for line in lines(review.app)} == {size[0]}
            await review.press("shift+tab", sees="Queue: 1")
            await review.press("tab", sees="Messages (1)")
            await review.press("a", sees="Approved.")
            assert (await asked).text == "one"


async def test_two_hundred_requests_are_no_burden():
    """From a key to the next request on the terminal takes less than a tenth of a second of work, at the median."""
    async with asking() as desk:
        await desk.put_all([f"Question {number} " * 20 for number in range(200)])
        async with reviewing(desk.store) as review:
            await review.sees("Queue: 200")
            took: list[float] = []
            for number in range(1, 30):
                begun = time.process_time()
                review.type("j")
                # Armed is what is on the terminal: nothing is dead here.
                await review.quickly(
                    lambda wanted=f"\u2502 Question {number} ": (
                        wanted in review.page and review.stage.arming.armed(now())
                    )
                )
                took.append(time.process_time() - begun)
            assert statistics.median(took) < 0.1


async def test_a_store_that_cannot_be_read_is_tried_again():
    """And the person is told."""
    async with asking() as desk:
        await desk.ask("First")
        async with reviewing(desk.store) as review:
            broken = OperationalError("x", {}, Exception("gone"))

            async def fail(id: str):
                raise broken

            review.stage.queue.get = fail
            review.type("j")
            await review.sees("The store cannot be read just now")
            del review.stage.queue.get
            await desk.ask("Second")
            await review.press("d", sees="Denied.")


async def test_q_leaves_and_what_waits_goes_on_waiting():
    """Ctrl-C as well."""
    for key in ("q", "ctrl+c"):
        async with asking() as desk:
            await desk.ask("First")
            async with reviewing(desk.store) as review:
                review.type(key)
            assert review.app.failure is None
            assert len(await desk.queue.pending()) == 1
