"""``antiphon prompts``: the message templates of a server."""

from __future__ import annotations

from antiphon.cli.open_client import opened, run
from antiphon.cli.options import Config, Headers, Json, Messages, Reach, RevisionName, TargetText, Timeout, Verbose
from antiphon.cli.output.formats import first_line, print_list
from antiphon.wire.prompts import Prompt

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
    """List the prompts of a server."""
    reach = Reach(
        target=target,
        config=config,
        header=header,
        revision=revision,
        timeout=timeout,
        verbose=verbose,
        messages=messages,
    )
    return run(_prompts(reach, as_json=as_json))


async def _prompts(reach: Reach, *, as_json: bool) -> None:
    async with opened(reach) as client:
        prompts = [prompt async for prompt in client.prompts()]
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


def _arguments(prompt: Prompt) -> str:
    return ", ".join(f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ())
