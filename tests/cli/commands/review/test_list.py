from __future__ import annotations

import asyncio
import json
import signal

import pytest

from antiphon.errors import Rejected
from antiphon.host import Approve, Deny, digest
from antiphon.wire.origin import Round
from tests.cli.program import COMMAND, ROOT, at_terminal, ended, environment
from tests.cli.waiting import Waiting
from tests.host.asks import request

HOSTILE = "Hello\x1b]0;owned\x07 \x1b[2J\u202eevil"


@pytest.mark.parametrize("words", [["review"], ["review", "list"], ["review", "show", "ID"]])
async def test_into_a_pipe_goes_what_is_asked_whole(words: list[str], desk: Waiting):
    """On one line, however narrow the terminal around it, in no colour and with nothing a terminal would obey."""
    text = " ".join(f"word{number}" for number in range(200))
    await desk.ask(request(f"{text}\x1b[2J"))
    id = (await desk.pending()).id
    done = await desk.elsewhere(*(id if word == "ID" else word for word in words), COLUMNS="30")
    assert any(f"{text}⟦U+001B⟧[2J" in line for line in done.out.splitlines())
    assert "…" not in done.out
    assert "┊" not in done.out
    assert all(char.isprintable() for line in done.out.split("\n") for char in line.replace("\t", ""))


async def test_a_narrow_terminal_cuts_nothing(desk: Waiting):
    """Each row fits into twenty columns, and the request is there to its last letter."""
    text = "Describe the warm sweater in two sentences"
    await desk.ask(request(text))
    id = (await desk.pending()).id

    def shown() -> str:
        child = at_terminal("review", "show", id, "--store", desk.place, COLUMNS="20", NO_COLOR="1")
        out = child.read()
        child.close()
        return out

    rows = (await asyncio.to_thread(shown)).splitlines()
    quoted = [row for row in rows if "│ " in row]
    assert text in "".join(row.partition("│ ")[2] for row in quoted)
    assert max(map(len, quoted)) <= 20


async def test_a_list_at_a_terminal_is_live(desk: Waiting):
    """Each question is one line when it comes; Ctrl-C ends the list quietly."""
    asked = await desk.ask(request(HOSTILE), round=Round(n=1, max=4))
    loop = asyncio.get_running_loop()

    def walk() -> int | None:
        child = at_terminal("review", "--watch", "--store", desk.place)
        child.expect_exact("first question of this call")
        child.expect_exact("⟦U+202E⟧evil")
        asyncio.run_coroutine_threadsafe(desk.ask(request("A coat")), loop).result()
        child.expect_exact("A coat")
        child.sendintr()
        return ended(child)

    assert await asyncio.to_thread(walk) == 130
    for question in await desk.queue.pending():
        await desk.queue.decide(question.id, Deny(), hash=question.hash)
    with pytest.raises(Rejected):
        await asked


async def test_a_list_into_a_pipe_is_live(desk: Waiting):
    """A line when a question comes, and one when it is decided."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "review", "--watch", "--json", "--store", desk.place, stdout=-1, cwd=ROOT, env=environment()
    )
    asked = await desk.ask()
    come = json.loads(await child.stdout.readline())
    question = await desk.queue.get(come["id"])
    await desk.queue.decide(question.id, Approve(digest=digest(request())), hash=question.hash, by="ada")
    await asked
    gone = json.loads(await child.stdout.readline())
    assert (come["state"], gone["id"], gone["by"]) == ("pending", come["id"], "ada")
    assert gone["state"] in ("decided", "done")
    child.send_signal(signal.SIGINT)
    await child.communicate()
    assert child.returncode == 130


async def test_a_live_list_ends_with_its_reader(desk: Waiting):
    """``| head -1`` waits for the first question, and no longer."""
    await desk.queue.pending()
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "review", "--watch", "--store", desk.place, stdout=-1, cwd=ROOT, env=environment()
    )
    await desk.ask()
    assert b"pending" in await child.stdout.readline()
    child._transport.get_pipe_transport(1).close()
    assert await child.wait() == 0
