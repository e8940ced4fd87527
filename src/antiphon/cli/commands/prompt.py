"""``antiphon prompt``: one prompt of a server, filled in."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from antiphon.cli.arguments import read_texts, similar
from antiphon.cli.open_client import opened, run
from antiphon.cli.options import Answers, Json, Reach, TargetText, Texts
from antiphon.cli.output.contents import text_of_block
from antiphon.cli.output.formats import print_json, print_text
from antiphon.cli.signatures import Argument
from antiphon.client.client import Client
from antiphon.errors import ConfigError, PeerError
from antiphon.wire.prompts import GetPromptResult

__all__ = ["command"]


def command(
    target: TargetText,
    name: Annotated[str, Argument(metavar="PROMPT")],
    arguments: Texts = None,
    *,
    as_json: Json = False,
    answers: Answers,
    reach: Reach,
) -> int:
    """Print a prompt of a server, filled in."""
    return run(_prompt(opened(target, reach, answers), name, read_texts(arguments or ()), as_json=as_json))


async def _prompt(
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
        print_text(_written(result))


async def _check_there(client: Client, name: str) -> None:
    names = [prompt.name async for prompt in client.prompts()]
    if name not in names:
        raise ConfigError(f"the server has no prompt {name!r}: {similar(name, names)}") from None


def _written(result: GetPromptResult) -> str:
    return "\n\n".join(f"{message.role}:\n{text_of_block(message.content)}" for message in result.messages)
