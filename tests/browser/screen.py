"""A real browser for the tests: Chromium without a window, which may talk to this machine only."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    # Whatever a page tries to reach elsewhere fails at once, and is seen by the test as a request.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost , EXCLUDE *.localhost",
]
expect.set_options(timeout=30_000)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@asynccontextmanager
async def browser(*, flags: Sequence[str] = FLAGS) -> AsyncIterator[Browser]:
    """Start a browser for a block."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    assert program, "needs Chromium: tests/browser/setup.sh"
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=program, headless=True, args=list(flags))
        try:
            yield started
        finally:
            await started.close()


class Watch:
    """What a page did that none of ours does: dialogs, errors, requests to elsewhere, navigations away."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.faults: list[str] = []
        self._origin = origin
        context.on("page", self._watch)
        context.on("request", lambda request: self._requested(request.url))

    def _requested(self, url: str) -> None:
        if not url.startswith(f"{self._origin}/"):
            self.faults.append(f"request to {url}")

    def _watch(self, page: Page) -> None:
        page.on("dialog", self._dialog)
        page.on("pageerror", lambda error: self.faults.append(f"error {error}"))
        page.on("console", lambda said: said.type == "error" and self._said(said.text))

    async def _dialog(self, dialog: object) -> None:
        self.faults.append("dialog")

    def _said(self, text: str) -> None:
        # The browser reports refused and interrupted requests itself; those of a test are meant.
        if "Failed to load resource" not in text:
            self.faults.append(f"console {text}")
