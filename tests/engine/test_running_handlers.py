"""How handlers are run, driven by the task that reads or alone in one; what becomes of them is in ``test_handlers``."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar, copy_context

import pytest

from antiphon.engine.reader import LATER, drive_handler, run_alone
from antiphon.errors import InternalError
from antiphon.protocol.events import Request
from tests.support.linked import done, linked, settle


async def test_it_is_busy_as_long_as_a_reply_is_to_come():
    """And idle once it was given, by whomever."""
    held: list[Request] = []

    def tool(request, _peer):
        held.append(request)
        return LATER

    async with linked(tool) as link:
        call = link.started()
        await settle()
        assert link.server.is_busy()
        waiting = asyncio.ensure_future(link.server.wait_idle())
        await settle()
        assert not waiting.done()
        link.server.reply(held[0], done())
        await waiting
        assert await call == "done"


async def test_without_requests_nobody_waits_for_it_to_be_idle():
    """It is idle already."""
    async with linked(lambda _request, _peer: done()) as link:
        await link.server.wait_idle()
        assert not link.server.is_busy()


class Aside(BaseException):
    """No ``Exception``: what test runners raise to get past those who catch all of them."""


@pytest.mark.parametrize("kind", [Aside, GeneratorExit])
@pytest.mark.parametrize("waits", [False, True])
async def test_whatever_a_handler_raises_the_peer_is_answered(kind: type[BaseException], waits: bool):
    """And the connection goes on: the next request is served."""
    raised: list[bool] = []

    async def tool(_request, _peer):
        if waits:
            await asyncio.sleep(0)
        if not raised:
            raised.append(True)
            raise kind
        return done()

    async with linked(tool) as link:
        with pytest.raises(InternalError, match="Internal error"):
            await link.started()
        assert await link.started() == "done"


name: ContextVar[str] = ContextVar("name", default="nobody")


async def test_what_never_waits_is_not_reported():
    """It returns as if it had been awaited."""
    waits = []

    async def work():
        return 5

    assert await drive_handler(work(), waits.append, "it") == 5
    assert waits == []


async def test_the_first_wait_is_reported_once():
    """Before the task is suspended."""
    waits = []

    async def work():
        for _ in range(3):
            await asyncio.sleep(0)
        return 5

    assert await drive_handler(work(), waits.append, "it") == 5
    assert waits == ["it"]


@pytest.mark.parametrize("run", [drive_handler, run_alone])
@pytest.mark.parametrize("waits", [False, True])
async def test_an_exception_passes_through(waits, run):
    """With the frames of where it was raised."""

    async def work():
        await asyncio.sleep(0) if waits else None
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside") as caught:
        await run(work(), lambda _: None, None)
    assert "work" in [entry.name for entry in caught.traceback]


async def test_a_cancellation_reaches_the_coroutine_where_it_waits():
    """And it may clean up, or refuse."""
    seen = []

    async def work(refuses):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            await asyncio.sleep(0)
            seen.append(error.args)
            if not refuses:
                raise
        return "went on"

    for refuses in (False, True):
        task = asyncio.ensure_future(drive_in_task(work(refuses)))
        await asyncio.sleep(0)
        task.cancel("why")
        await asyncio.wait([task])
        assert task.cancelled() is not refuses
    assert seen == [("why",), ("why",)]


async def drive_in_task(work):
    """Await it as a handler is awaited."""
    return await drive_handler(work, lambda _: None, None)


async def test_the_coroutine_has_a_context_of_its_own():
    """At every step; what it sets does not come out, what is set outside later does not come in."""
    seen = []

    async def work():
        seen.append(name.get())
        name.set("me")
        await asyncio.sleep(0)
        seen.append(name.get())

    name.set("outside")
    await drive_handler(work(), lambda _: name.set("waits"), None)
    assert seen == ["outside", "me"]
    assert name.get() == "waits"


async def test_a_context_variable_token_can_be_reset():
    """Set and reset happen in one context, before and after a wait."""

    async def work():
        token = name.set("me")
        await asyncio.sleep(0)
        name.reset(token)
        return name.get()

    assert await drive_handler(work(), lambda _: None, None) == "nobody"


async def test_a_report_that_fails_closes_the_coroutine():
    """It does not hang in the air."""
    closed = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    def fails(_subject):
        raise RuntimeError("no task")

    with pytest.raises(RuntimeError, match="no task"):
        await drive_handler(work(), fails, None)
    assert closed == [True]


def test_a_coroutine_that_is_dropped_is_closed():
    """Its ``finally`` blocks run when the generator around it is collected."""
    closed = []

    async def work():
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def outer():
        await drive_handler(work(), lambda _: None, None)

    coroutine = outer()
    copy_context().run(coroutine.send, None)
    coroutine.close()
    gc.collect()
    assert closed == [True]


class Escape(BaseException):
    """Gets past those who catch every ``Exception``, as what test runners raise does."""


@pytest.mark.parametrize("run", [drive_handler, run_alone])
@pytest.mark.parametrize("kind", [Escape, GeneratorExit])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_is_no_exception_becomes_one(run, kind, waits):
    """It would end the task, and leave the peer without an answer."""

    async def work():
        await asyncio.sleep(0) if waits else None
        raise kind

    with pytest.raises(RuntimeError, match=f"the handler raised {kind.__name__}") as caught:
        await run(work(), lambda _: None, None)
    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_what_ends_the_process_or_the_task_alone_passes_through(kind):
    """It is meant for whoever runs us."""

    async def work():
        raise kind

    with pytest.raises(kind):
        await run_alone(work(), lambda _: None, None)


async def test_who_runs_alone_is_reported_at_once():
    """Although nothing waits: it has a task to be cancelled by."""
    waits = []

    async def work():
        return waits.copy()

    assert await run_alone(work(), waits.append, "it") == ["it"]
