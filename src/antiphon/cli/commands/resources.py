"""``antiphon resources``: the resources of a server."""

from __future__ import annotations

from antiphon.cli.open_client import opened, run
from antiphon.cli.options import Config, Headers, Json, Messages, Reach, RevisionName, TargetText, Timeout, Verbose
from antiphon.cli.output.formats import first_line, print_list
from antiphon.wire.resources import Resource, ResourceTemplate

__all__ = ["command"]


def command(
    target: TargetText,
    *,
    as_json: Json = False,
    config: Config = None,
    header: Headers = None,
    revision: RevisionName = "auto",
    timeout: Timeout = 60.0,
    messages: Messages = False,
    verbose: Verbose = False,
) -> int:
    """List what a server lets you read.

    Its resources, and the templates of those it makes on demand.
    """
    reach = Reach(
        target=target,
        config=config,
        header=header,
        revision=revision,
        timeout=timeout,
        verbose=verbose,
        messages=messages,
    )
    return run(_resources(reach, as_json=as_json))


async def _resources(reach: Reach, *, as_json: bool) -> None:
    async with opened(reach) as client:
        found: list[Resource | ResourceTemplate] = [one async for one in client.resources()]
        found += [one async for one in client.resource_templates()]
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


def _address(one: Resource | ResourceTemplate) -> str:
    return one.uri if isinstance(one, Resource) else one.uri_template
