"""Prepares JSON for decoding: unknown content becomes a stand-in, and a whole number written as 1.0 an integer.

A flag that is null counts as left out, because some servers write all members. So does a null among the values of a
form or a prompt, because clients write one for each field that was left empty. Null in the place of a list is an empty
list, as nil is in Go, but not in the place of content. A text in the place of a list of texts is a list of one, as a
draft had it of icons. An empty list in the place of an object is an empty object, because PHP cannot tell them apart.
A server without a version has an empty one, since it is for display only. A tool's result may have structured content
alone: its other content is then the same as text. A block of it that cannot be read, such as an image without its
type, costs it no other.
The search follows a plan that is made once per type, because a peer decides how often it runs. ``envelope.decode``
decodes the result and puts the unknown content back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from msgspec import Struct, ValidationError, convert, inspect, json

from antiphon.wire.common import UNREADABLE
from antiphon.wire.content import Block, ContentBlock, UnknownContent

MAX_UNKNOWN = 1000
"""Most unknown blocks in one message. Further ones are left in place, so that the message is refused: each costs far
more time than its size suggests, and real messages have only a few."""

Path = tuple[str | int, ...]
"""The way to a place in a decoded value, by attributes and indexes."""

Found = list[tuple[Path, UnknownContent]]

_STAND_IN: Mapping[str, str] = {"type": "text", "text": ""}

_MAX_GIVEN = 1000
"""Most characters of a block that cannot be read that stand in the text in its place."""


class _Plan(Struct, frozen=True, kw_only=True):
    """What to look for at one place of a document."""

    tags: frozenset[str] = frozenset()
    """Known types of content; empty where no content may stand."""
    only: frozenset[str] = frozenset()
    """What alone may stand here: ``whole`` numbers, a ``list``, a list of ``texts``, ``values`` by names, none of them
    null, or no list but an ``object``."""
    items: _Plan | None = None
    """The plan for the items of a list."""
    tag_field: str | None = None
    fields: Mapping[str | None, tuple[tuple[str, str, _Plan], ...]] = {}
    """By tag (``None`` if there is only one type): member, attribute and plan of what to look into."""


def mend_document(document: Any, kind: type) -> tuple[Any, Found]:
    """Mend a document, in place as far as possible. Returns it with the unknown content and the places of that."""
    found: Found = []
    is_of_tool = isinstance(document, dict) and hasattr(kind, "structured_content")
    if is_of_tool:
        _add_content(cast("dict[str, Any]", document))
    elif isinstance(document, dict) and hasattr(kind, "server_info"):
        info = cast("dict[str, dict[str, Any]]", document).get("serverInfo")
        if isinstance(info, dict) and info.get("version") is None:
            info["version"] = ""
    plan = _plan_of(kind)
    mended: Any = cast("Any", document) if plan is None else _mend_data(plan, document, (), found)
    if is_of_tool:
        _replace_unreadable(mended, MAX_UNKNOWN - len(found))
    return mended, found


def _add_content(result: dict[str, Any]) -> None:
    """Add structured content as text to a result that has nothing else, as servers SHOULD (2025-11-25 server/tools).

    Null is an empty list where nothing else is there, as nil is in Go; but with other members it may be another kind.
    """
    structured = result.get("structuredContent")
    if result.get("content") is None and (structured is not None or {"content"} <= result.keys() <= _OF_TOOLS):
        words = [] if structured is None else [{"type": "text", "text": json.encode(structured).decode()}]
        result["content"] = words


_OF_TOOLS = {"_meta", "content", "isError", "resultType", "structuredContent"}


def _replace_unreadable(result: dict[str, Any], left: int) -> None:
    """Replace each block but text that cannot be read by text that says why, and note it; ``left``: how many may be."""
    content: Any = result.get("content")
    meta: Any = result.get("_meta") or {}
    blocks = cast("list[Any]", content) if isinstance(content, list) and isinstance(meta, dict) else []
    for at, block in enumerate(blocks):
        kind: Any = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
        try:
            if isinstance(kind, str) and kind != "text" and left:
                convert(block, ContentBlock)
        except ValidationError as error:
            given = json.encode(block).decode()[:_MAX_GIVEN]
            blocks[at] = {"type": "text", "text": f"[content that cannot be read: {error}] {given}"}
            result["_meta"], left = {**meta, UNREADABLE: True}, left - 1


def _mend_data(plan: _Plan, data: Any, path: Path, found: Found) -> Any:
    if isinstance(data, dict):
        return _mend_object(plan, cast("dict[str, Any]", data), path, found)
    if isinstance(data, list):
        if "object" in plan.only and not data:
            return {}
        if plan.items is not None:
            return [_mend_data(plan.items, item, (*path, at), found) for at, item in enumerate(cast("list[Any]", data))]
    elif "whole" in plan.only and isinstance(data, float) and data.is_integer():
        return int(data)
    elif "texts" in plan.only and isinstance(data, str):
        return [data]
    return [] if data is None and "list" in plan.only else cast("Any", data)


def _mend_object(plan: _Plan, data: dict[str, Any], path: Path, found: Found) -> Any:
    tag = data.get("type")
    if plan.tags and isinstance(tag, str) and tag not in plan.tags and len(found) < MAX_UNKNOWN:
        found.append((path, UnknownContent(tag, {name: value for name, value in data.items() if name != "type"})))
        return _STAND_IN
    if "values" in plan.only:
        return {name: value for name, value in data.items() if value is not None}
    choice = data.get(plan.tag_field) if plan.tag_field else None
    if choice is None or isinstance(choice, str):
        for member, attribute, inner in plan.fields.get(choice, ()):
            if inner is _FLAG and data.get(member, inner) is None:
                del data[member]
            elif member in data:
                data[member] = _mend_data(inner, data[member], (*path, attribute), found)
    return data


_FLAG = _Plan()
"""The plan for a flag or a choice that may be left out."""


@cache
def _plan_of(kind: type) -> _Plan | None:
    return _make_plan(inspect.type_info(kind))


def _make_plan(node: inspect.Type, *, fills: bool = False) -> _Plan | None:
    """Make the plan for a type, or ``None`` if there is nothing to look for; ``fills``: a null list is empty."""
    members = _list_members(node)
    structs = [member for member in members if isinstance(member, inspect.StructType)]
    tagged = len(structs) > 1
    found = {each.tag if tagged else None: plans for each in structs if (plans := _plans_of_fields(each))}
    fields, tag_field = cast("Any", found), structs[0].tag_field if tagged else None
    lists = [member.item_type for member in members if isinstance(member, inspect.ListType)]
    items = _make_plan(lists[0]) if lists else None
    tags = frozenset(str(each.tag) for each in structs if issubclass(each.cls, Block))
    kinds = {type(member) for member in members}
    named = [_list_members(member.value_type) for member in members if isinstance(member, inspect.DictType)]
    only = {
        "whole": inspect.IntType in kinds and inspect.FloatType not in kinds,
        "list": fills and bool(lists) and inspect.NoneType not in kinds and not (items and items.tags),
        "texts": inspect.StrType not in kinds and any(isinstance(item, inspect.StrType) for item in lists),
        "values": any(inspect.StrType() in kinds and inspect.NoneType() not in kinds for kinds in named),
        "object": not lists and not kinds.isdisjoint((inspect.StructType, inspect.DictType)),
    }
    applying = frozenset(name for name, applies in only.items() if applies)
    plan = _Plan(tags=tags, only=applying, items=items, tag_field=tag_field, fields=fields)
    return None if plan == _FLAG else plan


def _list_members(node: inspect.Type) -> tuple[inspect.Type, ...]:
    return node.types if isinstance(node, inspect.UnionType) else (node,)


def _plans_of_fields(struct: inspect.StructType) -> tuple[tuple[str, str, _Plan], ...]:
    flags = inspect.BoolType | inspect.LiteralType
    # A page of a list that is null is told to the user (``lists``).
    fills = not hasattr(struct.cls, "next_cursor")
    plans = [
        (
            each.encode_name,
            each.name,
            _FLAG if isinstance(each.type, flags) and not each.required else _make_plan(each.type, fills=fills),
        )
        for each in struct.fields
    ]
    return tuple((member, attribute, plan) for member, attribute, plan in plans if plan is not None)
