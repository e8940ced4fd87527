"""The values of the design: their contrast."""

from __future__ import annotations

import asyncio
import re

import pytest

from antiphon.host import ReviewItem
from antiphon.web.render import STATIC
from tests.host.asks import CHOICES, origin, request
from tests.web.pages import desk

VALUE = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)")
INKS = {
    "ink": ("ground", "panel", "code", "mark", "warn-ground", "danger-ground", "added", "removed"),
    "muted": ("ground", "panel", "code", "mark"),
    "faint": ("ground", "panel", "code", "mark", "danger-ground"),
    "link": ("ground", "panel", "code", "mark"),
    "ok": ("ground", "panel", "ok-ground"),
    "warn-ink": ("ground", "panel", "warn-ground"),
    "danger": ("ground", "panel", "code", "danger-ground"),
    "accent-ink": ("accent",),
    "danger-ink": ("danger",),
}
"""Each colour of text, and the grounds that it stands on."""


def brightness(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1])
def test_every_text_has_contrast_on_every_ground_it_stands_on(theme: int):
    """The contrast is at least 4.5, in the light and in the dark form."""
    values = {
        name: pair[theme] for name, *pair in VALUE.findall((STATIC / "look" / "look.css").read_text(encoding="utf-8"))
    }
    for ink, grounds in INKS.items():
        for ground in grounds:
            dark, light = sorted((brightness(values[ink]), brightness(values[ground])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_a_font_is_never_waited_for():
    """A font of the system of the same width stands in until ours has come; Chinese is not among its letters."""
    faces = re.findall(r"@font-face \{([^}]*woff2[^}]*)\}", (STATIC / "look/fonts.css").read_text())
    assert len(faces) == 2
    for face in faces:
        assert "font-display: swap" in face
        ranges = re.findall(r"U\+([0-9A-F]+)(?:-([0-9A-F]+))?", face)
        assert ranges
        assert all(int(last or first, 16) < 0x2E80 for first, last in ranges)


async def test_the_first_view_of_500_waiting_is_small():
    """Compressed it has at most 11 kB, and 4 kB more with the first request; scripts and fonts are fetched apart."""
    async with desk() as page:
        for number in range(500):
            params, who = request(f"Describe product {number} in one sentence"), origin(str(number))
            item = ReviewItem(origin=who, params=params, received=params, provider="echo", choices=CHOICES)
            page.tasks.append(asyncio.create_task(page.queue.review(item)))
        async for _ in page.queue.changes():
            if await page.queue.waiting() == 500:
                break
        opened = await page.get("/", **{"Accept-Encoding": "gzip", "Sec-Fetch-Dest": "document"})
        assert '<template id="ahead"' in opened.text
        assert opened.num_bytes_downloaded <= 15_000
        answer = await page.get("/", **{"Accept-Encoding": "gzip"})
        assert answer.text.count("data-row=") == 30
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.num_bytes_downloaded <= 11_000
        whole = await page.get("/", **{"X-Part": "queue"})
        assert whole.text.count("data-row=") == 500
