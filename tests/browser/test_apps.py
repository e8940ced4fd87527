"""A server's interface is shown by a host that others wrote: the official client and the extension's AppBridge."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.support.child_server import listens
from tests.support.network import until
from tests.support.ports import free_port

pytestmark = pytest.mark.browser

HOME = Path(os.environ.get("ANTIPHON_BROWSER_DIR") or Path.home() / ".cache" / "antiphon-browser")
APPS = Path(__file__).parent / "apps"


def bundle(folder: Path) -> None:
    """Put each program with what it imports into one file, as authors do."""
    # Beside the packages, where the bundler looks for them.
    with tempfile.TemporaryDirectory(dir=HOME) as beside:
        for name in ("host.js", "view.js"):
            source = shutil.copy(APPS / name, beside)
            program = HOME / "node_modules" / ".bin" / "esbuild"
            options = ["--bundle", "--format=esm", f"--outfile={folder / name}", "--log-level=error"]
            subprocess.run([program, source, *options], check=True)


async def test_a_host_of_others_shows_an_interface(chromium: Browser, tmp_path: Path):
    """It gets the result of its tool, calls a tool that only it may call, and reaches no more than it named."""
    await asyncio.to_thread(bundle, tmp_path)
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, APPS / "server.py", tmp_path, str(port))
    try:
        await until(lambda: listens(f"127.0.0.1:{port}"))
        page = await chromium.new_page()
        blocked: list[str] = []
        page.on("console", lambda said: "Content Security Policy" in said.text and blocked.append(said.text))
        await page.goto(f"http://127.0.0.1:{port}/")
        frame = page.frame_locator("iframe")
        await expect(frame.locator("output")).to_have_text('{"hat":10}')
        await expect(page.locator("p")).to_have_text("prices")
        await frame.locator("button").click()
        await expect(frame.locator("output")).to_have_text('{"hat":11}')
        await frame.locator("a").click()
        await expect(frame.locator("p")).to_contain_text("Failed to fetch")
        # The frame has a process of its own, whose words may come after what it draws.
        await until(lambda: blocked)
        assert "connect-src" in blocked[0]
        await page.close()
    finally:
        process.kill()
        await process.wait()
