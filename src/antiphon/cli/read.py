"""``antiphon read``: the contents of a resource."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.contents import contents_text
from antiphon.cli.failures import WRONG_USAGE, Failed
from antiphon.cli.opening import opened, run
from antiphon.cli.options import (
    Config,
    Deny,
    Json,
    Messages,
    Reach,
    RevisionName,
    TargetText,
    Timeout,
    Verbose,
    Yes,
)
from antiphon.cli.output import is_terminal, print_json, print_text
from antiphon.wire.content import ResourceContents

__all__ = ["command"]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the contents to a file.", show_default=False),
]


def command(
    target: TargetText,
    uri: Annotated[str, typer.Argument(metavar="URI", show_default=False)],
    *,
    output: Output = None,
    as_json: Json = False,
    yes: Yes = False,
    deny: Deny = False,
    config: Config = None,
    revision: RevisionName = "auto",
    timeout: Timeout = 60.0,
    messages: Messages = False,
    verbose: Verbose = False,
) -> int:
    """Read a resource of a server.

    Text is printed; binary data goes into a pipe or a file.
    """
    reach = Reach(
        target=target,
        config=config,
        revision=revision,
        timeout=timeout,
        verbose=verbose,
        messages=messages,
        yes=yes,
        deny=deny,
        log_level="info",
    )
    return run(_read(reach, uri, output, as_json=as_json))


async def _read(reach: Reach, uri: str, output: Path | None, *, as_json: bool) -> None:
    async with opened(reach) as client:
        result = await client.read_resource(uri)
    if as_json:
        print_json(result)
    elif output is not None:
        _save(result.contents, output)
    else:
        for contents in result.contents:
            _show(contents)


def _save(parts: Sequence[ResourceContents], output: Path) -> None:
    if len(parts) != 1:
        raise Failed(f"the resource has {len(parts)} parts, which do not fit one file: use --json", WRONG_USAGE)
    output.write_bytes(_data(parts[0]))


def _show(contents: ResourceContents) -> None:
    if contents.text is not None or is_terminal():
        print_text(contents_text(contents))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(_data(contents))
    sys.stdout.buffer.flush()


def _data(contents: ResourceContents) -> bytes:
    try:
        return contents.bytes
    except ValueError as error:
        raise Failed(f"{contents.uri}: {error}") from None
