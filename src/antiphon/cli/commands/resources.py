"""``antiphon resources``: the resources of a server."""

from __future__ import annotations

from antiphon.cli.open_client import name_left_out, opened, run
from antiphon.cli.options import Json, Reach, TargetText
from antiphon.cli.output.formats import first_line, print_list
from antiphon.wire.resources import Resource, ResourceTemplate

__all__ = ["command"]


def command(
    target: TargetText,
    *,
    as_json: Json = False,
    reach: Reach,
) -> int:
    """List what a server lets you read.

    Its resources, and the templates of those it makes on demand.
    """
    return run(_resources(target, reach, as_json=as_json))


async def _resources(target: str, reach: Reach, *, as_json: bool) -> int:
    async with opened(target, reach) as client:
        found: list[Resource | ResourceTemplate] = [one async for one in client.resources()]
        found += [one async for one in client.resource_templates()]
        code = await name_left_out(client)
    print_list(
        found,
        {
            "resource": _address,
            "type": lambda one: one.mime_type or "",
            "name": lambda one: one.title or one.name,
            "description": lambda one: first_line(one.description),
        },
        as_json=as_json,
        nothing="The server has no resources.",
    )
    return code


def _address(one: Resource | ResourceTemplate) -> str:
    return one.uri if isinstance(one, Resource) else one.uri_template
