"""What a server offers: its lists, fetched whole or one kind at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, Literal

from msgspec import Struct, structs

from antiphon.client.client import Client
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool

__all__ = ["KINDS", "Kind", "Offer", "changes", "fetch"]

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


async def fetch(client: Client, before: Offer, kinds: Collection[Kind] = KINDS) -> Offer:
    """List what a server offers; what is not of these ``kinds`` stays as it was ``before``."""
    has = client.server_capabilities
    offer = structs.replace(before, completes=has.completions is not None, instructions=client.instructions)
    if "tools" in kinds:
        offer = structs.replace(offer, tools=await _taken(client.tools()) if has.tools is not None else ())
    if "prompts" in kinds:
        offer = structs.replace(offer, prompts=await _taken(client.prompts()) if has.prompts is not None else ())
    if "resources" in kinds:
        some = has.resources is not None
        resources = await _taken(client.resources()) if some else ()
        templates = await _taken(client.resource_templates()) if some else ()
        offer = structs.replace(offer, resources=resources, templates=templates)
    return offer


def changes(before: Offer, after: Offer) -> list[Kind]:
    """Return the kinds of which two offers differ."""
    found: list[Kind] = []
    if before.tools != after.tools:
        found.append("tools")
    if before.prompts != after.prompts:
        found.append("prompts")
    if (before.resources, before.templates) != (after.resources, after.templates):
        found.append("resources")
    return found


async def _taken(items: AsyncIterator[Any]) -> tuple[Any, ...]:
    taken: list[Any] = []
    async for item in items:
        taken.append(item)
        if len(taken) == MAX_ITEMS:
            break
    return tuple(taken)
