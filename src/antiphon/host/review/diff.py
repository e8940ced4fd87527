"""Editing texts, and the differences between two requests.

Pure. Owns a form of text in which nothing is invisible or lost, and the comparison of lines.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from antiphon.host.checks.visible import replace_hidden
from antiphon.wire.content import AudioContent, ImageContent, TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams

_MARK = re.compile("\u27e6U\\+([0-9A-F]{4,6})\u27e7")
MAX_LINES = 5_000
"""Most lines that are compared; comparing more takes longer than a person waits."""


_CONTEXT = 2
"""Unchanged lines shown before and after a change."""
_SHORT = 20
"""Most lines that are compared each with each."""
_WORDS = 400
"""Most words of two lines that are compared each with each."""
_MOST_LEVELS = 8
"""Most levels on which the lines between anchors are compared again."""


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a comparison: ``sign`` is ``"+"``, ``"-"``, or ``" "`` for an unchanged line."""

    sign: str
    text: str


def split_changed_words(text: str, other: str) -> list[tuple[str, bool]]:
    """Split a line into pieces, each with whether it differs from another version of the line."""
    mine, theirs = (re.findall(r"\w+|\s+|.", each) for each in (text, other))
    if len(mine) + len(theirs) > _WORDS:
        return [(text, False)]
    import difflib

    blocks = difflib.SequenceMatcher(a=mine, b=theirs, autojunk=False).get_opcodes()
    return [("".join(mine[start:end]), tag != "equal") for tag, start, end, _, _ in blocks if start < end]


def make_editable(text: str) -> str:
    """Convert a text for editing: each invisible character becomes its mark, ``⟦U+202E⟧``."""
    return replace_hidden(text, lambda char: f"\u27e6U+{ord(char):04X}\u27e7")


def restore_edited_text(typed: str) -> str:
    """Convert an edited text back: marks become characters, and line ends are as in ``make_editable``."""
    return _MARK.sub(_restore_character, typed.replace("\r\n", "\n"))


def compare_requests(before: CreateMessageRequestParams, after: CreateMessageRequestParams) -> list[DiffLine] | None:
    """Compare two requests by line. Returns no lines if they are equal, ``None`` if they are too long."""
    if encode_value(before) == encode_value(after):
        return []
    old, new = list(_list_lines(before)), list(_list_lines(after))
    return None if len(old) + len(new) > MAX_LINES else compare_lines(old, new)


def compare_lines(old: Sequence[str], new: Sequence[str]) -> list[DiffLine]:
    """Compare lines: those that differ, with two unchanged lines around them.

    Lines that occur once on each side, in the same order, are anchors (the idea of "patience diff"), and the lines
    between them are compared in the same way. Only short sections are compared line by line, since that takes quadratic
    time or worse.
    """
    whole: list[DiffLine] = []
    _add_comparison(whole, old, new, 0)
    kept = [False] * len(whole)
    for at, line in enumerate(whole):
        if line.sign != " ":
            for near in range(max(0, at - _CONTEXT), min(len(whole), at + _CONTEXT + 1)):
                kept[near] = True
    return [line for line, keep in zip(whole, kept, strict=True) if keep]


def format_json(value: object) -> str:
    """Format a value as the JSON that would be sent, indented."""
    return msgspec.json.format(encode_value(value), indent=2).decode("utf-8", "replace")


def compact(value: object) -> str:
    """Format a value as the JSON that would be sent, in one line."""
    return encode_value(value).decode("utf-8", "replace")


def _add_comparison(found: list[DiffLine], old: Sequence[str], new: Sequence[str], level: int) -> None:
    """Add the lines of a comparison, including unchanged ones."""
    first = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    last, shorter = 0, min(len(old), len(new)) - first
    while last < shorter and old[-1 - last] == new[-1 - last]:
        last += 1
    found += [DiffLine(" ", line) for line in old[:first]]
    inner_old, inner_new = old[first : len(old) - last], new[first : len(new) - last]
    anchors = _find_anchors(inner_old, inner_new) if level < _MOST_LEVELS else []
    if anchors:
        a = b = 0
        for next_a, next_b in [*anchors, (len(inner_old), len(inner_new))]:
            _add_comparison(found, inner_old[a:next_a], inner_new[b:next_b], level + 1)
            found += [DiffLine(" ", line) for line in inner_old[next_a : next_a + 1]]
            a, b = next_a + 1, next_b + 1
    else:
        found += _line_with_line(inner_old, inner_new)
    found += [DiffLine(" ", line) for line in old[len(old) - last :]]


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of lines that occur once in both: the longest series that increases in both."""
    counts = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if counts[1][line] == 1}
    pairs = [(at, places[line]) for at, line in enumerate(old) if counts[0][line] == 1 and line in places]
    ends: list[int] = []
    chain: list[tuple[tuple[int, int], int]] = []
    tops: list[int] = []
    for pair in pairs:
        at = bisect_left(ends, pair[1])
        ends[at : at + 1] = [pair[1]]
        tops[at : at + 1] = [len(chain)]
        chain.append((pair, tops[at - 1] if at else -1))
    longest: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        pair, at = chain[at]
        longest.append(pair)
    return longest[::-1]


def _line_with_line(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Compare a short section; report a long one as removed and added."""
    matches = [(len(old), len(new), 0)]
    if len(old) <= _SHORT and len(new) <= _SHORT:
        # Imported here, so that a host that shows nobody anything does not load it.
        import difflib

        matches = list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    a = b = 0
    for at_a, at_b, size in matches:
        yield from (DiffLine("-", line) for line in old[a:at_a])
        yield from (DiffLine("+", line) for line in new[b:at_b])
        yield from (DiffLine(" ", line) for line in old[at_a : at_a + size])
        a, b = at_a + size, at_b + size


def _restore_character(mark: re.Match[str]) -> str:
    code = int(mark[1], 16)
    # Half a surrogate pair cannot be sent, so it stays the mark that was typed.
    return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else mark[0]


def _list_lines(params: CreateMessageRequestParams) -> Iterator[str]:
    yield from list_members(params, "messages")
    for at, message in enumerate(params.messages):
        for block in message.blocks:
            yield from _label_lines(f"messages[{at}] {message.role}", _get_text(block))


def list_members(value: msgspec.Struct, left_out: str = "") -> Iterator[str]:
    """Yield the members of a value as lines: texts as they are, so that a long one is compared line by line."""
    for field in msgspec.structs.fields(value):
        member = getattr(value, field.name)
        if member is not None and field.name != left_out:
            yield from _label_lines(field.encode_name, member if isinstance(member, str) else format_json(member))


def _label_lines(name: str, text: str) -> Iterator[str]:
    lines = text.split("\n")
    yield f"{name}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:])


def _get_text(block: object) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"{block.mime_type} SHA-256 {hashlib.sha256(block.data.encode()).hexdigest()}"
    return format_json(block)
