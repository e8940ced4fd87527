"""The recording of a minute at the page: ten requests that wait, decided by keyboard alone.

``python -m tests.browser.minute docs/images`` (``make screenshots``) writes ``review-minute.png``, an animated PNG
(PNG, third edition, 11.3.6). Chromium makes each frame, cut to what has changed; only the chunks are put together here.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs
from playwright.async_api import Page

from antiphon.host import Scripted
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.browser.screen import browser
from tests.browser.visits import ARMED, visit
from tests.host.asks import origin
from tests.web.pages import Desk, desk

VIEW = {"width": 960, "height": 540}
PRODUCTS = ["a wool hat", "linen socks", "a rain coat", "a straw basket", "felt slippers", "a tea pot"]
SCENES: list[tuple[str, str, float]] = [
    ("", "", 4.0),
    *(("a", "", 2.5) for _ in range(3)),
    ("e", "textarea[name^='text-']:focus", 2.0),
    ("In a friendly tone: ", "", 3.0),
    ("Control+Enter", "#preview", 3.0),
    ("Control+Enter", "", 3.0),
    ("d", "", 3.0),
    ("r", "[name=reason]:focus", 2.0),
    ("costs too much", "", 3.0),
    ("Control+Enter", "", 3.0),
    ("a", "", 3.0),
    ("a", "", 3.0),
    ("d", "", 3.0),
    ("d", "", 4.0),
    ("y", ".page", 5.0),
]
"""What is pressed or typed, what appears then, and how many seconds it is looked at."""
CUT = """async ([before, after]) => {
    const draw = async (data) => {
        const image = new Image();
        image.src = `data:image/png;base64,${data}`;
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        canvas.getContext("2d").drawImage(image, 0, 0);
        return canvas;
    };
    const now = await draw(after);
    const [w, h] = [now.width, now.height];
    const pixels = (canvas) => new Uint32Array(canvas.getContext("2d").getImageData(0, 0, w, h).data.buffer);
    let [left, top, right, bottom] = [0, 0, w, h];
    if (before) {
        const [old, fresh] = [pixels(await draw(before)), pixels(now)];
        [left, top, right, bottom] = [w - 1, h - 1, 1, 1];
        for (let at = 0; at < fresh.length; at++)
            if (old[at] !== fresh[at]) {
                const [x, y] = [at % w, Math.floor(at / w)];
                [left, top] = [Math.min(left, x), Math.min(top, y)];
                [right, bottom] = [Math.max(right, x + 1), Math.max(bottom, y + 1)];
            }
        [left, top] = [Math.min(left, right - 1), Math.min(top, bottom - 1)];
    }
    const part = Object.assign(document.createElement("canvas"), { width: right - left, height: bottom - top });
    part.getContext("2d").drawImage(now, -left, -top);
    return [left, top, right - left, bottom - top, part.toDataURL("image/png").split(",")[1]];
}"""


class AnimatedPicture:
    """Frames of a page, each cut to what differs from the one before."""

    def __init__(self, page: Page, drawing: Page) -> None:
        self._page = page
        self._drawing = drawing
        self._last = ""
        self._frames: list[tuple[list[int], bytes, float]] = []

    async def look(self, seconds: float) -> None:
        """Add the page as it is now, to be looked at for some seconds."""
        taken = base64.b64encode(await self._page.screenshot()).decode()
        *place, data = await self._drawing.evaluate(CUT, [self._last, taken])
        self._frames.append((place, base64.b64decode(data), seconds))
        self._last = taken

    def write(self, file: Path) -> None:
        """Write the file."""
        first = dict(split_chunks(self._frames[0][1]))
        body = [b"\x89PNG\r\n\x1a\n", make_chunk(b"IHDR", first[b"IHDR"])]
        body.append(make_chunk(b"acTL", number(len(self._frames)) + number(0)))
        counted = 0
        for at, (place, png, seconds) in enumerate(self._frames):
            left, top, width, height = place
            control = b"".join(map(number, (counted, width, height, left, top)))
            body.append(make_chunk(b"fcTL", control + round(seconds * 100).to_bytes(2) + (100).to_bytes(2) + b"\0\0"))
            counted += 1
            # A browser compresses for speed.
            packed = b"".join(part for kind, part in split_chunks(png) if kind == b"IDAT")
            data = zlib.compress(zlib.decompress(packed), 9)
            body.append(make_chunk(b"IDAT", data) if at == 0 else make_chunk(b"fdAT", number(counted) + data))
            counted += at > 0
        file.write_bytes(b"".join([*body, make_chunk(b"IEND", b"")]))


def number(value: int) -> bytes:
    """Write a number as four bytes."""
    return value.to_bytes(4)


def make_chunk(kind: bytes, data: bytes) -> bytes:
    """Write a chunk: its length, kind, data and checksum."""
    return number(len(data)) + kind + data + number(zlib.crc32(kind + data))


def split_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a picture."""
    at = 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += 12 + size


async def fill_queue(page: Desk) -> None:
    """Let ten requests wait: six for texts, four calls of tools, one of which may destroy something."""
    for name in PRODUCTS:
        await page.asked(text=f"Describe {name} for our catalogue, in two sentences.")
    for at, (tool, hints) in enumerate([("list_orders", None), ("send_mail", None), ("purge", True), ("purge", True)]):
        annotations = None if hints is None else ToolAnnotations(destructive_hint=True)
        said = Tool(name=tool, input_schema={}, description="For the shop", annotations=annotations)
        asked = structs.replace(origin(f"tool-{at}"), tool=said)
        before = {question.id for question in await page.queue.pending()}
        called = asyncio.ensure_future(page.host.confirm(CallToolRequestParams.of(tool, {"count": at + 1}), asked))
        page.tasks.append(called)
        await page.arrived(before)


async def main(images: Path) -> None:
    """Sit at the page for a minute."""
    async with (
        browser() as chromium,
        desk(provider=Scripted(["Warm, and made to last."] * 9)) as page,
        visit(chromium, page, viewport=VIEW, reduced_motion="reduce") as seen,
    ):
        drawing = await chromium.new_page()
        await fill_queue(page)
        await seen.count(10)
        await seen.page.wait_for_selector(ARMED)
        taken = AnimatedPicture(seen.page, drawing)
        for keys, appears, seconds in SCENES:
            if keys:
                await (
                    seen.key(keys) if len(keys) == 1 or keys.startswith("Control") else seen.page.keyboard.type(keys)
                )
            await seen.page.wait_for_timeout(900)
            if appears:
                await seen.page.wait_for_selector(appears)
            await taken.look(seconds)
        taken.write(images / "review-minute.png")
        for task in page.tasks:
            task.cancel()
        await asyncio.wait(page.tasks)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
