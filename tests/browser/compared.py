"""Pictures of the page as it was first, beside those of today: the same day, the same requests, the same windows.

``python -m tests.browser.compared docs/images`` (``make screenshots``) writes before-*.png and after-*.png. The old
page is not a drawing: it runs, from its first commit that takes pictures. This file takes them on both pages.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import msgspec

FIRST = "4beb7f2a7d68c7ca79f257a80765fd07f6c7c10f"
"""The oldest commit whose page runs and fills itself with requests."""
MOST = 150_000
"""Bytes of a picture at most."""
WINDOW: dict[str, Any] = {"viewport": {"width": 1120, "height": 640}}
VIEWS: dict[str, tuple[str, dict[str, Any]]] = {
    "queue": ("/", {}),
    "request": ("/review/{request}", {}),
    "tool": ("/review/{tool}", {}),
    "form": ("/review/{form}", {}),
    "several": ("/alike/{rain jacket}", {}),
    "history": ("/history", {}),
    "spending": ("/spending", {}),
    "server": ("/servers", {}),
    "phone": ("/review/{tool}", {"viewport": {"width": 390, "height": 760}, "has_touch": True}),
    "dark": ("/review/{rain jacket}", {"color_scheme": "dark"}),
    "chinese": ("/review/{tool}", {"locale": "zh-CN"}),
}
"""Each picture: the address, and how it is looked at."""
ROOT = Path(__file__).parent.parent.parent


async def take(prefix: str, folder: Path) -> None:
    """Take the pictures of the page that is found on the path."""
    pictures, screen = (
        importlib.import_module("tests.browser.pictures"),
        importlib.import_module("tests.browser.screen"),
    )
    with tempfile.TemporaryDirectory() as scratch:
        async with screen.browser() as chromium, pictures.scene(Path(scratch)) as made:
            ids = await pictures.fill(made) | {"tool": await call_tool(pictures, made)}
            for name, (path, options) in VIEWS.items():
                context = await chromium.new_context(
                    **{"locale": "en-GB", "reduced_motion": "reduce", **WINDOW, **options}
                )
                page = await context.new_page()
                await page.goto(made.running.address())
                await page.goto(made.running.origin + path.format(**ids))
                links = page.locator("main a[href^='/servers/']")
                if name == "server" and await links.count():
                    await links.first.click()
                    await page.wait_for_url("**/servers/*")
                await page.wait_for_timeout(900)
                await page.screenshot(path=folder / f"{prefix}-{name}.png")
                await context.close()


async def call_tool(pictures: Any, made: Any) -> str:
    """Let a program ask whether a tool may run that may destroy something; returns the id of the question."""
    from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations

    says = {"order": "Number of the order", "amount": "In euros", "notify": "Write to the customer"}
    kinds = {"order": {"type": "string"}, "amount": {"type": "number", "default": 0}, "notify": {"type": "boolean"}}
    members = {name: {**kinds[name], "description": text} for name, text in says.items()}
    refund = Tool(
        name="refund",
        description="Pay a customer back. The order is closed.",
        input_schema={"type": "object", "properties": members, "required": ["order", "amount"]},
        annotations=ToolAnnotations(destructive_hint=True),
    )
    arguments = {"order": "P-1004", "amount": 129.5, "notify": True}
    origin = pictures.asks(40, target=pictures.SHOP, call="refund", name="refund", **arguments)
    if "tool" in origin.__struct_fields__:
        origin = msgspec.structs.replace(origin, tool=refund)
    before = {question.id for question in await made.queue.pending()}
    params = CallToolRequestParams.of("refund", arguments)
    made.tasks.append(asyncio.ensure_future(made.host.confirm(params, origin)))
    async for _ in made.queue.changes():
        for question in await made.queue.pending():
            if question.id not in before:
                return question.id
    raise AssertionError


def pack(file: Path) -> None:
    """Compress a picture again: a browser compresses for speed."""
    from tests.browser.minute import make_chunk, split_chunks

    chunks = list(split_chunks(file.read_bytes()))
    data = zlib.compress(zlib.decompress(b"".join(part for kind, part in chunks if kind == b"IDAT")), 9)
    head = next(part for kind, part in chunks if kind == b"IHDR")
    parts = [make_chunk(b"IHDR", head), make_chunk(b"IDAT", data), make_chunk(b"IEND", b"")]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def main(images: Path) -> None:
    """Write all pictures into a folder."""
    images = images.absolute()
    with tempfile.TemporaryDirectory() as scratch:
        archive = subprocess.run(["git", "archive", FIRST], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", scratch], input=archive, check=True)
        for prefix, root in (("before", Path(scratch)), ("after", ROOT)):
            env = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
            subprocess.run([sys.executable, __file__, prefix, str(images)], cwd=root, env=env, check=True)
    for name in VIEWS:
        for prefix in ("before", "after"):
            pack(file := images / f"{prefix}-{name}.png")
            assert file.stat().st_size < MOST, file


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(take(sys.argv[1], Path(sys.argv[2])))
    else:
        main(Path(sys.argv[1]))
