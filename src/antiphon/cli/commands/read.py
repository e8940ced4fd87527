"""``antiphon read`` and ``antiphon prompt``: the contents of a resource, and a prompt, filled in."""

from __future__ import annotations

import difflib
import sys
from contextlib import suppress
from typing import Annotated

from antiphon.cli.arguments import read_texts, suggest_similar
from antiphon.cli.open_client import open_client
from antiphon.cli.options import AnswerOptions, Json, Reach, TargetText
from antiphon.cli.output.formats import is_terminal, print_json, print_text
from antiphon.cli.output.output_files import Output, data_of, format_block, format_contents, part_of, save_parts
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, PeerError
from antiphon.wire.content import ResourceContents


async def command(
    target: TargetText,
    uri: Annotated[str, "URI"],
    *,
    output: Output = None,
    as_json: Json = False,
    answers: AnswerOptions,
    reach: Reach,
) -> None:
    """Read a resource of a server.

    Text is printed; binary data goes into a pipe or a file.
    """
    async with open_client(target, reach, answers) as client:
        try:
            result = await client.read_resource(uri)
        except PeerError as error:
            if close := await _close_to(client, uri):
                error.add_note(f"did you mean {close}?")
            raise
    if as_json:
        print_json(result)
    elif output is not None:
        save_parts([part_of(contents) for contents in result.contents], output)
    else:
        for contents in result.contents:
            _show_contents(contents)


async def _close_to(client: Client, uri: str) -> str | None:
    """Return the known URI that was probably meant.

    An error here is ignored, since the server has reported it before.
    """
    with suppress(AntiphonError):
        known = [resource.uri async for resource in client.resources()]
        return None if uri in known else next(iter(difflib.get_close_matches(uri, known, 1)), None)
    return None


def _show_contents(contents: ResourceContents) -> None:
    if contents.text is not None or is_terminal():
        print_text(format_contents(contents))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data_of(contents))
    sys.stdout.buffer.flush()


async def prompt(
    target: TargetText,
    name: Annotated[str, "PROMPT"],
    arguments: list[str] | None = None,
    *,
    as_json: Json = False,
    answers: AnswerOptions,
    reach: Reach,
) -> None:
    """Print a prompt of a server, filled in.

    Usage:
        [KEY=VALUE]...: Arguments of the prompt, as key=value.
    """
    filled_in = read_texts(arguments or ())
    async with open_client(target, reach, answers) as client:
        try:
            result = await client.get_prompt(name, filled_in)
        except PeerError:
            names = [prompt.name async for prompt in client.prompts()]
            if name not in names:
                raise ConfigError(f"the server has no prompt {name!r}: {suggest_similar(name, names)}") from None
            raise
    if as_json:
        print_json(result)
        return
    print_text("\n\n".join(f"{message.role}:\n{format_block(message.content)}" for message in result.messages))
