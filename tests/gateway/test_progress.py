"""A call that goes on says so to whoever asked for progress."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from antiphon import Context
from antiphon.gateway.served_requests import report_progress


class Heard:
    """Takes reports as a context does."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, float | None, str | None]] = []
        self.news = asyncio.Event()

    async def progress(self, *report: Any) -> None:
        """Take one."""
        self.reports.append(cast("tuple[float, float | None, str | None]", report))
        self.news.set()


async def test_what_a_server_writes_while_it_starts_is_told(monkeypatch: pytest.MonkeyPatch):
    """Each text once, until the call has been quiet for long."""
    monkeypatch.setattr("antiphon.gateway.served_requests._LOOK", 0.001)
    heard, texts = Heard(), iter(["Starting x: fetching", "Starting x: fetching", "Starting x: installing"])
    async with report_progress(cast("Context", heard), lambda: next(texts, None), quiet=600):
        while len(heard.reports) < 2:
            heard.news.clear()
            await heard.news.wait()
    assert [text for _, _, text in heard.reports] == ["Starting x: fetching", "Starting x: installing"]


async def test_a_quiet_call_is_said_to_go_on():
    """Between the reports of the server itself, and never with a value that would keep one of these back."""
    heard = Heard()
    async with report_progress(cast("Context", heard), quiet=0.01) as report:
        await heard.news.wait()
        await report(1, 3, "one")
        while len(heard.reports) < 4:
            heard.news.clear()
            await heard.news.wait()
        await report(1.5, 3, "more")
    values = [value for value, _, _ in heard.reports]
    assert values == sorted(set(values))
    assert (1, 3, "one") in heard.reports
    assert heard.reports[-1] == (1.5, 3, "more")
