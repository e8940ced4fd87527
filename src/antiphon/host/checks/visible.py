"""Makes untrusted text harmless: characters that a terminal would obey, or a person not see, become visible marks.

Owns which characters are invisible, their marks, the folding of blank space, and how many cells of a terminal a text
takes. A mark is ``⟦U+202E⟧``; characters that look like its opening bracket are marked too, so that a text cannot forge
one.

The work grows linearly with the text, in a few passes of the interpreter's own loops, because a text may have millions
of characters to mark.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal

Hidden = Literal["control", "bidi", "zero-width", "tag", "variation", "filler", "private", "stacked"]
"""Why a character is marked."""

_BIDI = frozenset([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
# Letters, marks and symbols drawn as nothing (Unicode: Default_Ignorable_Code_Point, and the Braille blank).
_FILLERS = frozenset([0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0])
_VARIATION = frozenset([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
_TAGS = range(0xE0000, 0xE0080)
_OPEN, _CLOSE = "\u27e6", "\u27e7"
_FORGERIES = frozenset(map(ord, "\u27e6\u301a\u2045\u298b\u298d\u298f\u27ec\u2997\u2772\ufe5d"))
"""The opening bracket of our marks, and those that a reader could mistake for it. Ordinary text has none of them."""
_LONGEST_STACK = 4
"""Combining marks shown on one letter: more than any living script uses, less than text that covers other lines."""
_JOINERS: dict[str, Hidden] = {"\ufe0f": "variation", "\u200d": "zero-width"}
"""Marked unless they are part of an emoji."""
_STAND_INS = range(0xF0000, 0xFFFFE)
"""Private characters that stand for those decided by context, while the rest is translated."""
_CATEGORIES: dict[str, Hidden] = {
    "Cc": "control",
    "Zl": "control",
    "Zp": "control",
    "Cs": "control",
    "Cf": "zero-width",
    "Co": "private",
    "Cn": "private",
}
_BLANK = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Characters that are blank space and nothing else."""
_PART = 32_768
"""Characters that are made inert at once: some milliseconds, whatever they are."""
_LOOKED_BACK = 1_000
"""Characters that are searched for a place to cut a long text: a paragraph or two."""
_ROOM = 80
"""Most cells of blank space within a line that are not folded: the width of a terminal."""
_EMPTY_LINES = re.compile(rf"\n(?:[{_BLANK}]*+\n){{5,}}+")
_SAME_LINES = re.compile(r"^([^\n]{1,500}+)\n(?:\1\n){5,}+", re.MULTILINE)
_FILLING = re.compile(rf"([^\w\s{_OPEN}{_CLOSE}])\1{{99,}}+")
"""A hundred equal signs in a row: no rule across a page is as long."""
_SHOWN_OF_FILLING = 20
_BLANKS = re.compile(rf"[{_BLANK}]{{21,}}+")
_MANY_SPACES = " " * 21
_REPEATED = re.compile(rf"({_OPEN}U\+[0-9A-F]++){_CLOSE}(?:\1{_CLOSE}){{3,}}+")
_TAGGED = re.compile(rf"(?:{_OPEN}U\+E00[0-7][0-9A-F]{_CLOSE}){{2,}}+")
_CODE = re.compile(r"U\+([0-9A-F]++)")
_WORD = re.compile(r"[^\W\d_]++")
_LATIN = re.compile(r"[A-Za-z]")
_TWINS = re.compile(
    "[\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406"
    "\u0408\u0405\u03bf\u03bd\u03c1\u03ba\u03b9\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0578\u057d\u0585]"
)
"""Cyrillic, Greek and Armenian letters that are drawn as Latin ones (Unicode Technical Standard 39, confusables)."""
_DISGUISED = re.compile(
    "[\U0001d400-\U0001d7ff]{2,}+|.?[\u0334-\u0338\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb]++"
)
"""A word in mathematical letters, which programs do not read as that word; and a character that is crossed out."""


def make_inert(text: str) -> str:
    """Return the text with every character that is not plainly visible replaced by a mark.

    Line ends stay, a tab becomes four spaces. More than three equal marks in a row, more than five equal lines, more
    than four empty lines, a hundred equal signs, and more than eighty cells of blank space within a line are written as
    a count, so that nothing can be pushed out of sight.
    Tag characters, which repeat ASCII invisibly, are decoded. Nothing is left out.
    """
    text = replace_hidden(text.replace("\r\n", "\n"), _make_mark)
    text = _FILLING.sub(_count_signs, _SAME_LINES.sub(_count_same, text))
    # A line end is put in front, so that empty lines at the beginning are found like all others.
    return _one_line(_EMPTY_LINES.sub(_count_lines, f"\n{text}")[1:])


def inert_parts(text: str) -> Iterator[str]:
    """Yield the text as ``make_inert`` makes it, in parts, so that other tasks can run between them.

    It is cut behind a line end if possible, else between two letters. A run that ``make_inert`` would replace by one
    count may be cut, and is then replaced by several.
    """
    start = 0
    while len(text) - start > _PART:
        end = _find_cut(text, start + _PART)
        yield make_inert(text[start:end])
        start = end
    yield make_inert(text[start:])


def _find_cut(text: str, at: int) -> int:
    line = text.rfind("\n", at - _LOOKED_BACK, at) + 1
    plain = (place for place in range(at, at - _LOOKED_BACK, -1) if text[place - 1 : place + 1].isalnum())
    return line or next(plain, at)


def inert_line(text: str) -> str:
    """Return the text as one line: like ``make_inert``, with line ends marked as well."""
    return _one_line(replace_hidden(text, _make_mark).replace("\n", f"{_OPEN}U+000A{_CLOSE}"))


def count_hidden(text: str) -> dict[Hidden, int]:
    """Count the marked characters by kind. Ordinary text has none; Windows line ends do not count."""
    if _is_plain(text):
        return {}
    counted: Counter[Hidden] = Counter()
    present = Counter(text)
    for char, count in present.items():
        kind = _JOINERS.get(char) or _find_kind(char)
        if kind is not None and ord(char) not in _FORGERIES:
            counted[kind] += count
    if "\r" in present:
        counted["control"] -= text.count("\r\n")
    for joiner, joined in _list_joiner_patterns(present):
        counted[_JOINERS[joiner]] -= sum(1 for _ in joined.finditer(text))
    stacks = _make_stack_pattern(present)
    if stacks is not None:
        counted["stacked"] = sum(len(run[0]) - _LONGEST_STACK for run in stacks.finditer(text))
    return {kind: count for kind, count in counted.items() if count > 0}


def first_hidden(text: str) -> int:
    """Return the position of the first character that ``count_hidden`` counts; -1 if there is none."""
    if _is_plain(text):
        return -1
    present = Counter(text)
    joined = dict(_list_joiner_patterns(present))
    stacks = _make_stack_pattern(present)
    stack = stacks.search(text) if stacks is not None else None
    first = len(text) if stack is None else stack.start() + _LONGEST_STACK
    unseen = "".join(re.escape(char) for char in present if char in _JOINERS or _is_unseen(char))
    for match in re.finditer(f"[{unseen}]", text) if unseen else ():
        pattern = joined.get(match[0])
        if pattern is None or pattern.match(text, match.start()) is None:
            first = min(first, match.start())
            break
    return first if first < len(text) else -1


def strip_invisible(text: str) -> tuple[str, Callable[[int], int]] | None:
    """Return a text without invisible characters, and a function from positions in it to positions in the whole text.

    Returns ``None`` if there are none. Line ends and tabs stay.
    """
    if _is_plain(text):
        return None
    present = set(text)
    seen = "".join(re.escape(char) for char in present if char in _JOINERS or _is_unseen(char))
    if not seen:
        return None
    pieces = [match.span() for match in re.finditer(f"[^{seen}]+", text)]
    begins = list(accumulate((end - start for start, end in pieces), initial=0))

    def place(at: int) -> int:
        piece = min(bisect_right(begins, at) - 1, len(pieces) - 1)
        return pieces[piece][0] + at - begins[piece] if pieces else 0

    return "".join(text[start:end] for start, end in pieces), place


def _is_unseen(char: str) -> bool:
    return char != "\r" and ord(char) not in _FORGERIES and _find_kind(char) is not None


def blank_runs(text: str) -> int:
    """Count the places where blank space, which ``make_inert`` folds, pushes text out of sight."""
    lines = sum(1 for _ in _EMPTY_LINES.finditer(f"\n{text}"))
    return lines + (sum(_count_cells(run[0]) > _ROOM for run in _BLANKS.finditer(text)) if _may_have_room(text) else 0)


def find_lookalikes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges that look like other words: of mixed scripts, in mathematical letters, or crossed out."""
    if text.isascii():
        return
    for word in _WORD.finditer(text):
        if not word[0].isascii() and _LATIN.search(word[0]) and _TWINS.search(word[0]):
            yield word.span()
    yield from (found.span() for found in _DISGUISED.finditer(text))


def find_twins(names: Sequence[object]) -> Iterator[tuple[int, str]]:
    """Yield names that a hurried reader takes for an earlier one, or that differ in capitals only, and that one."""
    met: dict[str, str] = {}
    for at, name in enumerate(names):
        if isinstance(name, str):
            plain = name[:200].lower().translate(str.maketrans("01358", "olesb")).replace("rn", "m").replace("i", "l")
            reduced = re.sub(r"[\W_]", "", plain)
            if reduced and met.setdefault(reduced, name) != name:
                yield at, f"{met[reduced]}, {name}"


def replace_hidden(text: str, replacement: Callable[[str], str]) -> str:
    """Replace every character that is not plainly visible by the function's result."""
    if _is_plain(text):
        return text
    present = Counter(text)
    table: dict[int, str] = {
        ord(char): replacement(char) for char in present if char in _JOINERS or _find_kind(char) is not None
    }
    free = (code for code in _STAND_INS if chr(code) not in present)
    for joiner, joined in _list_joiner_patterns(present):
        code = next(free)
        table[code] = joiner
        text = joined.sub(chr(code), text)
    stacks = _make_stack_pattern(present)
    if stacks is not None:
        above = {ord(char): next(free) for char in _list_combining(present)}
        table.update({code: replacement(chr(char)) for char, code in above.items()})
        text = stacks.sub(lambda run: run[0][:_LONGEST_STACK] + run[0][_LONGEST_STACK:].translate(above), text)
    return text.translate(table)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def _make_mark(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X}{_CLOSE}"


def _one_line(text: str) -> str:
    if _OPEN in text:
        text = _TAGGED.sub(_read_out, text)
        text = _REPEATED.sub(lambda run: f"{run[1]} \u00d7{run[0].count(_CLOSE)}{_CLOSE}", text)
    if _may_have_room(text):
        text = _BLANKS.sub(_count_room, text)
    return text.replace("\t", "    ")


def _may_have_room(text: str) -> bool:
    """Quickly exclude most texts, which have no blank space to fold."""
    return _MANY_SPACES in text or "\t" in text or not text.isascii()


def _count_lines(run: re.Match[str]) -> str:
    lines = run[0].removeprefix("\n").count("\n")
    what = "empty" if not run[0].strip("\n") else "blank"
    return f"\n{_OPEN}{lines} {what} lines{_CLOSE}\n"


def _count_same(run: re.Match[str]) -> str:
    line = run[1]
    # Blank lines are counted as such.
    return (
        f"{line}\n{_OPEN}the line above {run[0].count(chr(10)) - 1:,} more times{_CLOSE}\n" if line.strip() else run[0]
    )


def _count_signs(run: re.Match[str]) -> str:
    return f"{run[1] * _SHOWN_OF_FILLING}{_OPEN}{run[1]} {len(run[0]):,} times in all{_CLOSE}"


def _count_room(run: re.Match[str]) -> str:
    cells = _count_cells(run[0])
    return f" {_OPEN}{cells - 2} spaces{_CLOSE} " if cells > _ROOM else run[0]


def _count_cells(blanks: str) -> int:
    """Count the cells of blank space: a tab is drawn as four, an ideographic space as two."""
    return len(blanks) + 3 * blanks.count("\t") + blanks.count("\u3000")


def _read_out(run: re.Match[str]) -> str:
    """Decode marks of tag characters: U+E0020 to U+E007E repeat ASCII."""
    codes = _CODE.findall(run[0])
    said = "".join(chr(code) for each in codes if 0x20 <= (code := int(each, 16) - 0xE0000) < 0x7F)
    return f'{_OPEN}{len(codes)} tags U+{codes[0]} to U+{codes[-1]}: "{said}"{_CLOSE}'


def _list_joiner_patterns(present: Counter[str]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the joiner and the selector, each with a pattern for those that are part of an ordinary emoji.

    The selector follows a symbol or the digit of a key cap; the joiner stands between two symbols. Selectors come
    first: one before a joiner is then already replaced by a private character, which the joiner's pattern accepts.
    """
    # So: emoji; Sk: skin tones; Sm and Po: a few arrows and signs with an emoji form.
    drawn = (char for char in present if unicodedata.category(char) in ("So", "Sk", "Sm", "Po"))
    symbols = "".join(re.escape(char) for char in drawn if ord(char) > 0x7F and ord(char) not in _FILLERS)
    if "\ufe0f" in present:
        yield "\ufe0f", re.compile(f"(?<=[{symbols}0-9#*])\ufe0f")
    if "\u200d" in present and symbols:
        stand_ins = f"{chr(_STAND_INS.start)}-{chr(_STAND_INS.stop - 1)}"
        yield "\u200d", re.compile(f"(?<=[{symbols}\ufe0f{stand_ins}])\u200d(?=[{symbols}])")


def _make_stack_pattern(present: Counter[str]) -> re.Pattern[str] | None:
    """Return a pattern for runs of more combining marks than are shown on one letter; ``None`` if there are none."""
    combining = _list_combining(present)
    if sum(present[char] for char in combining) <= _LONGEST_STACK:
        return None
    return re.compile(f"[{''.join(map(re.escape, combining))}]{{{_LONGEST_STACK + 1},}}+")


def _list_combining(present: Counter[str]) -> list[str]:
    return [char for char in present if unicodedata.category(char) in ("Mn", "Me") and not _find_kind(char)]


def _find_kind(char: str) -> Hidden | None:
    """Return why a character is marked in every context, or ``None``."""
    code = ord(char)
    if 0x20 <= code < 0x7F or char in "\n\t" or char in _JOINERS:
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
    (_FORGERIES, "control"),
)


GUTTER = "│ "
"""Precedes each row of text from a server."""
_FROM_THE_RIGHT = "│←"
"""Precedes a row that is read from right to left. The arrow is not mirrored, whatever follows."""
_LOOKED_AT = 1_000
"""Characters examined for the direction of a line; a line without a letter among them has none."""


@lru_cache(maxsize=4096)
def count_cells(char: str) -> int:
    """Return the most cells that a character takes.

    The emoji variation selector counts as one cell, because it can widen a narrow character to two. A row filled
    character by character is thus never wider than computed.
    """
    return 1 if "\x20" <= char < "\x7f" or char == "\ufe0f" else max(0, _load_widths()[0](char))


@lru_cache(maxsize=1)
def _load_widths() -> tuple[Callable[[str], int], Callable[[str], int]]:
    """Return the width of a character, and of a text, or -1 if unknown; estimates where wcwidth is not installed."""
    try:
        from wcwidth import wcswidth, wcwidth
    except ImportError:
        return _estimate_cells, lambda _text: -1
    return wcwidth, wcswidth


def _estimate_cells(char: str) -> int:
    """Return at least as many cells as a character takes, by Python's own tables, which may be old."""
    kind = unicodedata.category(char)
    if kind in ("Mn", "Me", "Cc"):
        return 0
    # An unassigned character may be a newer emoji, and newer Unicode has widened some symbols and numerals.
    return 2 if kind in ("Cn", "So", "No") or unicodedata.east_asian_width(char) in "WF" else 1


def cells_of(text: str) -> int:
    """Return the number of cells of a text in one line, counting an emoji of several characters as one."""
    if text.isascii():
        return len(text)
    width = _load_widths()[1](text)
    return width if width >= 0 else sum(map(count_cells, text))


def find_direction(line: str) -> Literal["ltr", "rtl", ""]:
    """Return the direction of a line, by its first letter (Unicode Annex 9, P2); empty if it has none."""
    for char in line[:_LOOKED_AT]:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return ""


def gutter_of(row: str) -> str:
    """Return the prefix for a row of a server's text, which shows where reading begins.

    The row itself keeps its order. A terminal that supports both directions reorders each row, others do not, and a
    program cannot find out which it is.
    """
    return _FROM_THE_RIGHT if not row.isascii() and find_direction(row) == "rtl" else GUTTER


def wrap_line(line: str, width: int) -> Iterator[str]:
    """Break a line into rows of at most ``width`` cells, after a space if possible. Loses no character."""
    return _wrap_ascii(line, width) if line.isascii() else _wrap_cells(line, width)


def _wrap_ascii(line: str, width: int) -> Iterator[str]:
    start = 0
    while len(line) - start > width:
        cut = line.rfind(" ", start, start + width) + 1 or start + width
        yield line[start:cut]
        start = cut
    yield line[start:]


def _wrap_cells(line: str, width: int) -> Iterator[str]:
    start = used = 0
    space = -1
    for at, char in enumerate(line):
        taken = count_cells(char)
        if used + taken > width:
            cut = space + 1 if space >= start else at
            yield line[start:cut]
            used = sum(map(count_cells, line[cut:at]))
            start = cut
        used += taken
        if char == " ":
            space = at
    yield line[start:]
