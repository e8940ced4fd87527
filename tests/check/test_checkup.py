"""A check of a server: each fault is found at its place, and nothing else; whatever it does, the check ends."""

from __future__ import annotations

import json

import pytest

from antiphon import Context, Server
from antiphon.channel import Channel
from antiphon.check import checkup, raw_peer, server_lists
from antiphon.check.checkup import check_server
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS
from tests.check.fault_search import PROCESSES, SILENT, assert_found, look_for_fault, start_faulty
from tests.check.faults import FAULTS
from tests.check.faulty_memory import FaultyServer, MutatedServer
from tests.support.namespaces import may_close_network


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - PROCESSES - {"endless"}))
async def test_a_fault_in_messages_is_found_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch):
    """A server in memory with one fault has findings of one rule, at the place of the fault."""
    if name in SILENT:
        monkeypatch.setattr(checkup, "START_WAIT", 2.0)
    await look_for_fault(name, in_process=False)


@pytest.mark.parametrize("name", sorted(PROCESSES - (set() if may_close_network() else {"needs a network"})))
async def test_a_fault_of_a_process_is_found_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch):
    """A process that hangs, floods, dies or writes rubbish is ended, and its fault is found."""
    if name in SILENT:
        monkeypatch.setattr(checkup, "START_WAIT", 5.0)
    monkeypatch.setattr(checkup, "MEMORY_WAIT", 60.0)
    monkeypatch.setattr(raw_peer, "MAX_MESSAGES", 2_000)  # read at each of its requests: 20,000 take seconds
    monkeypatch.setattr(checkup, "SLOW_START", 0.9 if name == "starts slowly" else 60.0)
    await look_for_fault(name, in_process=True)


async def test_a_right_server_is_checked_on_every_revision():
    """It has no finding on any of them."""
    report = await check_server(FaultyServer("no fault"), timeout=30.0)
    assert_found(report, FAULTS["no fault"])
    assert report.revisions == [one.name for one in REVISIONS]
    assert [*report.definitions] == ["tools count", "tools greet", "resources note://one",
                                     "resourceTemplates note://{id}", "prompts hello"]  # fmt: skip


async def test_an_id_that_became_text_is_no_reply_to_the_text():
    """The reply to 7 comes as one to "7", which was answered before: no second answer, and the request is answered."""
    report = await check_server(FaultyServer("ids become text"), timeout=2.0)
    assert {one.rule.id for one in report.findings} == {"rpc.id"}


async def test_a_list_without_end_is_left(monkeypatch: pytest.MonkeyPatch):
    """A server that lists pages for ever costs a bounded number of requests."""
    monkeypatch.setattr(server_lists, "MAX_PAGES", 5)
    report = await check_server(FaultyServer("endless"), timeout=30.0, revision="2025-11-25")
    assert [one.rule.id for one in report.findings] == ["list.endless"]


async def test_a_check_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch):
    """What was found until then is reported, with a finding that the check was not finished."""
    monkeypatch.setattr(checkup, "TOTAL_WAIT", 1.0)
    report = await check_server(FaultyServer("silent"), timeout=30.0)
    assert [one.rule.id for one in report.findings] == ["safety.unfinished"]


async def test_a_tool_is_called_only_if_it_was_named():
    """A server sees no call of a tool without ``calls``."""
    server, called = Server("sums"), list[int]()

    @server.tool
    async def add(number: int) -> int:
        """Add a number to the sum."""
        called.append(number)
        return number

    assert (await check_server(server, timeout=30.0)).findings == []
    assert called == []
    report = await check_server(server, calls=['add={"number": 3}'], timeout=30.0)
    assert report.findings == []
    assert set(called) == {3}


async def test_progress_of_a_call_is_right():
    """A tool that counts its work, twice, breaks no rule on any revision."""
    server = Server("work")

    @server.tool
    async def work(ctx: Context) -> str:
        """Do two pieces of work."""
        await ctx.progress(1, 2)
        await ctx.progress(2, 2)
        return "done"

    report = await check_server(server, calls=["work", "work"], timeout=30.0)
    assert (report.findings, report.problem) == ([], "")


async def test_a_server_that_asks_without_a_call_is_found():
    """On the older revisions everything is declared, and still nobody has called a tool."""
    report = await check_server(FaultyServer("asks undeclared"), timeout=30.0)
    found = {one.rule.id: one.revisions for one in report.findings}
    assert found == {"asks.undeclared": ("2025-11-25",), "asks.unprompted": ("2025-06-18", "2025-03-26", "2024-11-05")}


async def test_a_changed_definition_is_found():
    """The digests of an earlier report are compared with the definitions of today."""
    server = Server("sums")

    @server.tool
    async def add(number: int) -> int:
        """Add a number to the sum."""
        return number

    before = (await check_server(server, timeout=30.0)).definitions
    assert (await check_server(server, previous=before, timeout=30.0)).findings == []
    report = await check_server(server, previous=dict.fromkeys(before, "0"), timeout=30.0)
    assert [(one.rule.id, one.place) for one in report.findings] == [("deception.changed", "tools add")]


@pytest.mark.parametrize("options", [{"revision": "1999-12-31"}, {"calls": ["add={"]}], ids=str)
async def test_options_that_mean_nothing_are_refused(options: dict[str, object]):
    """The error says which, before anything is started."""
    with pytest.raises(ConfigError):
        await check_server(["antiphon-no-such-program"], **options)  # pyright: ignore[reportArgumentType]


async def test_a_tool_that_is_not_there_is_said_to_be_missing():
    """A name with a typo is not passed over: what was to be tried was not."""
    report = await check_server(FaultyServer("no fault"), calls=["no-such-tool"], timeout=30.0)
    assert "no tool no-such-tool" in report.problem


async def test_names_that_are_no_texts_are_findings():
    """A name that cannot be looked up ends nothing, also where tools may be called."""

    class Named(FaultyServer):
        def send(self, channel: Channel, message: object) -> None:
            text = json.dumps(message).replace('"name": "greet"', '"name": ["greet"]')
            super().send(channel, text.encode())

    report = await check_server(Named("no fault"), calls=['count={"text": "x"}'], timeout=30.0, revision="2025-11-25")
    assert {one.rule.id for one in report.errors} == {"tools.shape"}
    assert report.problem == ""


async def test_a_program_that_does_not_exist_is_a_problem():
    """It cannot be checked, which is no finding about a server."""
    report = await check_server(["antiphon-no-such-program"])
    assert "antiphon-no-such-program" in report.problem
    assert report.findings == []


def start_slowly(seconds: float) -> dict[str, object]:
    """Return the entry of a server that keeps every rule, once it has started."""
    program = f"import time; time.sleep({seconds}); from tests.check.faults import main; main('no fault')"
    return {**start_faulty("no fault"), "args": ["-c", program]}


async def test_a_server_that_starts_slowly_speaks_what_it_speaks(monkeypatch: pytest.MonkeyPatch):
    """The first answer says how long a start takes; a revision is not given up before."""
    monkeypatch.setattr(checkup, "MODERN_WAIT", 0.2)
    report = await check_server(start_slowly(1.0), timeout=30.0)
    assert (report.revisions, report.problem) == ([one.name for one in REVISIONS], "")


async def test_later_connections_may_take_as_long_as_the_first():
    """A server that starts more slowly than it must reply has a second session, and refuses what it should."""
    report = await check_server(start_slowly(3.0), timeout=2.5, revision="2025-11-25")
    assert (report.findings, report.problem) == ([], "")


async def test_a_program_gets_a_home_and_no_keys(monkeypatch: pytest.MonkeyPatch):
    """The environment of a server is small: its home is a temporary one, and keys of its entry are replaced."""
    monkeypatch.setenv("ANTIPHON_CHECK_SECRET", "s3cret-Value")
    entry = {**start_faulty("tells its environment"), "env": {"API_KEY": "q8Zr41xx"}}
    report = await check_server(entry, timeout=30.0, revision="2025-11-25")
    told = next(one.seen for one in report.findings if one.rule.id == "rpc.rubbish")
    assert "antiphon-check-placeholder" in told
    assert "s3cret-Value" not in told
    assert "antiphon-check-" in told.partition("HOME")[2]


async def test_what_was_called_is_cancelled_on_each_revision():
    """A call is cancelled, by a notification, on the revisions of a channel; a list where no call is allowed."""

    class Watched(FaultyServer):
        def take(self, channel: Channel, frame: bytes) -> bool:
            message = json.loads(frame) if frame.endswith(b"}") else {}
            methods[message.get("id")] = message.get("method") if isinstance(message, dict) else ""
            if message.get("method") == "notifications/cancelled":
                cancelled.append(methods.get(message["params"]["requestId"], "nothing"))
            return super().take(channel, frame)

    for calls, method in ((["greet"], "tools/call"), ([], "tools/list")):
        methods, cancelled = dict[object, object](), list[object]()
        report = await check_server(Watched("no fault"), calls=calls, timeout=30.0, revision="2025-11-25")
        assert (report.findings, cancelled) == ([], ["nothing", method])


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_a_server_answers_the_check_ends(seed: int, monkeypatch: pytest.MonkeyPatch):
    """A member of any type in any place is a finding, and no error of ours."""
    monkeypatch.setattr(checkup, "START_WAIT", 1.0)
    revision = REVISIONS[seed % len(REVISIONS)].name
    calls = ['count={"text": "x"}', "greet"]
    report = await check_server(MutatedServer(seed), calls=calls, timeout=1.0, revision=revision)
    assert set(report.revisions) <= {revision}
    assert all(one.rule.title and one.place for one in report.findings)
