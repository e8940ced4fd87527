"""What a server offers: its lists, all of them or only some kinds fetched again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Raw, Struct, json, structs

from antiphon.client.client import Client
from antiphon.client.pagination import iterate
from antiphon.wire.common import PaginatedParams, PaginatedResult
from antiphon.wire.envelope import decode, encode
from antiphon.wire.lossless import Received
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool

__all__ = ["KINDS", "Definition", "Kind", "Offer", "changes", "fetch", "place_of"]

Kind = Literal["tools", "prompts", "resources"]
"""The kinds of lists, as notifications of changes name them; resources include their templates."""

KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")

MAX_ITEMS = 10_000
"""Most tools, prompts, resources or templates of one server that are listed."""


class Offer(Struct, frozen=True, kw_only=True):
    """What a server offers, as last listed."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    completes: bool = False
    """Whether it completes arguments."""
    instructions: str | None = None
    extensions: dict[str, Any] = {}
    """The extensions that it declares, with their settings."""
    experimental: dict[str, Any] = {}
    """The experimental capabilities that it declares."""
    originals: dict[str, Raw] = {}
    """The undecoded JSON of definitions that have unknown members, by ``place_of``."""


def place_of(item: Definition) -> str:
    """Return a name of a definition that is unique within its server."""
    if isinstance(item, ResourceTemplate):
        return f"templates {item.uri_template}"
    return f"resources {item.uri}" if isinstance(item, Resource) else f"{_KINDS[type(item)]} {item.name}"


async def fetch(client: Client, before: Offer, kinds: Collection[Kind] = KINDS) -> Offer:
    """List what a server offers. Only lists of these ``kinds`` are fetched; all else is taken from ``before``."""
    has = client.server_capabilities
    offer = structs.replace(
        before,
        completes=has.completions is not None,
        instructions=client.instructions,
        extensions=dict(has.extensions or {}),
        experimental=dict(has.experimental or {}),
    )
    offered = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources, "templates": has.resources}
    for name in ("tools", "prompts", "resources", "templates"):
        if ("resources" if name == "templates" else name) in kinds:
            items, originals = await _taken(client, name) if offered[name] is not None else ((), {})
            kept = {place: raw for place, raw in offer.originals.items() if not place.startswith(f"{name} ")}
            offer = structs.replace(offer, originals={**kept, **originals}, **{name: items})
    return offer


def changes(before: Offer, after: Offer) -> list[Kind]:
    """Return the kinds in which two offers differ."""
    found: list[Kind] = []
    if before.originals != after.originals:
        return [*KINDS]
    if before.tools != after.tools:
        found.append("tools")
    if before.prompts != after.prompts:
        found.append("prompts")
    if (before.resources, before.templates) != (after.resources, after.templates):
        found.append("resources")
    return found


Definition = Tool | Prompt | Resource | ResourceTemplate

_KINDS: Mapping[type[Definition], str] = {
    Tool: "tools",
    Prompt: "prompts",
    Resource: "resources",
    ResourceTemplate: "templates",
}
_METHODS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}
_NOTHING = Received(Raw(b"{}"), PaginatedParams())


class _Page(Struct, rename="camel"):
    """One page of any list, with its definitions undecoded."""

    tools: list[Raw] = []
    prompts: list[Raw] = []
    resources: list[Raw] = []
    resource_templates: list[Raw] = []

    @property
    def templates(self) -> list[Raw]:
        """The same as ``resource_templates``, by its name in ``Offer``."""
        return self.resource_templates


async def _taken(client: Client, name: str) -> tuple[tuple[Any, ...], dict[str, Raw]]:
    """List all of one kind; return the definitions, and the undecoded JSON of those with unknown members."""
    taken: list[Any] = []
    originals: dict[str, Raw] = {}

    async def page(cursor: str | None) -> tuple[PaginatedResult, int]:
        received = await client.forward(_METHODS[name], PaginatedParams(cursor=cursor), _NOTHING)
        for raw in getattr(decode(received.raw, _Page), name):
            place = _original(raw, name)
            if place is not None:
                originals[place] = Raw(bytes(raw))
        return received.read, len(received.raw)

    member = "resource_templates" if name == "templates" else name
    async for item in iterate(page, lambda listed: getattr(listed, member)):
        taken.append(item)
        if len(taken) == MAX_ITEMS:
            break
    places = {place_of(item) for item in taken}
    return tuple(taken), {place: raw for place, raw in originals.items() if place in places}


def _original(raw: Raw, name: str) -> str | None:
    """Return the place of a definition if it has unknown members; ``None`` for most."""
    kind = next(kind for kind, named in _KINDS.items() if named == name)
    item = decode(raw, kind)
    is_known = json.decode(raw) == json.decode(encode(item))
    return None if is_known else place_of(item)
