"""Reads lists of a peer: an entry that cannot be read is left out, so that it does not hide the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import DecodeError, Raw

from antiphon.wire.envelope import decode_wire, encode_value, problem_of
from antiphon.wire.prompts import ListPromptsResult, Prompt
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, Resource, ResourceTemplate
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.tools import ListToolsResult, Tool

__all__ = ["readable_list"]

_ENTRIES: Mapping[Any, tuple[str, type]] = {
    ListToolsResult: ("tools", Tool),
    ListPromptsResult: ("prompts", Prompt),
    ListResourcesResult: ("resources", Resource),
    ListResourceTemplatesResult: ("resourceTemplates", ResourceTemplate),
    ListRootsResult: ("roots", Root),
}

_has_large_number = re.compile(rb"[eE]\+?[0-9]{3}").search
"""Finds each number out of range; it may be in one of the members that are not decoded."""
_MAX_NAMED = 10
"""Most unreadable entries of one list that are named."""


def readable_list(raw: Raw, kind: type, left_out: Callable[[str], object]) -> Raw:
    """Return the JSON of a result of type ``kind``; if it is a list, without the entries that do not fit.

    ``left_out`` is called with a text that names the entries that were left out, and says why.
    """
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
        entries = decode_wire(members[member], list[Raw])
    except (KeyError, DecodeError):
        return None
    good: list[Raw] = []
    problems: list[str] = []
    for at, entry in enumerate(entries):
        try:
            decode_wire(entry, item)
            # Also the members that the type does not have, since a gateway passes them on.
            decode_wire(entry, dict[str, Any])
            good.append(entry)
        except DecodeError as error:
            problems.append(f"{member}[{at}]{_name_of(entry)}: {problem_of(error)}")
    if not problems:
        return None
    more = f"; and {len(problems) - _MAX_NAMED} more" if len(problems) > _MAX_NAMED else ""
    left_out("; ".join(problems[:_MAX_NAMED]) + more)
    return Raw(encode_value({**members, member: good}))


def _name_of(entry: Raw) -> str:
    """Return the name of an unreadable entry, for a log; nothing if it has none."""
    try:
        members = decode_wire(entry, dict[str, Raw])
        name = next((decode_wire(members[key], str) for key in ("name", "uri", "uriTemplate") if key in members), None)
    except DecodeError:
        return ""
    return "" if name is None else f" ({name[:100]!r})"
