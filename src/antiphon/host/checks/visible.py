"""Text from a stranger as inert text: everything a terminal would obey, or an eye would miss, becomes a visible mark.

Owns which characters are invisible and how they are marked. It knows nothing of messages, colours or widths.
A mark is ``⟦U+202E⟧``; the opening bracket itself is marked too, so that a text cannot forge one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

__all__ = ["Hidden", "hidden", "inert", "inert_line", "replace_hidden"]

Hidden = Literal["control", "bidi", "zero-width", "tag", "variation", "filler", "private", "stacked"]
"""Why a character is marked."""

_BIDI = frozenset([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
# Letters, marks and symbols that are drawn as nothing (Unicode: Default_Ignorable_Code_Point, and the Braille blank).
_FILLERS = frozenset([0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0])
_VARIATION = frozenset([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
_TAGS = range(0xE0000, 0xE0080)
_OPEN, _CLOSE = "\u27e6", "\u27e7"
_LONGEST_STACK = 4
"""Combining marks on one letter that are shown: living scripts stay below, text that smears over lines does not."""
_JOINERS: dict[str, Hidden] = {"\ufe0f": "variation", "\u200d": "zero-width"}
"""Marked unless they are part of an emoji."""
_REPEATED = re.compile(rf"({_OPEN}U\+[0-9A-F]+){_CLOSE}(?:\1{_CLOSE}){{3,}}")
_EMPTY_LINES = re.compile(r"\n{6,}")
_SPACES = re.compile(r" {81,}")
_CATEGORIES: dict[str, Hidden] = {
    "Cc": "control",
    "Zl": "control",
    "Zp": "control",
    "Cs": "control",
    "Cf": "zero-width",
    "Co": "private",
    "Cn": "private",
}


def inert(text: str) -> str:
    """Return the text with every character that is not plainly visible replaced by its mark.

    Line ends stay, a tab becomes four spaces. The same mark more than three times in a row, more than four empty
    lines and more than eighty spaces are written as a count, so that nothing can be pushed out of sight.
    Nothing is ever left out.
    """
    text = _EMPTY_LINES.sub(
        lambda run: f"\n{_OPEN}{len(run[0]) - 1} empty lines{_CLOSE}\n", replace_hidden(text, _mark)
    )
    return _one_line(text)


def inert_line(text: str) -> str:
    """Return the text as one line: as ``inert``, with line ends marked as well."""
    return _one_line(replace_hidden(text, _mark).replace("\n", f"{_OPEN}U+000A{_CLOSE}"))


def hidden(text: str) -> dict[Hidden, int]:
    """Count the characters that are marked, by kind. An honest text has none."""
    kinds = _kinds(text)
    counted: Counter[Hidden] = Counter()
    if kinds:
        for char, count in Counter(text).items():
            if char in kinds and char != _OPEN:
                counted[kinds[char]] += count
    counted.update(kind for _, kind in _in_context(text))
    return dict(counted)


def replace_hidden(text: str, replacement: Callable[[str], str]) -> str:
    """Return the text with every character that is not plainly visible replaced as the function says."""
    table = str.maketrans({char: replacement(char) for char in _kinds(text)})
    parts: list[str] = []
    end = 0
    for at, _ in _in_context(text):
        parts += [text[end:at].translate(table), replacement(text[at])]
        end = at + 1
    return "".join(parts) + text[end:].translate(table)


def _mark(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X}{_CLOSE}"


def _one_line(text: str) -> str:
    text = _REPEATED.sub(lambda run: f"{run[1]} \u00d7{run[0].count(_CLOSE)}{_CLOSE}", text)
    return _SPACES.sub(lambda run: f" {_OPEN}{len(run[0]) - 2} spaces{_CLOSE} ", text).replace("\t", "    ")


def _kinds(text: str) -> dict[str, Hidden]:
    """Return the characters of a text that are marked wherever they stand, each with its kind."""
    return {char: kind for char in set(text) if char not in _JOINERS and (kind := _kind(char))}


def _in_context(text: str) -> Iterator[tuple[int, Hidden]]:
    """Yield the place and kind of every character that is marked only because of where it stands."""
    alphabet = set(text)
    combining = {char for char in alphabet if unicodedata.category(char) in ("Mn", "Me") and not _kind(char)}
    sought = combining | (_JOINERS.keys() & alphabet)
    if not sought:
        return
    for match in re.finditer(f"[{''.join(map(re.escape, sorted(sought)))}]", text):
        at = match.start()
        stack = text[max(0, at - _LONGEST_STACK) : at]
        if match[0] in _JOINERS:
            if not _joins_emoji(text, at):
                yield at, _JOINERS[match[0]]
        elif len(stack) == _LONGEST_STACK and combining.issuperset(stack):
            yield at, "stacked"


def _kind(char: str) -> Hidden | None:
    code = ord(char)
    if 0x20 <= code < 0x7F or char in "\n\t":
        return None
    for codes, kind in _SPECIAL:
        if code in codes:
            return kind
    return _CATEGORIES.get(unicodedata.category(char))


_SPECIAL: tuple[tuple[frozenset[int] | range, Hidden], ...] = (
    (_TAGS, "tag"),
    (_BIDI, "bidi"),
    (_VARIATION, "variation"),
    (_FILLERS, "filler"),
    (frozenset([ord(_OPEN)]), "control"),
)


def _joins_emoji(text: str, at: int) -> bool:
    """Tell whether the selector or joiner at this place is part of an ordinary emoji."""
    before = text[at - 1] if at else " "
    after = text[at + 1] if at + 1 < len(text) else " "
    if text[at] == "\ufe0f":
        return _is_symbol(before) or before in "0123456789#*"
    return text[at] == "\u200d" and (_is_symbol(before) or before == "\ufe0f") and _is_symbol(after)


def _is_symbol(char: str) -> bool:
    # So: emoji; Sk: the skin tones; Sm and Po: a few arrows and marks that have an emoji form.
    return ord(char) > 0x7F and unicodedata.category(char) in ("So", "Sk", "Sm", "Po") and ord(char) not in _FILLERS
