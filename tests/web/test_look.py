"""The values of the design: their contrast."""

from __future__ import annotations

import re

import pytest

from antiphon.web.render import STATIC

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
    values = {name: pair[theme] for name, *pair in VALUE.findall((STATIC / "look.css").read_text(encoding="utf-8"))}
    for ink, grounds in INKS.items():
        for ground in grounds:
            dark, light = sorted((brightness(values[ink]), brightness(values[ground])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)
