"""What a server offers: its lists, fetched whole or one kind at a time."""

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
"""What changes together; resources include their templates."""

KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")

MAX_ITEMS = 10_000
"""Most tools, prompts, resources or templates that are listed of one server."""


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
    """Its capabilities of extensions, with their settings."""
    experimental: dict[str, Any] = {}
    """Its other capabilities beyond the protocol."""
    originals: dict[str, Raw] = {}
    """The definitions with members that their types do not know, as they came, by ``place_of``."""


def place_of(item: Definition) -> str:
    """Return what names a definition among all of its server."""
    if isinstance(item, ResourceTemplate):
        return f"templates {item.uri_template}"
    return f"resources {item.uri}" if isinstance(item, Resource) else f"{_KINDS[type(item)]} {item.name}"


async def fetch(client: Client, before: Offer, kinds: Collection[Kind] = KINDS) -> Offer:
    """List what a server offers; what is not of these ``kinds`` stays as it was ``before``."""
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
    """Return the kinds of which two offers differ."""
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
    """One page of any list, with its definitions as they came."""

    tools: list[Raw] = []
    prompts: list[Raw] = []
    resources: list[Raw] = []
    resource_templates: list[Raw] = []

    @property
    def templates(self) -> list[Raw]:
        """The templates, by the name that they have here."""
        return self.resource_templates


async def _taken(client: Client, name: str) -> tuple[tuple[Any, ...], dict[str, Raw]]:
    """List all of one kind; return the definitions, and those as they came that are more than what was decoded."""
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
    """Return the place of a definition that has more members than are known; ``None`` for most."""
    kind = next(kind for kind, named in _KINDS.items() if named == name)
    item = decode(raw, kind)
    is_known = json.decode(raw) == json.decode(encode(item))
    return None if is_known else place_of(item)
