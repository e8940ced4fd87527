"""The words the server hears, and what stays here."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from antiphon import Client, Context, Server
from antiphon.client.rounds.loop import PendingRound
from antiphon.errors import AntiphonError, ConfigError, ConnectionClosed, InternalError, InvalidParams, Rejected
from antiphon.host import Approve, Deny, Host, Limits, MemoryStore, Outcome, Policy, Queue, Scripted, digest
from antiphon.host.checks.policy_rules import Effect
from antiphon.host.pipeline.case import MAX_RELEASED, SAMPLING, TOOL, Case, Released
from antiphon.host.review.question import Question
from antiphon.server.state import request_state
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import to_wire
from antiphon.wire.tools import CallToolResult
from tests.host.asks import Person, approve, origin, request


def case(host: Host) -> Case:
    """Open a case at the desk of a host."""
    return Case(desk=host._desk, origin=origin(), method=SAMPLING)


def test_a_refusal_names_its_reason_and_is_recorded():
    """2025-11-25 client/sampling: code -1, "User rejected sampling request"."""
    host = Host(reviewer=None)
    error = case(host).refusal("policy")
    told = to_wire(error)
    assert (told.code, told.message, told.data) == (-1, "User rejected sampling request", {"reason": "policy"})
    assert [(record.step, record.outcome) for record in host.audit.records()] == [("refused", "policy")]


def test_a_failure_says_nothing_and_its_log_is_masked(caplog: pytest.LogCaptureFixture):
    """Neither the server nor the log learns a key."""
    with caplog.at_level(logging.ERROR, logger="antiphon.host"):
        error = case(Host(reviewer=None)).failure("401 for https://api.example/?key=abcdefgh1234")
    assert (error.code, error.message, error.data) == (-32603, "The client could not answer the request", None)
    assert "401 for" in caplog.text
    assert "abcdefgh1234" not in caplog.text


def test_a_call_that_cannot_be_decided_says_where_the_reason_is():
    """The program that calls a tool of a gateway has no client that "could not answer"."""
    undecided = Case(desk=Host(reviewer=None)._desk, origin=origin(), method=TOOL).failure("disk full")
    assert to_wire(undecided).message == "Whether to call the tool could not be decided; the log of the host says why"


def test_a_desk_is_headless_without_a_reviewer_or_without_a_terminal():
    """Asked anew each time: a terminal may come and go."""
    person = Person(approve)
    desk = Host(Scripted([]), reviewer=person)._desk
    assert not desk.headless
    person.available = False
    assert desk.headless
    assert Host(reviewer=None)._desk.headless


@pytest.mark.parametrize(("default", "looked"), [("allow", 0), ("deny", 0), ("ask", 1)])
def test_a_person_is_looked_for_only_if_one_is_needed(default: Effect, looked: int):
    """To find a terminal opens a device, which takes longer than the decision."""
    person = Leaving()
    host = Host(Scripted([]), policy=Policy(default=default), reviewer=person)
    assert case(host).verdict(request()).reason == ("no-reviewer" if looked else "default")
    assert person.looked == looked


class Leaving(Person):
    """A person who is never there, and counts how often somebody looked."""

    def __init__(self) -> None:
        self.looked = 0
        super().__init__(approve)

    @property
    def available(self) -> bool:
        """See ``Reviewer.available``."""
        self.looked += 1
        return False

    @available.setter
    def available(self, value: bool) -> None:
        del value


def asking() -> Server:
    """Make a server that asks, and repeats what it is told."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe something."""
        try:
            return (await ctx.sample("Describe a hat")).text
        except Rejected as refused:
            return f"told: {refused.message} {refused.data}"

    return server


async def test_a_refusal_that_nobody_made_names_cause_and_remedy_here():
    """In words for our own caller; a person's own refusal says what it always did."""
    with pytest.raises(Rejected, match=r"nobody can be asked.*ask_on_page") as caught:
        await Host(reviewer=None)(request(), origin())
    assert caught.value.told == "User rejected sampling request"
    with pytest.raises(Rejected, match="a limit of this host is reached: max_tokens"):
        await Host(reviewer=None, limits=Limits(max_tokens=1))(request(), origin())
    with pytest.raises(Rejected, match="User rejected sampling request"):
        await Host(reviewer=Person(lambda item: Deny()))(request(), origin())


async def test_the_wire_keeps_the_words_of_the_specification():
    """Whoever refused: the server hears -1 and the reason, and nothing of this side."""
    async with Client(asking(), sampling=Host(reviewer=None), revision="2025-11-25") as client:
        told = (await client.call_tool("describe")).text
    assert told == "told: User rejected sampling request {'reason': 'no-reviewer'}"


async def test_our_own_caller_hears_the_cause_where_the_call_is_given_up():
    """On 2026-07-28 a round has no error member: the caller gets the error itself."""
    async with Client(asking(), sampling=Host(reviewer=None), revision="2026-07-28") as client:
        with pytest.raises(Rejected, match="nobody can be asked"):
            await client.call_tool("describe")


async def test_a_cause_that_can_be_mended_is_logged_once(caplog: pytest.LogCaptureFixture):
    """The server cannot tell it, and one line is enough; a limit is no fault of the setup."""
    host = Host(reviewer=None)
    for number in range(3):
        with pytest.raises(Rejected):
            await host(request(), origin(str(number)))
    await host.elicit(ElicitRequestParams.form("?", {"properties": {}}), origin("9"))
    logged = [record.getMessage() for record in caplog.records if record.name == "antiphon.host"]
    assert len(logged) == 1
    assert "nobody can be asked" in logged[0]


async def test_a_package_that_is_missing_is_named_to_our_own_caller():
    """With the command that installs it; the server hears that it could not be answered."""

    class Bare(Scripted):
        async def complete(self, params, *, model=None):
            raise ConfigError("models of vendors need more packages: pip install something")

    with pytest.raises(InternalError, match="pip install") as caught:
        await Host(Bare([]), review="never", reviewer=None)(request(), origin())
    assert to_wire(caught.value).message == "The client could not answer the request"


every_era = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


def shop() -> Server:
    """Make a server whose tools ask a model and a person."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe a product."""
        return (await ctx.sample("Describe a hat")).text

    @server.tool
    async def name(ctx: Context) -> str:
        """Ask for a name."""
        answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(answer.value)

    return server


def plain(begun: asyncio.Event | None = None) -> Server:
    """Make a server whose tools ask nobody."""
    server = Server("plain")

    @server.tool
    async def order() -> str:
        """Order."""
        return "ordered"

    @server.tool
    async def wait() -> str:
        """Never end."""
        if begun is not None:
            begun.set()
        return await asyncio.get_running_loop().create_future()

    return server


async def arrived(queue: Queue) -> Question:
    """Wait for a question."""
    async for _ in queue.changes():
        for question in await queue.pending():
            return question
    raise AssertionError


async def over(queue: Queue) -> Question:
    """Wait until it is known what became of the only question there was."""
    async for _ in queue.changes():
        for question in await queue.history():
            if question.outcome is not None:
                return question
    raise AssertionError


def ends(host: Host) -> list[tuple[str, str]]:
    """Return how the ask ended, as the audit tells it."""
    steps = ("answered", "withdrawn", "refused", "failed")
    return [(record.step, record.outcome) for record in host.audit.records() if record.step in steps]


async def approved(queue: Queue) -> None:
    """Approve the question that waits."""
    question = await arrived(queue)
    await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash, by="ada")


@every_era
async def test_an_answer_that_was_handed_over_says_so(revision: str):
    """With the question, and at the end of its records; nothing is claimed before."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted(["Warm"]), reviewer=queue, store=store)
    async with Client(shop(), sampling=host, revision=revision) as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await approved(queue)
        assert (await called).text == "Warm"
        done = await over(queue)
    assert (done.state, done.by, done.outcome) == ("done", "ada", Outcome(became="handed-over"))
    assert ends(host) == [("answered", ""), ("answered", "handed-over")]
    assert (await host.audit.verify()).whole


@every_era
async def test_a_form_that_was_handed_over_says_so(revision: str):
    """As any other answer."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(reviewer=queue, store=store)
    async with Client(shop(), elicitation=host.elicit, revision=revision) as client:
        called = asyncio.create_task(client.call_tool("name"))
        question = await arrived(queue)
        filled = ElicitResult(action="accept", content={"name": "Ada"})
        await queue.decide(question.id, filled, hash=question.hash)
        await called
        assert (await over(queue)).outcome == Outcome(became="handed-over")
    assert ends(host) == [("answered", "accept"), ("answered", "handed-over")]


async def test_an_answer_to_a_call_that_is_gone_was_too_late(monkeypatch: pytest.MonkeyPatch):
    """The server no longer takes the state: approved, and answered, and yet of no use."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted(["Warm"]), reviewer=queue, store=store)
    async with Client(shop(), sampling=host, revision="2026-07-28") as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await arrived(queue)
        # The server's clock: all that it has sealed is too old.
        monkeypatch.setattr(request_state, "SKEW", -1e9)
        await approved(queue)
        with pytest.raises(InvalidParams):
            await called
        assert (await over(queue)).outcome == Outcome(became="late", why="call-gone")
    assert ends(host) == [("answered", ""), ("withdrawn", "late:call-gone")]
    assert (await host.audit.verify()).whole


PROGRAM = """
import os
from pathlib import Path
from antiphon import Context, Server

server = Server("shop")

@server.tool
async def describe(ctx: Context) -> str:
    Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
    return (await ctx.sample("Describe a hat")).text

server.run()
"""


async def test_an_answer_to_a_server_that_was_killed_was_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A real process, killed while a person thinks: the approval says that the connection was gone."""
    program, pid = tmp_path / "shop.py", tmp_path / "pid"
    program.write_text(PROGRAM)
    monkeypatch.setenv("PID_FILE", str(pid))
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted(["Warm"]), reviewer=queue, store=store)
    command = [sys.executable, str(program)]
    async with Client(command, sampling=host, revision="2026-07-28", inherit_env=True) as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await arrived(queue)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        await approved(queue)
        with pytest.raises(ConnectionClosed):
            await called
        assert (await over(queue)).outcome == Outcome(became="late", why="closed")


@every_era
async def test_a_permission_for_a_call_that_was_given_up_was_too_late(revision: str):
    """It is given up while the model still writes: nobody waits for that any more."""
    writing = asyncio.Event()

    class Slow(Scripted):
        async def complete(self, params, *, model=None):
            writing.set()
            await asyncio.get_running_loop().create_future()

    store = MemoryStore()
    queue = Queue(store)
    host = Host(Slow([]), reviewer=queue, store=store)
    async with Client(shop(), sampling=host, revision=revision) as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await approved(queue)
        await writing.wait()
        called.cancel()
        with pytest.raises(asyncio.CancelledError):
            await called
        assert (await over(queue)).outcome == Outcome(became="late", why="cancelled")


async def test_a_permission_that_led_to_no_answer_says_why():
    """The provider failed after the approval; a denial has nothing to add."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted([]), reviewer=queue, store=store)
    asked = asyncio.create_task(host(request(), origin()))
    await approved(queue)
    with pytest.raises(AntiphonError):
        await asked
    assert (await over(queue)).outcome == Outcome(became="failed", why="error")


async def test_what_no_person_gave_is_recorded_only_if_it_was_too_late():
    """That it was handed over is what its record says anyway."""
    store = MemoryStore()
    host = Host(Scripted(["1", "2"]), review="never", store=store)
    await host(request(), origin("1"))
    assert host.handed_over(origin("1")) is None
    await host(request(), origin("2"))
    recording = host.handed_over(origin("2"), "closed")
    assert recording is not None
    await recording
    assert host.handed_over(origin("2"), "closed") is None
    assert ends(host)[-1] == ("withdrawn", "late:closed")


@every_era
async def test_what_a_person_gave_inline_is_recorded(revision: str):
    """As in a queue: no store keeps such a review, and the record tells the end of it."""
    host = Host(Scripted(["Warm"]), reviewer=Person(approve))
    async with Client(shop(), sampling=host, revision=revision) as client:
        await client.call_tool("describe")
    assert ends(host) == [("answered", ""), ("answered", "handed-over")]


def test_answers_that_nobody_reports_are_forgotten():
    """A program that asks a host without a client never says what became of an answer."""
    released = Released()
    for number in range(MAX_RELEASED + 5):
        released.add(origin(str(number)), "sampling/createMessage", ("r",), by_person=True)
    host = Host()
    assert released.record(host.audit, host.store, origin("4"), None) is None
    recording = released.record(host.audit, host.store, origin("5"), None)
    assert recording is not None
    recording.close()


@pytest.mark.parametrize(("ours", "theirs", "shown"), [(600.0, 30.0, 30.0), (10.0, 30.0, 10.0), (None, 30.0, 30.0)])
async def test_the_clock_shows_the_shorter_patience(ours: float | None, theirs: float, shown: float):
    """Of the host's and of the client's, which gives an answerer so many seconds."""
    person = Person(approve)
    host = Host(Scripted(["ok"]), reviewer=person, review_timeout=ours)
    async with Client(shop(), sampling=host, answer_timeout=theirs) as client:
        await client.call_tool("describe")
    [item] = person.shown
    assert item.expires_in is not None
    assert shown - 5.0 < item.expires_in <= shown


WRITES_PID = "Path(os.environ['PID_FILE']).write_text(str(os.getpid()))"


@every_era
async def test_a_call_of_a_tool_that_was_approved_says_that_it_was_sent(revision: str):
    """As any other permission does: with the question, and at the end of its records."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(reviewer=queue, store=store)
    async with Client(plain(), confirm=host, revision=revision) as client:
        called = asyncio.create_task(client.call_tool("order"))
        await approved(queue)
        assert (await called).text == "ordered"
        assert (await over(queue)).outcome == Outcome(became="handed-over")
    assert ends(host) == [("answered", "confirmed"), ("answered", "handed-over")]


async def test_a_call_that_is_given_up_after_it_was_sent_was_handed_over():
    """The server has it, and may carry it out: nobody says that it came too late."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(reviewer=queue, store=store)
    begun = asyncio.Event()
    async with Client(plain(begun), confirm=host) as client:
        called = asyncio.create_task(client.call_tool("wait"))
        await approved(queue)
        await begun.wait()
        called.cancel()
        with pytest.raises(asyncio.CancelledError):
            await called
        assert (await over(queue)).outcome == Outcome(became="handed-over")


async def test_a_call_to_a_server_that_was_killed_was_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A real process, killed while a person thinks: the tool was never called."""
    program, pid = tmp_path / "shop.py", tmp_path / "pid"
    program.write_text(
        PROGRAM.replace("server.run()", "Path(os.environ['PID_FILE']).write_text(str(os.getpid()))\nserver.run()")
    )
    monkeypatch.setenv("PID_FILE", str(pid))
    store = MemoryStore()
    queue = Queue(store)
    host = Host(reviewer=queue, store=store)
    async with Client([sys.executable, str(program)], confirm=host, inherit_env=True) as client:
        called = asyncio.create_task(client.call_tool("describe"))
        await arrived(queue)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        await approved(queue)
        with pytest.raises(ConnectionClosed):
            await called
        assert (await over(queue)).outcome == Outcome(became="late", why="closed")
    assert ends(host) == [("answered", "confirmed"), ("withdrawn", "late:closed")]


@pytest.mark.parametrize(
    ("other", "outcome"),
    [({}, Outcome(became="handed-over")), ({"mine": "Cold"}, Outcome(became="late", why="cancelled"))],
    ids=["as answered", "with another answer"],
)
async def test_an_answer_to_a_round_by_hand_says_what_became_of_it(other: dict, outcome: Outcome):
    """Not when it is given, but when the call goes on: with it, or with something else in its place."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted(["Warm"]), reviewer=queue, store=store)
    async with Client(shop(), sampling=host, revision="2026-07-28") as client:
        pending = await client.rounds.call_tool("describe")
        assert isinstance(pending, PendingRound)
        answering = asyncio.create_task(client.rounds.answer(pending))
        await approved(queue)
        answers = await answering
        assert ends(host) == [("answered", "")]
        step = await client.rounds.resume(pending, {key: other.get("mine", given) for key, given in answers.items()})
        assert isinstance(step, CallToolResult)
        assert (await over(queue)).outcome == outcome


async def test_an_answer_by_hand_to_a_call_that_is_gone_was_too_late(monkeypatch: pytest.MonkeyPatch):
    """The server no longer takes the state."""
    store = MemoryStore()
    queue = Queue(store)
    host = Host(Scripted(["Warm"]), reviewer=queue, store=store)
    async with Client(shop(), sampling=host, revision="2026-07-28") as client:
        pending = await client.rounds.call_tool("describe")
        assert isinstance(pending, PendingRound)
        answering = asyncio.create_task(client.rounds.answer(pending))
        await approved(queue)
        monkeypatch.setattr(request_state, "SKEW", -1e9)
        with pytest.raises(InvalidParams):
            await client.rounds.resume(pending, await answering)
        assert (await over(queue)).outcome == Outcome(became="late", why="call-gone")


async def test_a_refusal_is_no_answer_that_could_be_handed_over():
    """Nothing is recorded of it beyond the refusal."""
    host = Host(Scripted([]), reviewer=None)
    with pytest.raises(Rejected):
        await host(request(), origin())
    assert host.handed_over(origin()) is None
