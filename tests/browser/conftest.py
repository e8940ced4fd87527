"""The browser tests run only where they are asked for (``pytest -m browser``): they need Chromium and axe-core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio

LONG = 100.0
"""Seconds after which a test says what it waits for; `make browser` ends it at 120."""


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", "browser: drives a real Chromium; needs tests/browser/setup.sh (make browser)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests unread unless they are asked for: Playwright may not be there."""
    wanted = config.option.markexpr.replace("not browser", "")
    return True if collection_path.name.startswith("test_") and "browser" not in wanted else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run them in one event loop: a browser belongs to the loop it was started in, and starting one takes a second."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def told() -> AsyncIterator[None]:
    """Print what a test waits for before its time is over: a browser that does not answer leaves no stack to read."""
    timer = asyncio.get_running_loop().call_later(LONG, print_tasks)
    yield
    timer.cancel()


def print_tasks() -> None:
    """Print where each task stands, down to what it waits for."""
    for task in asyncio.all_tasks():
        frames, waiting = [], task.get_coro()
        while (frame := getattr(waiting, "cr_frame", None)) is not None:
            frames.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            waiting = getattr(waiting, "cr_await", None)
        print(task.get_name(), *frames, sep="\n  ")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[object]:
    """Start a browser, once: each visit has a profile of its own."""
    from tests.browser.screen import browser

    async with browser() as started:
        yield started
