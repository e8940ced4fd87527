"""``antiphon prompts``: the message templates of a server."""

from __future__ import annotations

from antiphon.cli.open_client import name_left_out, opened, run
from antiphon.cli.options import Json, Reach, TargetText
from antiphon.cli.output.formats import first_line, print_list
from antiphon.wire.prompts import Prompt

__all__ = ["command"]


def command(
    target: TargetText,
    *,
    as_json: Json = False,
    reach: Reach,
) -> int:
    """List the prompts of a server."""
    return run(_prompts(target, reach, as_json=as_json))


async def _prompts(target: str, reach: Reach, *, as_json: bool) -> int:
    async with opened(target, reach) as client:
        prompts = [prompt async for prompt in client.prompts()]
        code = await name_left_out(client)
    print_list(
        prompts,
        {
            "prompt": lambda prompt: prompt.name,
            "arguments": _arguments,
            "description": lambda prompt: first_line(prompt.description or prompt.title),
        },
        as_json=as_json,
        nothing="The server has no prompts.",
    )
    return code


def _arguments(prompt: Prompt) -> str:
    return ", ".join(f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ())
