"""What a server lists, read to its last page and examined; and calls of the tools that may be called."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from antiphon.check.check_rules import MAX_VALUES, list_texts, read_list, read_object
from antiphon.check.raw_peer import Json, RawPeer
from antiphon.errors import AntiphonError
from antiphon.host.checks.redact import find_secrets
from antiphon.json_schema.effort import count_members
from antiphon.json_schema.validator import MAX_DEPTH, MismatchError, SchemaValidator
from antiphon.wire.envelope import encode_value, too_deep

MAX_PAGES, MAX_ITEMS, MAX_TEXT = 200, 2_000, 500_000
"""Most pages, items and characters of the definitions that are looked at; real lists have below 200,000 characters."""
LISTS = (
    ("tools", "tools/list", "tools", "name", "tool"),
    ("resources", "resources/list", "resources", "uri", "resource"),
    ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate", "template"),
    ("prompts", "prompts/list", "prompts", "name", "prompt"),
)
"""The capability, the method, the member of its result, what tells its items apart, and what rules call one."""
Definitions = Mapping[str, list[Any]]
"""The items of each list by the member of its results."""


async def read_lists(peer: RawPeer) -> Definitions:
    """Read every list that the server declares to its last page, and note what is wrong with its pages."""
    found: dict[str, list[Any]] = {}
    for capability, method, member, _, _ in LISTS:
        if capability in peer.capabilities and not peer.ended:
            found[member] = await _read_list(peer, method, member)
            if found[member] and peer.usual[0][0] == "ping":
                peer.usual = [(method, {})]
    return found


async def _read_list(peer: RawPeer, method: str, member: str) -> list[Any]:
    items: list[Any] = []
    cursors: list[str] = []
    while not peer.ended:
        place = f"{method}, page {len(cursors) + 1}" if cursors else method
        reply = await peer.ask(method, {"cursor": cursors[-1]} if cursors else {}, place=place)
        if reply is not None:
            peer.examine(f"page:{method}", reply, place)
        result = read_object((reply or {}).get("result"))
        items += read_list(result.get(member))
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in cursors:
            if cursor in cursors:
                peer.note("list.repeated-cursor", f"{place}: nextCursor", cursor)
            wrong, place = {"cursor": "antiphon-check-nothing"}, f"{method} with a cursor that was never given"
            if cursors and (reply := await peer.ask(method, wrong, place=place)) is not None:
                peer.examine("reply:bad-cursor", reply, place)
            break
        cursors.append(cursor)
        if len(items) > MAX_ITEMS or len(cursors) > MAX_PAGES:
            peer.note("list.endless", method, f"{len(items)} items on {len(cursors)} pages, and no end")
            break
    return items


def examine_definitions(peer: RawPeer, lists: Definitions) -> dict[str, str]:
    """Apply the rules to every definition that anybody can read; return a digest of each by its kind and name."""
    left, found = MAX_TEXT, dict[str, str]()
    for _, method, member, key, kind in LISTS:
        items = lists.get(member, [])
        sizes = [sum(len(text) for _, text in list_texts(item)) for item in items[:MAX_ITEMS]]
        names = [read_object(item).get(key) for item in items[:MAX_ITEMS]]
        about = {"method": method, "count": len(items), "names": names, "tokens": sum(sizes) // 4}
        peer.examine("list", about, method)
        for at, (item, size, name) in enumerate(zip(items, sizes, names, strict=False)):
            place = f"{method}: {member}[{at}]" + (f' "{name[:80]}"' if isinstance(name, str) else "")
            digest = sha256(msgspec.json.encode(item, order="sorted")).hexdigest()[:32]
            found[f"{member} {name!s:.200}"] = digest
            left -= size
            is_too_much = count_members(item, MAX_VALUES) > MAX_VALUES or too_deep(encode_value(item), MAX_DEPTH)
            if left < 0 or is_too_much:
                peer.note("safety.unsearched", place, f"{size} characters")
            else:
                peer.examine(kind, item, place)
                peer.examine("text", item, place)
    return found


async def call_tools(peer: RawPeer, lists: Definitions, calls: Mapping[str, Mapping[str, Any]]) -> None:
    """Call the tools that may be called, and examine their results; then call one that does not exist."""
    named = [(read_object(tool).get("name"), tool) for tool in lists.get("tools", [])]
    tools = {name: tool for name, tool in named if isinstance(name, str) and name in calls}
    peer.is_calling = True
    for name, tool in tools.items():
        place = f"tools/call {name}"
        params = {"name": name, "arguments": dict(calls[name]), "_meta": {"progressToken": "antiphon-check"}}
        reply = await peer.ask("tools/call", params, place=place)
        result = read_object((reply or {}).get("result"))
        if reply is not None:
            peer.usual = [*peer.usual, ("tools/call", {"name": name, "arguments": calls[name]})]
        if reply is not None and "result" in reply and result.get("resultType", "complete") == "complete":
            peer.examine("call", result, place)
            for secret in find_secrets(encode_value(result)[:MAX_TEXT].decode(errors="replace"))[:3]:
                peer.note("safety.secret", place, f"{secret.kind} in its result")
            await _compare_with_schema(peer, place, read_object(tool.get("outputSchema")), result)
    wrong: Json = {"name": "antiphon-check-nothing", "arguments": {}}
    if tools and (reply := await peer.ask("tools/call", wrong)) is not None:
        peer.examine("reply:unknown-tool", reply, "tools/call of a tool that does not exist")
    peer.is_calling = False


async def _compare_with_schema(peer: RawPeer, place: str, schema: Json, result: Json) -> None:
    if not schema or result.get("isError") is True:
        return
    where = f"{place}: structuredContent"
    if "structuredContent" not in result:
        peer.note("call.unstructured", where, result)
        return
    # That a schema itself cannot be used is reported by a rule on definitions.
    with suppress(AntiphonError):
        try:
            await SchemaValidator(schema, place=place).check(result["structuredContent"])
        except MismatchError as error:
            peer.note("call.mismatch", where, str(error))
