"""The queue at a terminal: what waits, live; one is picked, shown, and decided exactly as it was shown."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from antiphon.cli.commands.review.terminal_queue import ReviewQueue
from antiphon.errors import Rejected
from antiphon.host.review.given_grants import Grants
from antiphon.host.review.review import Deny
from antiphon.host.review.summary import LANGUAGES, load_texts
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.tty import Tty
from antiphon.web.page_texts import PAGE_WORDS
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.cli.conftest import Cli
from tests.cli.program import at_terminal, ended, in_process
from tests.cli.waiting import Waiting, editor
from tests.host.asks import request
from tests.host.review.asking import FORM, Asking, asking
from tests.host.review.test_open_questions import put
from tests.host.terminal.screenful import Screenful, screenful

HOSTILE = "\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1b[2Jred \u202eevil [bold]tag[/bold]"
PROMPT = "ID or key> "


@contextlib.asynccontextmanager
async def at_queue(host: Asking, *, undo: float = 0.0, language: str = "en") -> AsyncIterator[Screenful]:
    """Put a person before the queue, who leaves at the end."""
    words = load_texts(language, PAGE_WORDS)
    with screenful() as person, contextlib.closing(Tty(person.path)) as tty:
        console = Console(tty, color=False, pause=0.0, words=words)
        queue = ReviewQueue(host.store, console, words, by="ada")
        queue.undo_seconds = undo
        running = asyncio.create_task(queue.run())
        try:
            await person.expect(words("queue.prompt"))
            yield person
            person.type("q\n")
            await running
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_the_first_request_is_shown_and_approved():
    """Enter takes the first one; the decision is stored under the person's name."""
    async with asking() as host:
        asked = await host.ask("Describe a hat")
        async with at_queue(host) as person:
            person.type("\n")
            await person.expect("Describe a hat")
            await person.expect("decision> ")
            person.type("a\n")
            await person.expect("Decided.")
            assert (await asked).content.text == "one"
            [question] = await host.queue.history()
            assert (question.by, question.state) == ("ada", "done")


async def test_a_question_of_a_newer_release_is_in_nobodys_way():
    """Enter takes the first one that can be read, and the other is said to wait."""
    async with asking() as host:
        await put(host.store, 1, item="{}")
        asked = await host.ask("Describe a hat")
        async with at_queue(host) as person:
            person.type("r01\n")
            await person.expect("cannot be read by this release")
            await person.expect(PROMPT)
            person.type("\n")
            await person.expect("decision> ")
            person.type("a\n")
            await person.expect("Decided.")
            assert (await asked).content.text == "one"


async def test_all_that_wait_are_counted_however_many_are_listed():
    """As on the page, where more than a thousand may wait, too."""
    async with asking() as host:
        for number in range(1_002):
            await put(host.store, number)
        async with at_queue(host) as person:
            assert "1002 waiting" in person.seen


async def test_a_grant_covers_what_waits_after_saying_how_many():
    """One more that matches is sent at once, if the person says so."""
    async with asking() as host:
        first, second = await host.ask("One hat"), await host.ask("Another hat")
        async with at_queue(host) as person:
            for prompt, typed in [("decision> ", "g"), ("> ", "2"), ("> ", "3"), ("yes or no> ", "Yes")]:
                person.type("\n" if typed == "g" else "")
                await person.expect(prompt)
                person.type(f"{typed}\n")
            await person.expect("Decided.")
            assert {(await first).text, (await second).text} == {"one", "two"}
        (given,) = await Grants(host.store).all()
        assert given.grant.terms.uses == 2
        assert "1 more that wait are covered" in person.seen


async def test_a_rule_for_like_calls_leaves_other_arguments_waiting():
    """Calls of the same tool that the rule does not cover are not counted, and not sent; the rule is listed."""
    async with asking() as host:
        seen = structs.replace(host.origin(), tool=Tool(name="pay", input_schema={}))
        asked = [
            await host.waits(host.host.confirm(CallToolRequestParams.of("pay", {"amount": amount}), seen))
            for amount in (5, 5_000, 5)
        ]
        async with at_queue(host) as person:
            person.type("\n")
            for prompt, typed in [("decision> ", "g"), ("> ", "4"), ("yes or no> ", "y"), ("yes or no> ", "y")]:
                await person.expect(prompt)
                person.type(f"{typed}\n")
            await person.expect("Decided.")
            assert [await asked[0], await asked[2]] == [True, True]
            assert "1 more that wait are covered" in person.seen
            await person.expect(PROMPT)
            person.type("G\n")
            await person.expect('args["amount"] == 5')
            await person.expect("Number to take back")
            person.type("\n")
            [waiting] = await host.queue.pending()
            assert bytes(waiting.item.params.arguments) == b'{"amount":5000}'


async def test_a_request_is_picked_by_its_id():
    """Another request keeps waiting."""
    async with asking() as host:
        await host.ask("First")
        second = await host.ask("Second")
        id = (await host.newest()).id
        async with at_queue(host) as person:
            person.type(f"{id}\n")
            await person.expect("Second")
            await person.expect("decision> ")
            person.type("d\n")
            await person.expect("Decided.")
            with pytest.raises(Rejected):
                await second
            assert [one.item.params.messages[0].blocks[0].text for one in await host.queue.pending()] == ["First"]


async def test_an_id_that_is_not_listed_decides_nothing():
    """A mistyped ID shows no request."""
    async with asking() as host:
        await host.ask("First")
        async with at_queue(host) as person:
            person.type("zz\n")
            await person.expect("There is no such request here")
            await person.expect(PROMPT)
        assert len(await host.queue.pending()) == 1


async def test_the_list_follows_the_queue():
    """A request that comes while the list is shown appears in it."""
    async with asking() as host, at_queue(host) as person:
        await host.ask("A late one")
        await person.expect("1 waiting")
        await person.expect("A late one")
        await person.expect(PROMPT)


async def test_a_request_that_ends_is_taken_away_from_the_person():
    """A request that somebody else decides while it is shown cannot be decided any more."""
    async with asking() as host:
        await host.ask("Contested")
        question = await host.newest()
        async with at_queue(host) as person:
            person.type("\n")
            await person.expect("decision> ")
            await host.queue.decide(question.id, Deny(), hash=question.hash, by="bob")
            await person.expect("Withdrawn. Nothing to decide.")
            await person.expect(PROMPT)
            person.type("a\n")
            await person.expect("There is no such request here")
        assert [one.by for one in await host.queue.history()] == ["bob"]


async def test_leaving_a_request_decides_nothing():
    """Ctrl-D leads back to the list, and the request waits."""
    async with asking() as host:
        await host.ask("Undecided")
        async with at_queue(host) as person:
            person.type("\n")
            await person.expect("decision> ")
            person.type("\x04")
            await person.expect(PROMPT)
            assert len(await host.queue.pending()) == 1


async def test_a_permission_can_be_taken_back():
    """While it is held; the request then waits again."""
    async with asking() as host:
        await host.ask("Think again")
        async with at_queue(host, undo=60.0) as person:
            person.type("\n")
            await person.expect("decision> ")
            person.type("a\n")
            await person.expect("u takes it back")
            await person.expect(PROMPT)
            person.type("u\n")
            await person.expect("1 waiting")
            assert [one.state for one in await host.queue.open()] == ["pending"]


async def test_a_form_is_filled_in():
    """With the same questions as in the terminal of a program."""
    async with asking() as host:
        asked = await host.ask_person(FORM)
        async with at_queue(host) as person:
            person.type("\n")
            await person.expect("decision> ")
            person.type("d\n")
            await person.expect("Decided.")
            assert (await asked).action == "decline"


async def test_a_long_history_is_shown_as_far_as_it_is_read(monkeypatch: pytest.MonkeyPatch):
    """Reading a million records takes a minute, and the person is told how many are left."""

    async def gather() -> int:
        await asyncio.sleep(0)
        return 1

    async with asking() as host:
        await host.ask("A hat")
        monkeypatch.setattr(host.store, "gather", gather)
        async with at_queue(host) as person:
            person.type("h\n")
            await person.expect("search for")
            person.type("\n")
            await person.expect("records are still being read")
            await person.expect(PROMPT)


async def test_history_and_grants_are_lists():
    """A grant can be taken back from its list."""
    async with asking() as host:
        asked = await host.ask("Describe a scarf")
        async with at_queue(host) as person:
            person.type("\n")
            await person.expect("decision> ")
            person.type("g\n")
            await person.expect("> ")
            person.type("2\n")
            await person.expect("> ")
            person.type("\n")
            await person.expect("Decided.")
            await asked
            await person.expect(PROMPT)
            person.type("h\n")
            await person.expect("Words to search for")
            person.type("\n")
            await person.expect("1 found")
            await person.expect("by ada")
            await person.expect(PROMPT)
            person.type("G\n")
            await person.expect("Number to take back")
            person.type("1\n")
            await person.expect("Revoked.")
        assert await Grants(host.store).all() == []


async def test_a_long_queue_fits_the_terminal():
    """The list is cut to the height of the terminal, and says how many more there are."""
    async with asking() as host:
        await host.put_all([f"Request {number}" for number in range(40)])
        async with at_queue(host) as person:
            shown = person.seen
    # News of the last requests may have come late: then the list is drawn once more.
    drawn = re.split(r"^(?=── 40 waiting)", shown, flags=re.MULTILINE)[1:]
    assert drawn
    for each in drawn:
        assert "more; those above come first" in each
        assert len(each.rstrip("\n").split("\n")) <= 24


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_keys_are_explained_in_the_persons_language(language: str):
    """The list of keys ends with the meaning of the marks."""
    words = load_texts(language, PAGE_WORDS)
    async with asking() as host, at_queue(host, language=language) as person:
        person.type("?\n")
        await person.expect(words("inline.marks")[:8])


async def test_a_hostile_request_cannot_draw(desk: Waiting, tmp_path):
    """At a real terminal, with a host elsewhere: the request is shown inertly, edited, and sent as it was edited."""
    asked = await desk.ask(request(HOSTILE))
    program = editor(tmp_path, 'text = text.replace("red", "blue")')

    def review() -> tuple[str, int | None]:
        child = at_terminal("review", "--store", desk.place, EDITOR=program, VISUAL="")
        child.expect_exact(PROMPT)
        output = child.before
        for typed, expected in (("", "decision> "), ("e", "decision> "), ("a", "Decided."), ("q", None)):
            child.sendline(typed)
            if expected is not None:
                child.expect_exact(expected)
            output += child.before
        return output, ended(child)

    output, code = await asyncio.to_thread(review)
    assert code == 0
    assert (await asked).text == "one"
    assert "blue" in output
    for evil in ("\x1b]0;", "\x1b]52;", "\x1b[2J", "\u202e"):
        assert evil not in output


def test_without_a_terminal_the_queue_says_what_to_do():
    """The exit code is that of wrong usage."""
    done = in_process("review", "queue")
    assert (done.code, done.out) == (2, "")
    assert done.err == "antiphon: there is no terminal to ask you at; antiphon review list writes into a pipe\n"


async def test_in_a_pipe_review_lists(desk: Waiting, cli: Cli):
    """One line a request."""
    await desk.ask()
    done = await asyncio.to_thread(cli, "review", "--store", desk.place)
    assert len(done.out.splitlines()) == 1
