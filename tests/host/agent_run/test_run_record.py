"""A run that was interrupted goes on from its record, and no call of a tool is made twice unless a person says so."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from antiphon.gateway import Gateway
from antiphon.host import (
    EditCall,
    Host,
    LabelRule,
    MemoryStore,
    Policy,
    RunEvent,
    RunResult,
    Scripted,
    ToolBegan,
    digest,
)
from antiphon.host.store.base import Store
from antiphon.types import CallToolRequestParams, CreateMessageResult, ElicitResult, ToolUseContent
from tests.host.asks import Person, approve
from tests.host.store.stores import KINDS, Place
from tests.support.interrupted_run import ALLOW, buy_both, make_shop, open_file

ROOT = Path(__file__).parents[3]
AGAIN = ElicitResult(action="accept", content={"outcome": "again"})
RAN = ElicitResult(action="accept", content={"outcome": "ran", "result": "one cap, 9 euros"})


def kill_at(point: str, store: Path, log: Path) -> None:
    """Start the program of the run, and kill it (signal 9) when it has reached a point."""
    command = [sys.executable, "-m", "tests.support.interrupted_run", str(store), str(log), point]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        reached = [line.strip() for line in iter(program.stdout.readline, f"{point}\n")]
        assert program.poll() is None, reached
        program.kill()


async def resume(store: Store, log: Path, person: Person, *answers: Any) -> tuple[RunResult, Scripted]:
    """Run again with the same id, as the next process would, with a model that has the answers that are left."""
    model = Scripted(answers)
    async with Client(make_shop(log)) as client:
        host = Host(model, policy=ALLOW, reviewer=person, store=store)
        return await host.run("Buy both", client, run_id="r"), model


@pytest.mark.parametrize(
    ("point", "asked", "fill"),
    [
        ("ModelAnswered", 0, None),
        ("ToolBegan cap", 0, None),
        ("asked about buy", 0, None),
        ("in the tool", 1, None),
        ("in the tool", 1, AGAIN),
        ("in the tool", 1, RAN),
        ("ToolEnded cap", 0, None),
        ("answered", 0, None),
    ],
)
async def test_a_killed_run_goes_on_and_repeats_no_call(
    point: str, asked: int, fill: ElicitResult | None, tmp_path: Path
):
    """Only a call that was in progress is asked about, and only a person has it made again."""
    path, log = tmp_path / "host.db", tmp_path / "log"
    await asyncio.to_thread(kill_at, point, path, log)
    store, person = open_file(path), Person(approve, fill=fill)
    try:
        result, _ = await resume(store, log, person, *([] if point == "answered" else ["Done."]))
    finally:
        await store.aclose()
    assert (result.text, len(person.forms)) == ("Done.", asked)
    ran = sorted(log.read_text().split())
    assert ran == (["cap", "cap", "hat"] if fill is AGAIN else ["cap", "hat"])
    cap = next(call for call in result.calls if call.use.id == "cap")
    if not asked or fill is AGAIN:
        assert (cap.result.text, cap.refused) == ("bought a cap", None)
    elif fill is RAN:
        assert (cap.result.text, cap.refused) == ("one cap, 9 euros", None)
    else:
        assert (cap.result.is_error, cap.refused) == (True, "unknown")
        assert "not made again" in cap.result.text


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store of each kind."""
    async with Place(request.param, tmp_path) as place, place.open() as store:
        yield store


async def interrupt(host: Host, client: Client, until: Callable[[RunEvent], bool]) -> None:
    """Cancel a run at an event."""
    reached = asyncio.Event()

    async def tell(event: RunEvent) -> None:
        if until(event):
            reached.set()
            await asyncio.Event().wait()

    run = asyncio.ensure_future(host.run("Buy both", client, run_id="r", on_event=tell))
    await reached.wait()
    run.cancel()
    await asyncio.wait([run])


async def test_an_ended_run_is_told_again_until_it_is_forgotten(store: Store, tmp_path: Path):
    """No model is asked and nothing is bought by the second call; forgotten, the id begins a new run."""
    log, person = tmp_path / "log", Person(approve)
    first, model = await resume(store, log, person, buy_both(), "Done.")
    again, silent = await resume(store, log, person)
    assert (again.text, again.messages, len(again.calls)) == (first.text, first.messages, 2)
    assert (len(model.requests), silent.requests) == (2, [])
    await Host(store=store, reviewer=None).forget_run("r")
    await resume(store, log, person, "Nothing to buy.")
    assert sorted(log.read_text().split()) == ["cap", "hat"]


async def test_an_id_belongs_to_one_request(store: Store, tmp_path: Path):
    """Another question under the same id is a mistake, and nobody is asked."""
    await resume(store, tmp_path / "log", Person(approve), "Done.")
    async with Client(make_shop(tmp_path / "log")) as client:
        with pytest.raises(ConfigError, match="another request"):
            await Host(Scripted([]), reviewer=None, store=store).run("Sell both", client, run_id="r")


async def test_two_processes_with_one_run_do_not_both_go_on(store: Store, tmp_path: Path):
    """The one that is slower ends, before it has the call made a second time."""
    log = tmp_path / "log"
    host = Host(Scripted([buy_both(), "Late."]), policy=ALLOW, reviewer=None, store=store)
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def tell(event: RunEvent) -> None:
        if isinstance(event, ToolBegan):
            waits.set()
            await goes_on.wait()

    async with Client(make_shop(log)) as client:
        slow = asyncio.ensure_future(host.run("Buy both", client, run_id="r", on_event=tell))
        await waits.wait()
        await resume(store, log, Person(approve), "Done.")
        goes_on.set()
        with pytest.raises(ConfigError, match="goes on elsewhere"):
            await slow
    assert sorted(log.read_text().split()) == ["cap", "hat"]


@pytest.mark.parametrize("place", ["client", "gateway"])
async def test_a_call_that_the_source_confirms_is_recorded_before_it_is_asked_about(place: str, tmp_path: Path):
    """Nobody hears when such a call was allowed, so it counts as not known from then on."""
    log, store, asked = tmp_path / "log", MemoryStore(), asyncio.Event()

    class Waiting(Person):
        async def confirm(self, item: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    host = Host(Scripted([buy_both()]), reviewer=Waiting(approve), store=store)
    target: Any = make_shop(log)
    if place == "gateway":
        target = Gateway({"shop": target}, host, names="none").server
    async with Client(target, confirm=host if place == "client" else None) as client:
        run = asyncio.ensure_future(host.run("Buy both", client, run_id="r"))
        await asked.wait()
        run.cancel()
        await asyncio.wait([run])
    person = Person(approve)
    result, _ = await resume(store, log, person, "Done.")
    assert {call.refused for call in result.calls} == {"unknown"}
    assert not log.exists()


async def test_the_question_shows_what_was_sent(tmp_path: Path):
    """A person may have changed the call before it ran."""
    log, store = tmp_path / "log", MemoryStore()

    def to_cap(item: Any) -> EditCall:
        params = CallToolRequestParams.of("buy", {"product": "cap"})
        return EditCall(params=params, digest=digest(params))

    began, held = asyncio.Event(), Server("shop")

    @held.tool
    async def buy(product: str) -> str:
        """Buy something."""
        began.set()
        await asyncio.Event().wait()
        return ""

    wanted = CreateMessageResult(
        role="assistant",
        model="m",
        stop_reason="toolUse",
        content=[ToolUseContent(id="1", name="buy", input={"product": "hat"})],
    )
    host = Host(Scripted([wanted]), reviewer=Person(to_cap), store=store)
    async with Client(held) as client:
        run = asyncio.ensure_future(host.run("Buy both", client, run_id="r"))
        await began.wait()
        run.cancel()
        await asyncio.wait([run])
    person = Person(approve, fill=RAN)
    await resume(store, log, person, "Done.")
    [form] = person.forms
    assert 'buy {"product":"cap"}' in form.params.message


async def test_a_tool_that_changed_meanwhile_is_not_called(tmp_path: Path):
    """The model chose it by another description; it reads that it has to look again."""
    log, store = tmp_path / "log", MemoryStore()
    host = Host(Scripted([buy_both()]), policy=ALLOW, reviewer=None, store=store)
    async with Client(make_shop(log)) as client:
        await interrupt(host, client, lambda event: isinstance(event, ToolBegan))
    other, sold = Server("shop"), list[str]()

    @other.tool
    def buy(product: str) -> str:
        """Sell something."""
        sold.append(product)
        return ""

    for server in (other, _rename_tool()):
        copied = MemoryStore()
        for at, body in enumerate(await store.run_entries("r")):
            await copied.add_run_entry("r", at, body)
        async with Client(server) as client:
            later = Host(Scripted(["Done."]), policy=ALLOW, reviewer=None, store=copied)
            result = await later.run("Buy both", client, run_id="r")
        assert {call.refused for call in result.calls} == {"definition"}
    assert sold == []


def _rename_tool() -> Server:
    server = Server("shop")

    @server.tool
    def purchase(product: str) -> str:
        """Buy something."""
        return product

    return server


def _read_and_send() -> Server:
    server = Server("notes")
    for name, hints in {"read": {"openWorldHint": False}, "fetch": {"openWorldHint": True}, "send": {}}.items():
        server.tool(name=name, annotations={"readOnlyHint": name != "send", **hints})(lambda: "ok")
    return server


@pytest.mark.parametrize("place", ["run", "client", "gateway"])
async def test_a_resumed_run_knows_what_it_has_read(place: str):
    """Labels outlive the process: a call that could send what was read before is asked about."""
    store = MemoryStore()
    policy = Policy(default="flow", labels=(LabelRule(labels=("outbound",), name="send"),))

    def make_answer(*names: str) -> CreateMessageResult:
        uses = [ToolUseContent(id=name, name=name, input={}) for name in names]
        return CreateMessageResult(role="assistant", model="m", stop_reason="toolUse", content=uses)

    def connect(host: Host) -> Client:
        target: Any = _read_and_send()
        target = Gateway({"notes": target}, host, names="none").server if place == "gateway" else target
        return Client(target, confirm=host if place == "client" else None)

    answers = [make_answer("send"), make_answer("read", "fetch"), make_answer("send")]
    host = Host(Scripted(answers), reviewer=Person(approve), store=store, policy=policy)
    steps: list[RunEvent] = []

    def is_second_send(event: RunEvent) -> bool:
        steps.append(event)
        return isinstance(event, ToolBegan) and event.step == 3

    async with connect(host) as client:
        await interrupt(host, client, is_second_send)
    person = Person(approve)
    later = Host(Scripted(["Done."]), reviewer=person, store=store, policy=policy)
    async with connect(later) as client:
        assert (await later.run("Buy both", client, run_id="r")).text == "Done."
    assert [item.params.name for item in person.shown] == ["send"]
    assert "this session has read" in person.shown[0].risks[0].text
