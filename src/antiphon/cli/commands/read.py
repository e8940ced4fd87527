"""``antiphon read``: the contents of a resource."""

from __future__ import annotations

import difflib
import sys
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Annotated

from antiphon.cli.open_client import opened, run
from antiphon.cli.options import Answers, Json, Reach, TargetText
from antiphon.cli.output.contents import contents_text
from antiphon.cli.output.files import Output, data_of, part_of, save
from antiphon.cli.output.formats import is_terminal, print_json, print_text
from antiphon.cli.signatures import Argument
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, PeerError
from antiphon.wire.content import ResourceContents

__all__ = ["command"]


def command(
    target: TargetText,
    uri: Annotated[str, Argument(metavar="URI")],
    *,
    output: Output = None,
    as_json: Json = False,
    answers: Answers,
    reach: Reach,
) -> int:
    """Read a resource of a server.

    Text is printed; binary data goes into a pipe or a file.
    """
    return run(_read(opened(target, reach, answers), uri, output, as_json=as_json))


async def _read(opening: AbstractAsyncContextManager[Client], uri: str, output: Path | None, *, as_json: bool) -> None:
    async with opening as client:
        try:
            result = await client.read_resource(uri)
        except PeerError as error:
            if close := await _close_to(client, uri):
                error.add_note(f"did you mean {close}?")
            raise
    if as_json:
        print_json(result)
    elif output is not None:
        save([part_of(contents) for contents in result.contents], output)
    else:
        for contents in result.contents:
            _show(contents)


async def _close_to(client: Client, uri: str) -> str | None:
    """Return the known URI that was probably meant.

    An error here is ignored, since the server has reported it before.
    """
    with suppress(AntiphonError):
        known = [resource.uri async for resource in client.resources()]
        return None if uri in known else next(iter(difflib.get_close_matches(uri, known, 1)), None)
    return None


def _show(contents: ResourceContents) -> None:
    if contents.text is not None or is_terminal():
        print_text(contents_text(contents))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data_of(contents))
    sys.stdout.buffer.flush()
