"""In which task and context a handler runs, and who may give its reply."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from antiphon.engine.connection import LATER
from antiphon.errors import InternalError, InvalidParams, InvalidRequest
from antiphon.protocol.events import Request
from antiphon.wire.revisions import LATEST
from antiphon.wire.subscriptions import SubscriptionFilter, SubscriptionsListenRequestParams
from antiphon.wire.tools import CallToolResult
from tests.support.linked import done, linked, settle


async def test_handlers_that_never_wait_share_one_task():
    """The one that reads: no task is made for any of them."""
    tasks = []

    async def tool(_request, _peer):
        tasks.append(asyncio.current_task())
        return done()

    async with linked(tool) as link:
        for _ in range(20):
            await link.call()
        assert len(set(tasks)) == 1
        assert len(link.server.tasks) == 1


async def test_a_handler_that_waits_keeps_its_task_and_another_reads_on():
    """It is the same task before and after; the connection serves others meanwhile."""
    go, tasks = asyncio.Event(), []

    async def tool(request, _peer):
        if request.params.name == "slow":
            tasks.append(asyncio.current_task())
            await go.wait()
            tasks.append(asyncio.current_task())
        return done(request.params.name)

    async with linked(tool) as link:
        slow = link.started("slow")
        await settle()
        assert await link.call("quick") == "quick"
        assert len(link.server.tasks) == 2
        go.set()
        assert await slow == "slow"
        assert tasks[0] is tasks[1]
        await settle()
        assert len(link.server.tasks) == 1


async def test_timeouts_and_groups_work_before_and_after_the_first_wait():
    """asyncio.timeout, TaskGroup and current_task see one task from the beginning to the end."""

    async def tool(_request, _peer):
        seen = []
        async with asyncio.timeout(30):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timeout")
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.sleep(0))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
                raise ValueError
        except* ValueError:
            seen.append("group")
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(30)
        except TimeoutError:
            seen.append("timeout")
        return done(" ".join(seen))

    async with linked(tool) as link:
        assert await link.call() == "timeout group timeout"


async def test_a_timeout_entered_before_the_first_wait_ends_a_handler():
    """Its first suspension is inside of it."""

    async def tool(_request, _peer):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    async with linked(tool) as link:
        with pytest.raises(InternalError):
            await link.call()


async def test_what_a_handler_sets_is_seen_by_no_other():
    """Context variables are its own, in the task it shares as in the one it keeps."""
    name: ContextVar[str] = ContextVar("name", default="nobody")
    go = asyncio.Event()

    async def tool(request, _peer):
        before = name.get()
        name.set(request.params.name)
        if request.params.name == "slow":
            await go.wait()
        await asyncio.sleep(0)
        return done(f"{before} {name.get()}")

    async with linked(tool) as link:
        slow = link.started("slow")
        assert await link.call("a") == "nobody a"
        assert await link.call("b") == "nobody b"
        go.set()
        assert await slow == "nobody slow"
        assert name.get() == "nobody"


async def test_tasks_of_a_handler_inherit_its_context():
    """What it starts sees what it set."""
    name: ContextVar[str] = ContextVar("name", default="nobody")

    async def tool(_request, _peer):
        async def look():
            return name.get()

        name.set("me")
        return done(" ".join([await asyncio.create_task(look()), await asyncio.create_task(look())]))

    async with linked(tool) as link:
        assert await link.call() == "me me"


# --- replies given later --------------------------------------------------------------------------------------------


async def test_a_reply_may_be_given_later():
    """By whoever has the request."""
    kept = []

    def tool(request, _peer):
        kept.append(request)
        return LATER

    async with linked(tool) as link:
        call = link.started()
        await settle()
        assert not call.done()
        assert link.server.reply(kept[0], done("late")) is None
        assert await call == "late"
        link.server.reply(kept[0], done("twice"))
        link.server.reply_error(kept[0], InvalidParams("thrice"))
        link.check_empty()


async def test_a_coroutine_may_leave_its_reply_for_later():
    """Having waited first."""
    kept = []

    async def tool(request, _peer):
        await asyncio.sleep(0)
        kept.append(request)
        return LATER

    async with linked(tool) as link:
        call = link.started()
        await settle()
        link.server.reply_error(kept[0], InvalidParams("later"))
        with pytest.raises(InvalidParams, match="later"):
            await call


async def test_a_later_reply_that_cannot_be_encoded_becomes_an_error(errors):
    """Whoever gives it, in a callback perhaps, has nobody to raise to."""
    kept = []

    def tool(request, _peer):
        kept.append(request)
        return LATER

    async with linked(tool) as link:
        call = link.started()
        await settle()
        link.server.reply(kept[0], CallToolResult(content=[], structured_content={"a": object()}))
        with pytest.raises(InternalError):
            await call
    assert len(errors.records) == 1


async def test_requests_left_for_later_do_not_loosen_the_limit():
    """Each counts as one while it is open, and as none after."""
    kept: list[Request] = []

    def listen(request, _peer):
        request.on_cancel = lambda _reason: None
        kept.append(request)
        return LATER

    params = SubscriptionsListenRequestParams(notifications=SubscriptionFilter())
    async with linked({"subscriptions/listen": listen}, revision=LATEST, server={"max_served": 3}) as link:
        calls = [
            asyncio.ensure_future(link.client.request(link.open("subscriptions/listen", params))) for _ in range(3)
        ]
        await settle()
        for _ in range(5):
            with pytest.raises(InvalidRequest, match="Too many requests"):
                await link.client.request(link.open("subscriptions/listen", params))
        link.server.reply(kept[0], done())
        again = asyncio.ensure_future(link.client.request(link.open("subscriptions/listen", params)))
        await settle()
        for request in kept[1:]:
            link.server.reply(request, done())
        await asyncio.gather(*calls, again)
        link.check_empty()
