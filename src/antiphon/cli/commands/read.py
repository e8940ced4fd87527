"""What a server offers: lists of its tools, resources and prompts; a resource read, a prompt filled in."""

from __future__ import annotations

import difflib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeVar, cast

from antiphon.cli.arguments import read_texts
from antiphon.cli.open_client import name_left_out, open_client
from antiphon.cli.options import AnswerOptions, Json, Reach, TargetText
from antiphon.cli.output.formats import discard_output, first_line, is_terminal, print_json, print_list, print_text
from antiphon.cli.output.output_files import Output, data_of, format_block, format_contents, part_of, save_parts
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, ConfigError, PeerError
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool, read_properties


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
            if contents.text is not None or is_terminal():
                print_text(format_contents(contents))
                continue
            try:
                sys.stdout.flush()
                sys.stdout.buffer.write(data_of(contents))
                sys.stdout.buffer.flush()
            except OSError as error:
                discard_output(sys.stdout, error)


async def _close_to(client: Client, uri: str) -> str | None:
    """Return the known URI that was probably meant.

    An error here is ignored, since the server has reported it before.
    """
    with suppress(AntiphonError):
        known = [resource.uri async for resource in client.resources()]
        return None if uri in known else next(iter(difflib.get_close_matches(uri, known, 1)), None)
    return None


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


T = TypeVar("T")


async def tools(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List the tools of a server."""
    columns: dict[str, Callable[[Tool], str]] = {
        "tool": lambda tool: tool.name,
        "arguments": format_signature,
        "description": lambda tool: first_line(tool.description or tool.title),
    }
    return await _print_all(target, reach, Client.tools, columns, noun="tools", as_json=as_json)


async def resources(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List what a server lets you read.

    Its resources, and the templates of those it makes on demand.
    """
    columns: dict[str, Callable[[Resource | ResourceTemplate], str]] = {
        "resource": lambda one: one.uri if isinstance(one, Resource) else one.uri_template,
        "type": lambda one: one.mime_type or "",
        "name": lambda one: one.title or one.name,
        "description": lambda one: first_line(one.description),
    }
    return await _print_all(target, reach, _iterate_resources, columns, noun="resources", as_json=as_json)


async def prompts(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List the prompts of a server."""
    columns: dict[str, Callable[[Prompt], str]] = {
        "prompt": lambda prompt: prompt.name,
        "arguments": lambda prompt: ", ".join(
            f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ()
        ),
        "description": lambda prompt: first_line(prompt.description or prompt.title),
    }
    return await _print_all(target, reach, Client.prompts, columns, noun="prompts", as_json=as_json)


async def _print_all(
    target: str,
    reach: Reach,
    iterate: Callable[[Client], AsyncIterator[T]],
    columns: Mapping[str, Callable[[T], str]],
    *,
    noun: str,
    as_json: bool,
) -> int:
    async with open_client(target, reach) as client:
        found = [item async for item in iterate(client)]
        code = await name_left_out(client)
    print_list(found, columns, as_json=as_json, nothing=f"The server has no {noun}.")
    return code


async def _iterate_resources(client: Client) -> AsyncIterator[Resource | ResourceTemplate]:
    async for resource in client.resources():
        yield resource
    async for template in client.resource_templates():
        yield template


def format_signature(tool: Tool) -> str:
    """Return the arguments of a tool in short form: optional ones with a question mark, each with its type."""
    required = tool.input_schema.get("required")
    members = read_properties(tool.input_schema).items()
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    return ", ".join(f"{name}{'' if name in needed else '?'}: {_format_type(spec)}" for name, spec in members)


def _format_type(spec: object, *, is_inner: bool = False) -> str:
    given: Mapping[str, Any] = cast("Mapping[str, Any]", spec) if isinstance(spec, dict) else {}
    others = cast("list[Any]", given["anyOf"]) if isinstance(given.get("anyOf"), list) and not is_inner else []
    kind = given.get("type") or [_format_type(one, is_inner=True) for one in others] or "any"
    return " or ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)
