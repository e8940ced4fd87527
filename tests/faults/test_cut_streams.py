"""The connection of a long call is cut after each of its messages: progress, a log line, an ask, the result."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from antiphon import Client, Context, PeerError, RemoteProtocolError, Server
from antiphon.client.rounds.loop import RoundLimits
from antiphon.transports.http.client.error_replies import BROKEN
from antiphon.wire.tools import ToolAnnotations
from tests.support.asgi import running
from tests.support.cutting import cutting

RESUMABLE = [("2025-11-25", after) for after in range(1, 8)]
"""The priming event, two reports, a log line, the ask, a report, the result."""
RESUMABLE += [(revision, after) for revision in ("2025-03-26", "2025-06-18") for after in range(1, 7)]
"""The same without the priming event."""


class Watched:
    """A server whose tools note what happens to them, and a client's view of one call."""

    def __init__(self, **options):
        self.options = options
        self.runs = []
        self.asked = 0
        self.progress = []
        self.logged = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.server = Server("long", version="1")
        self.server.tool(self.describe, name="unmarked")
        self.server.tool(self.describe, name="read_only", annotations=ToolAnnotations(read_only_hint=True))
        self.server.tool(self.describe, name="idempotent", annotations=ToolAnnotations(idempotent_hint=True))

    async def describe(self, ctx: Context) -> str:
        """Say something, ask something, say something."""
        self.runs.append("begun")
        await ctx.progress(1)
        await ctx.progress(2)
        await ctx.info("thinking")
        reply = await ctx.sample("?", max_tokens=10)
        await ctx.progress(3)
        await self.go_on.wait()
        self.runs.append("ended")
        return reply.text

    async def sample(self, params, origin):
        self.asked += 1
        return "done"

    def client(self, through, revision):
        return Client(
            f"http://{through}/mcp",
            revision=revision,
            sampling=self.sample,
            log_level="info",
            on_log=lambda params: self.logged.append(params.data),
            timeout=60,
            **self.options,
        )

    async def call(self, client, name):
        result = await client.call_tool(name, progress=lambda value, *_: self.progress.append(value))
        return result.text


@asynccontextmanager
async def calling(seen, revision, after, **options):
    """Serve, and connect through a proxy that cuts; yields the cut and the client."""
    async with (
        running(seen.server.asgi()) as host,
        cutting(host, after, **options) as (cut, through),
        seen.client(through, revision) as client,
    ):
        yield cut, client


@pytest.mark.parametrize(("revision", "after"), RESUMABLE)
async def test_a_legacy_call_loses_and_repeats_nothing(revision, after):
    """It is resumed where it was cut: one run, each report once, one answer, one result."""
    seen = Watched()
    async with calling(seen, revision, after) as (cut, client):
        assert await seen.call(client, "unmarked") == "done"
    assert cut.done and cut.calls == 1
    assert seen.runs == ["begun", "ended"]
    assert (seen.progress, seen.logged, seen.asked) == ([1, 2, 3], ["thinking"], 1)


@pytest.mark.parametrize(("revision", "events"), [("2025-11-25", 2), ("2025-11-25", 3), ("2025-06-18", 1)])
async def test_a_legacy_call_survives_any_number_of_cuts(revision, events):
    """Each connection carries a message or two of the call, and is cut again."""
    seen = Watched()
    async with calling(seen, revision, events, every=True) as (cut, client):
        assert await seen.call(client, "unmarked") == "done"
    assert cut.cuts > 2
    assert seen.runs == ["begun", "ended"]
    assert (seen.progress, seen.logged, seen.asked) == ([1, 2, 3], ["thinking"], 1)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_call_that_cannot_be_resumed_is_reported(revision):
    """Nothing has come before the cut, and the tool is not marked: nobody calls it twice, the error says what to do."""
    seen = Watched()
    async with calling(seen, revision, 0) as (cut, client):
        await client.list_tools()
        with pytest.raises(PeerError, match=r"'unmarked' is not marked readOnlyHint or idempotentHint") as raised:
            await seen.call(client, "unmarked")
        assert "http://127.0.0.1" in str(raised.value) and "before you call it again" in str(raised.value)
        assert await seen.call(client, "unmarked") == "done"
    assert cut.calls == (3 if revision == "2026-07-28" else 2)


@pytest.mark.parametrize("name", ["read_only", "idempotent"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_marked_call_that_cannot_be_resumed_is_made_again(revision, name):
    """Under another id; the ask of the lost call was answered by nobody."""
    seen = Watched()
    async with calling(seen, revision, 0) as (cut, client):
        await client.list_tools()
        assert await seen.call(client, name) == "done"
    assert cut.done
    assert seen.runs.count("begun") == 2
    assert seen.progress == [1, 2, 3]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_modern_call_that_is_marked_is_made_again(after):
    """2026-07-28: wherever its first request is cut, it goes out once more, and the model is asked once."""
    seen = Watched()
    async with calling(seen, "2026-07-28", after) as (cut, client):
        await client.list_tools()
        assert await seen.call(client, "idempotent") == "done"
    # The lost one, the same again, and its retry with the answer.
    assert cut.calls == 3
    assert seen.asked == 1
    assert seen.progress == [*[1, 2][:after], 1, 2, 3]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_modern_call_that_is_not_marked_is_reported(after):
    """2026-07-28: it cannot be resumed, and nobody knows what was done."""
    seen = Watched()
    async with calling(seen, "2026-07-28", after) as (cut, client):
        await client.list_tools()
        with pytest.raises(PeerError, match="not sent again") as raised:
            await seen.call(client, "unmarked")
    assert raised.value.code == BROKEN
    assert (cut.calls, seen.asked, seen.progress) == (1, 0, [1, 2][:after])


async def test_a_mark_that_was_never_seen_does_not_count():
    """The client has listed nothing, so it knows of no tool that it may be called twice."""
    seen = Watched()
    async with calling(seen, "2026-07-28", 0) as (cut, client):
        with pytest.raises(PeerError, match="in a list this client has seen"):
            await seen.call(client, "idempotent")
    assert cut.calls == 1


@pytest.mark.parametrize("after", [0, 1])
async def test_a_retry_that_is_lost_goes_out_again_as_it_was(after):
    """With the same state and the same answers: the server joins it to the call, and nobody is asked twice."""
    seen = Watched()
    async with calling(seen, "2026-07-28", after, call=2) as (cut, client):
        await client.list_tools()
        assert await seen.call(client, "idempotent") == "done"
    assert (cut.calls, seen.asked) == (3, 1)
    assert seen.runs == ["begun", "ended"]


async def test_a_retry_of_a_tool_that_is_not_marked_is_reported():
    """What a stranger's server makes of the same state twice is not known."""
    seen = Watched()
    async with calling(seen, "2026-07-28", 0, call=2) as (cut, client):
        await client.list_tools()
        with pytest.raises(PeerError, match="not sent again"):
            await seen.call(client, "unmarked")
    assert (cut.calls, seen.asked) == (2, 1)


async def test_a_retry_whose_call_the_server_has_given_up_is_reported():
    """To close the stream was to cancel the call, if it was at work: the error says that it may be made again."""
    seen = Watched()
    seen.go_on.clear()
    async with calling(seen, "2026-07-28", 1, call=2) as (_, client):
        await client.list_tools()
        with pytest.raises(PeerError, match="had given up the call") as raised:
            await seen.call(client, "idempotent")
        assert raised.value.code == BROKEN
        seen.go_on.set()
        assert await seen.call(client, "idempotent") == "done"
    assert seen.asked == 2


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_call_that_was_made_again_is_still_given_up_if_it_asks_too_much(revision):
    """The limits hold for it, though its id is another one."""
    seen = Watched(limits=RoundLimits(asks=0))
    async with calling(seen, revision, 0) as (cut, client):
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="more than 0 answers"):
            await seen.call(client, "idempotent")
    assert (cut.calls, seen.asked) == (2, 0)
