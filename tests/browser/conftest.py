"""The browser tests run only where they are asked for (``pytest -m browser``): they need Chromium and axe-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", "browser: drives a real Chromium; needs tests/browser/setup.sh (make browser)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests unread unless they are asked for: Playwright may not be there."""
    wanted = config.option.markexpr.replace("not browser", "")
    return True if collection_path.name.startswith("test_") and "browser" not in wanted else None


@pytest.fixture
async def chromium() -> AsyncIterator[object]:
    """Start a browser."""
    from tests.browser.screen import browser

    async with browser() as started:
        yield started
