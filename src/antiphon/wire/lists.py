"""Reads lists of a peer: an entry that cannot be read is left out, so that it does not hide the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import DecodeError, Raw

from antiphon.wire.envelope import MAX_DEPTH, as_unicode, decode_wire, encode_value, problem_of, too_deep
from antiphon.wire.prompts import ListPromptsResult, Prompt
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, Resource, ResourceTemplate
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.skills import ListSkillsResult, Skill
from antiphon.wire.tools import ListToolsResult, Tool

_ENTRIES: Mapping[Any, tuple[str, type]] = {
    ListToolsResult: ("tools", Tool),
    ListPromptsResult: ("prompts", Prompt),
    ListResourcesResult: ("resources", Resource),
    ListResourceTemplatesResult: ("resourceTemplates", ResourceTemplate),
    ListRootsResult: ("roots", Root),
    ListSkillsResult: ("skills", Skill),
}

_has_large_number = re.compile(rb"[eE]\+?[0-9]{3}").search
"""Finds each number out of range; it may be in one of the members that are not decoded."""
_MAX_NAMED = 10
"""Most unreadable entries of one list that are named."""

_find_tokens = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]++|[\]}]++|,', re.DOTALL).finditer
"""Finds texts, brackets and commas. A text that does not end is found, too, so each byte is read once."""
_find_texts = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL).sub
_escape_controls = re.compile(rb"[\0-\x1f]").sub
_find_name = re.compile(rb'"(?:name|uri|uriTemplate)"\s*+:\s*+"([^"\\]{1,100})').search

_MOST_TOKENS = 65_536
"""Most tokens of a list that is mended: each costs a step in Python, and the event loop waits meanwhile (20 ms)."""
_LIST_DEPTH = 3
"""Depth of the entries of a list: the reply, its result, the list."""


def mend_list(data: bytes) -> bytes:
    """Return a reply with each entry of its list that is no JSON, or too deep, replaced by its name and the problem.

    Raw control characters in texts are escaped. Data with too many tokens to look at is returned as it is.
    """
    data = as_unicode(data)
    pieces: list[bytes] = []
    depth = begin = 0
    is_list = False
    for count, token in enumerate(_find_tokens(data)):
        if count == _MOST_TOKENS:
            return data
        text, before = token[0], depth
        depth += len(text) if text[0] in b"[{" else -len(text) if text[0] in b"]}" else 0
        if before < _LIST_DEPTH <= depth:
            end = token.start() + _LIST_DEPTH - before
            # A list in an object: the last bracket of the run, and before it none that opens another list.
            is_list = data[end - 1 : end] == b"[" and data[end - 2 : end - 1] != b"["
            pieces.append(data[begin:end])
            begin = end
        elif is_list and (depth < _LIST_DEPTH <= before or (text == b"," and depth == _LIST_DEPTH)):
            end = token.start() + before - _LIST_DEPTH
            after = end + (text == b",")
            pieces += (_mend_entry(data[begin:end]), data[end:after])
            begin = after
    return b"".join((*pieces, data[begin:]))


def _mend_entry(entry: bytes) -> bytes:
    problem = _find_problem(entry)
    if problem is None:
        return entry
    mended = _find_texts(lambda text: _escape_controls(lambda each: b"\\u%04x" % each[0][0], text[0]), entry)
    if mended != entry and _find_problem(mended) is None:
        return mended
    name = _find_name(entry)
    return encode_value(("" if name is None else name[1].decode(errors="replace"), problem))


def _find_problem(entry: bytes) -> str | None:
    """Return why an entry is no JSON of ours; ``None`` if it is."""
    if too_deep(entry, MAX_DEPTH - _LIST_DEPTH):
        return f"JSON nested deeper than {MAX_DEPTH}"
    try:
        decode_wire(entry, cast("type[object]", Any))
    except DecodeError as error:
        return problem_of(error)
    return None


def readable_list(raw: Raw, kind: type, left_out: Callable[[str], object]) -> Raw:
    """Return the JSON of a result; of a list, without entries that do not fit, which ``left_out`` is told."""
    if kind not in _ENTRIES:
        return raw
    try:
        decode_wire(raw, kind)
        is_readable = not _has_large_number(raw)
    except DecodeError:
        is_readable = False
    return raw if is_readable else _without_unreadable(raw, kind, left_out) or raw


def _without_unreadable(raw: Raw, kind: type, left_out: Callable[[str], object]) -> Raw | None:
    """Return the JSON of a list without unreadable entries; ``None`` if it has none, or is no list."""
    try:
        member, item = _ENTRIES[kind]
        members = decode_wire(raw, dict[str, Raw])
        # Go writes an empty list as null.
        is_null = bytes(members[member]) == b"null"
        entries = [] if is_null else decode_wire(members[member], list[Raw])
    except (KeyError, DecodeError):
        return None
    good: list[Raw] = []
    problems: list[str] = [f"{member} is null"] if is_null else []
    for at, entry in enumerate(entries):
        try:
            decode_wire(entry, item)
            # Also the members that the type does not have, since a gateway passes them on.
            decode_wire(entry, dict[str, Any])
            good.append(entry)
        except DecodeError as error:
            name, problem = _read_mended(entry) or (_name_of(entry), problem_of(error))
            problems.append(f"{member}[{at}]{f' ({name[:100]!r})' if name else ''}: {problem}")
    if not problems:
        return None
    more = f"; and {len(problems) - _MAX_NAMED} more" if len(problems) > _MAX_NAMED else ""
    left_out("; ".join(problems[:_MAX_NAMED]) + more)
    return Raw(encode_value({**members, member: good}))


def _name_of(entry: Raw) -> str:
    """Return the name of an unreadable entry, for a log; nothing if it has none."""
    try:
        members = decode_wire(entry, dict[str, Raw])
        return next((decode_wire(members[key], str) for key in ("name", "uri", "uriTemplate") if key in members), "")
    except DecodeError:
        return ""


def _read_mended(entry: Raw) -> tuple[str, str] | None:
    """Return name and problem of an entry that ``mend_list`` replaced."""
    try:
        return decode_wire(entry, tuple[str, str])
    except DecodeError:
        return None
