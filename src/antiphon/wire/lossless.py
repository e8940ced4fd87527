"""Keeps unknown members when a message is relayed or edited, by rewriting only what changed.

Owns merging a change into the JSON document it came from; what did not change keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import compress
from operator import is_not
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.wire.common import PROGRESS_TOKEN, UNREADABLE, Wire
from antiphon.wire.envelope import encode_value

T = TypeVar("T")
Object = dict[str, Raw]

_decode_object = msgspec.json.Decoder(Object).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_SPACE = b" \t\r\n"


class Received(Struct, frozen=True, eq=False):
    """What a peer sent, decoded, together with its JSON, so that it can be sent on without losing unknown members."""

    raw: Raw
    """A JSON object, without spaces between its own members."""
    read: Any
    """What was decoded from it."""
    lowered_for: str | None = None
    """The revision in whose form ``raw`` is, as it is sent; ``None`` for what a peer sent."""

    @classmethod
    def of(cls, made: Wire) -> Received:
        """Return an object made here, in the form of one that a peer has sent.

        Args:
            made: the object.
        """
        return cls(Raw(encode_value(made)), made)

    def carrying(self, after: Wire) -> Raw:
        """Return the JSON with the changes from ``read`` to ``after``.

        Args:
            after: what was decoded, changed.
        """
        return Raw(merge_change(self.raw, self.read, after))

    def changed(self, after: Wire) -> Received:
        """Return this with another decoded object; the JSON is changed accordingly.

        Args:
            after: replaces ``read``.
        """
        if after is self.read:
            return self
        return Received(self.carrying(after), after) if type(after) is type(self.read) else Received.of(after)


_SHORT = 1024
"""Most bytes of a ``_meta`` that is remembered, because a peer mostly sends the same one with each message."""
_REPEATED = 256
"""Most of these."""

_OF_ONE_CONNECTION = "io.modelcontextprotocol/"
"""Prefix of the members of ``_meta`` by which the protocol describes one connection."""


def passed_on(raw: bytes | Raw, *, without: tuple[str, ...] = (), read: Any = None) -> Raw:
    """Return an object for another peer: without ``without``, and the ``_meta`` that concerns one connection.

    ``read``: what was decoded from it. A member whose name differs from one of its type by case only is left out: some
    peers, such as those written in Go, take it for that member, of which a person may have seen another value.
    """
    members = _decode_object(raw or b"{}")
    for name in without:
        members.pop(name, None)
    if isinstance(read, Wire):
        known, folded = _names_of(type(read))
        for name in members.keys() - known:
            if name.casefold() in folded:
                del members[name]
    meta = bytes(members.get("_meta", b""))
    if meta:
        kept = _filter_meta(meta) if len(meta) > _SHORT else _filter_meta_again(meta)
        if kept is not None:
            members["_meta"] = kept
        else:
            del members["_meta"]
    return Raw(encode_value(members))


def relay_object(raw: bytes | Raw, read: Any) -> Received:
    """Return what a peer sent for another peer: without the ``_meta`` of one connection, and with its members valid."""
    passed = repair_members(passed_on(raw, read=read), read)
    content: Any = getattr(read, "content", None)
    blocks = cast("list[object]", content) if isinstance(content, list) else None
    if blocks and UNREADABLE in (read.meta or ()):
        # Nobody has examined what could not be read.
        passed = Raw(encode_value({**_decode_object(passed), "content": blocks}))
    elif getattr(read, "structured_content", None) is not None or blocks == []:
        # A tool's result may lack content, and other peers take it for none then.
        passed = Raw(encode_value({"content": blocks, **_decode_object(passed)}))
    return Received(passed, read)


def repair_members(raw: Raw, read: Any) -> Raw:
    """Remove the members of ``raw``, from which ``read`` was decoded, that are null although null is no value of them.

    Some servers write all optional members so, and those in PHP write an empty object as a list. Many hosts refuse the
    whole list of tools for one of them.
    """
    data = bytes(raw)
    if data == b"[]" and isinstance(read, Wire | dict):
        return Raw(b"{}")
    if (b"null" not in data and b"[]" not in data) or data == b"null":
        return raw
    if isinstance(read, Wire):
        document = _decode_object(raw)
        # From 2026-07-28 on a tool may return null.
        kept = "structuredContent" if getattr(read, "result_type", None) else None
        for field, name, _ in _members_of(type(read)):
            if name in document and name != kept:
                document[name] = repair_members(document[name], getattr(read, field))
                if bytes(document[name]) == b"null":
                    del document[name]
        return Raw(encode_value(document))
    if isinstance(read, list) and any(isinstance(item, Wire) for item in cast("list[object]", read)):
        items, read_items = _decode_array(raw), cast("list[object]", read)
        if len(items) == len(read_items):
            return Raw(encode_value([*map(repair_members, items, read_items)]))
    return raw


def _filter_meta(meta: bytes) -> Raw | None:
    """Return what is passed on of ``_meta``; ``None`` if that is nothing."""
    try:
        members = _decode_object(meta)
    except msgspec.ValidationError:
        return None
    kept = drop_own_members(members)
    return Raw(encode_value(kept)) if kept else None


_filter_meta_again = lru_cache(_REPEATED)(_filter_meta)


def drop_own_members(meta: Mapping[str, T]) -> dict[str, T]:
    """Return the members of a ``_meta`` that are passed on: those that do not belong to one connection."""
    is_own = _OF_ONE_CONNECTION
    return {name: value for name, value in meta.items() if name != PROGRESS_TOKEN and not name.startswith(is_own)}


def merge_change(original: bytes | Raw, before: Wire, after: Wire) -> bytes:
    """Apply a change to the document that ``before`` was decoded from; everything else is kept, known or unknown.

    Returns ``original`` itself if nothing changed. Objects are merged by member; arrays by position if their length is
    unchanged, else from both ends. A block of content whose ``type`` changed is a new block.
    """
    if after is before:
        return bytes(original)
    texts = _find_changed_texts(before, after)
    if texts is not None:
        return bytes(_with_texts(original, texts))
    old, new = encode_value(before), encode_value(after)
    # Both encoded values are objects, so ``original`` is one as well.
    return bytes(original if old == new else _merge_objects(Raw(original), old, new))


def _find_changed_texts(before: Wire, after: Wire) -> dict[str, str | None] | None:
    """Return the changed members if all are texts or were removed, as in most messages; else ``None``."""
    kind = type(before)
    if type(after) is not kind:
        return None
    changed: dict[str, str | None] = {}
    # Compared by ``map`` in C, since most members are the same.
    differing = map(is_not, msgspec.structs.astuple(before), msgspec.structs.astuple(after))
    for field, name, is_optional in compress(_members_of(kind), differing):
        now = getattr(after, field)
        is_removed = now is None and is_optional
        if name == "type" or not (is_removed or (type(now) is str and type(getattr(before, field)) is str)):
            return None
        changed[name] = now
    return changed


@lru_cache
def _members_of(kind: type[Wire]) -> tuple[tuple[str, str, bool], ...]:
    """Return the members of a type: here, on the wire, and whether ``None`` means that it is absent."""
    return tuple((each.name, each.encode_name, each.default is None) for each in msgspec.structs.fields(kind))


@lru_cache
def _names_of(kind: type[Wire]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the members of a type on the wire, and the same without regard to case."""
    names = frozenset(name for _, name, _ in _members_of(kind))
    return names, frozenset(name.casefold() for name in names)


def _with_texts(original: bytes | Raw, texts: Mapping[str, str | None]) -> bytes | Raw:
    if not texts:
        return original
    document = _decode_object(original)
    for name, text in texts.items():
        if text is None:
            document.pop(name, None)
        else:
            document[name] = Raw(encode_value(text))
    return encode_value(document)


def _merge_values(original: Raw, before: Raw, after: Raw) -> Raw:
    if bytes(after)[:1] not in (b"{", b"["):
        return after
    kinds = {bytes(text).lstrip(_SPACE)[:1] for text in (original, before, after)}
    if kinds == {b"{"}:
        return _merge_objects(original, before, after)
    return _merge_arrays(original, before, after) if kinds == {b"["} else Raw(after)


def _merge_objects(original: Raw, before: bytes | Raw, after: bytes | Raw) -> Raw:
    document, old, new = _decode_object(original), _decode_object(before), _decode_object(after)
    if old.get("type") != new.get("type"):
        return Raw(after)
    for name in old.keys() - new.keys():
        document.pop(name, None)
    for name, value in new.items():
        if old.get(name) != value:
            document[name] = (
                _merge_values(document[name], old[name], value) if name in old and name in document else value
            )
    return Raw(encode_value(document))


def _merge_arrays(original: Raw, before: bytes | Raw, after: bytes | Raw) -> Raw:
    document, old, new = _decode_array(original), _decode_array(before), _decode_array(after)
    if len(document) != len(old):
        return Raw(after)
    if len(old) == len(new):
        rows = zip(document, old, new, strict=True)
        return Raw(encode_value([each if was == now else _merge_values(each, was, now) for each, was, now in rows]))
    head = _common_start(old, new)
    tail = _common_start(old[head:][::-1], new[head:][::-1])
    kept = len(document) - tail
    return Raw(encode_value([*document[:head], *new[head : len(new) - tail], *document[kept:]]))


def _common_start(one: list[Raw], other: list[Raw]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
