"""No test of the engine may leave anything behind: no task, no exception that nobody saw, no error in the loop."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator

import pytest

from tests.support.linked import Clock, settle


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """Fail where a task goes on, or an exception was dropped."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    before = asyncio.all_tasks()
    yield
    await settle()
    gc.collect(1)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert left == set()
    assert complaints == []


@pytest.fixture
async def clock() -> Clock:
    """Stop the time of the loop."""
    return Clock(asyncio.get_running_loop())


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Collect what the engine logs as an error, in ``records``."""
    caplog.set_level(logging.ERROR, logger="antiphon.connection")
    return caplog
