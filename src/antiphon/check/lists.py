"""Every list of a server to its last page, and the definitions in it."""

from __future__ import annotations

from typing import Any, cast

from antiphon.check.findings import ServerDefinitions, excerpt_of, name_place
from antiphon.check.message_rules import find_result_faults
from antiphon.check.peer import Json, RawPeer
from antiphon.check.probes import NOTHING

MAX_PAGES = 200
MAX_ITEMS = 10_000
"""Most pages and items of one list that are looked at."""

_LISTS = (
    ("tools", "tools/list", "tools", "name"),
    ("resources", "resources/list", "resources", "uri"),
    ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts", "prompts/list", "prompts", "name"),
)
"""The capability, the method, the member of its result, and what tells its items apart."""


async def read_definitions(peer: RawPeer) -> ServerDefinitions:
    """Read every list that the server declares to its last page, and report what is wrong with its pages."""
    found: dict[str, tuple[Any, ...]] = {}
    for capability, method, member, key in _LISTS:
        if capability in peer.capabilities and not peer.ended:
            found[member] = tuple(await _read_list(peer, method, member))
            _find_repetitions(peer, method, member, found[member], key)
    return ServerDefinitions(
        revision=peer.revision.name,
        opening=peer.opening,
        tools=found.get("tools", ()),
        resources=found.get("resources", ()),
        templates=found.get("resourceTemplates", ()),
        prompts=found.get("prompts", ()),
    )


async def _read_list(peer: RawPeer, method: str, member: str) -> list[Any]:
    items: list[Any] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for page in range(1, MAX_PAGES + 1):
        reply = await peer.ask(method, {} if cursor is None else {"cursor": cursor})
        place = method if page == 1 else f"{method}, page {page}"
        result = None if reply is None else reply.get("result")
        if not isinstance(result, dict):
            if reply is not None and "error" in reply:
                rule = "list.templates" if method == "resources/templates/list" else "list.refused"
                peer.report(rule, place, reply)
            return items
        result = cast("Json", result)
        for rule, seen in find_result_faults(method, result, modern=peer.revision.modern):
            peer.report(rule, place, seen)
        if not isinstance(found := result.get(member), list):
            peer.report("list.shape", f"{place}: {member}", excerpt_of(result))
            return items
        items += cast("list[Any]", found)
        cursor = _next_cursor(peer, place, result, cursors)
        if cursor is None:
            await _try_bad_cursor(peer, method)
            return items
        if len(items) > MAX_ITEMS:
            break
    peer.report("list.endless", method, f"{len(items)} items, and no end")
    return items


def _next_cursor(peer: RawPeer, place: str, result: Json, cursors: set[str]) -> str | None:
    if "nextCursor" not in result:
        return None
    cursor = result["nextCursor"]
    if not isinstance(cursor, str):
        peer.report("list.cursor", f"{place}: nextCursor", f"{cursor!r}")
        return None
    if cursor in cursors:
        peer.report("list.repeated-cursor", f"{place}: nextCursor", cursor)
        return None
    if not cursor:
        peer.report("list.empty-cursor", f"{place}: nextCursor", '""')
        return None
    cursors.add(cursor)
    return cursor


async def _try_bad_cursor(peer: RawPeer, method: str) -> None:
    reply = await peer.ask_for(peer.make_request(method, {"cursor": NOTHING}), place=f"{method} with a wrong cursor")
    if reply is not None and "result" in reply:
        peer.report("list.bad-cursor", f"{method} with a wrong cursor", reply)


def _find_repetitions(peer: RawPeer, method: str, member: str, items: tuple[Any, ...], key: str) -> None:
    met: dict[str, int] = {}
    for at, item in enumerate(items):
        name = cast("Json", item).get(key) if isinstance(item, dict) else None
        if isinstance(name, str) and name in met:
            peer.report(
                "list.repeated", name_place(method, member, at, name), f"the same {key} as {member}[{met[name]}]"
            )
        elif isinstance(name, str):
            met[name] = at


def compare_definitions(peer: RawPeer, one: ServerDefinitions, other: ServerDefinitions) -> None:
    """Report what a second session lists otherwise than the first, on the same revision."""
    for member in ("tools", "resources", "templates", "prompts"):
        if getattr(one, member) != getattr(other, member):
            first, second = (len(getattr(each, member)) for each in (one, other))
            peer.report("list.unstable", f"{member} of two sessions", f"{first} items, then {second}, or others")
