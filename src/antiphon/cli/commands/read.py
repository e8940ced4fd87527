"""``antiphon read`` and ``antiphon prompt``: the contents of a resource, and a prompt, filled in."""

from __future__ import annotations

import difflib
import sys
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Annotated

from antiphon.cli.arguments import read_texts, suggest_similar
from antiphon.cli.open_client import open_client, run_coroutine
from antiphon.cli.options import AnswerOptions, Json, Reach, TargetText, Texts
from antiphon.cli.output.formats import is_terminal, print_json, print_text
from antiphon.cli.output.output_files import Output, contents_text, data_of, part_of, save_parts, text_of_block
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, PeerError
from antiphon.wire.content import ResourceContents
from antiphon.wire.prompts import GetPromptResult

__all__ = ["command", "prompt"]


def command(
    target: TargetText,
    uri: Annotated[str, "URI"],
    *,
    output: Output = None,
    as_json: Json = False,
    answers: AnswerOptions,
    reach: Reach,
) -> int:
    """Read a resource of a server.

    Text is printed; binary data goes into a pipe or a file.
    """
    return run_coroutine(_read_resource(open_client(target, reach, answers), uri, output, as_json=as_json))


async def _read_resource(
    opening: AbstractAsyncContextManager[Client], uri: str, output: Path | None, *, as_json: bool
) -> None:
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
        print_text(contents_text(contents))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data_of(contents))
    sys.stdout.buffer.flush()


def prompt(
    target: TargetText,
    name: Annotated[str, "PROMPT"],
    arguments: Texts = None,
    *,
    as_json: Json = False,
    answers: AnswerOptions,
    reach: Reach,
) -> int:
    """Print a prompt of a server, filled in."""
    return run_coroutine(
        _print_prompt(open_client(target, reach, answers), name, read_texts(arguments or ()), as_json=as_json)
    )


async def _print_prompt(
    opening: AbstractAsyncContextManager[Client], name: str, arguments: dict[str, str], *, as_json: bool
) -> None:
    async with opening as client:
        try:
            result = await client.get_prompt(name, arguments)
        except PeerError:
            await _check_there(client, name)
            raise
    if as_json:
        print_json(result)
    else:
        print_text(_write_messages(result))


async def _check_there(client: Client, name: str) -> None:
    names = [prompt.name async for prompt in client.prompts()]
    if name not in names:
        raise ConfigError(f"the server has no prompt {name!r}: {suggest_similar(name, names)}") from None


def _write_messages(result: GetPromptResult) -> str:
    return "\n\n".join(f"{message.role}:\n{text_of_block(message.content)}" for message in result.messages)
