"""``antiphon call``: call a tool, and answer what it asks."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import msgspec

from antiphon.cli.arguments import read_arguments, suggest_similar
from antiphon.cli.commands.read import format_signature
from antiphon.cli.open_client import open_client
from antiphon.cli.options import AnswerOptions, Json, ModelApi, Reach, TargetText
from antiphon.cli.output.formats import FAILED, prefix_errors, print_json, print_text
from antiphon.cli.output.output_files import Output, format_blocks, parts_of, save_parts
from antiphon.cli.output.progress import Teller
from antiphon.client.client import Client
from antiphon.errors import ConfigError
from antiphon.host.store.store_location import state_folder
from antiphon.machine.files import read_file, replace_file
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult, Tool

MAX_STARTED = 200
"""Most tasks that are remembered; beyond that, the one started first is forgotten."""

_LARGEST = 64 * 1024
"""Most bytes of a file that are read."""

_SHORTEST = 4
"""Fewest characters that may stand for an id."""


async def command(
    target: TargetText,
    tool: Annotated[str, "TOOL"],
    arguments: list[str] | None = None,
    *,
    as_json: Json = False,
    output: Output = None,
    background: bool = False,
    answers: AnswerOptions,
    roots: list[str] | None = None,
    model_api: ModelApi = False,
    reach: Reach,
) -> int:
    """Call a tool of a server.

    What the server asks meanwhile is put to you, at the terminal; with a store and no terminal, to whoever decides it
    with antiphon review.

    Exit code 1 if the tool says that it failed.

    Usage:
        [KEY=VALUE]...: Arguments of the tool: key=value (read as the type that the tool wants), or key:=JSON. Or all of
            them as one JSON object: given here, in a file (@FILE), or on standard input (-).
        --background: Do not wait if the call becomes a task: print its id; go on with antiphon tasks.
        --roots PATH: A folder the server may work in; may be repeated.
    """
    folders = [_make_absolute(path) for path in roots or ()]
    teller = Teller(sys.stderr)
    opening = open_client(target, reach, answers, roots=folders, model_api=model_api, teller=teller)
    leave = partial(_leave_task, target, reach.config, tool, as_json=as_json) if background else None
    return await _call_tool(opening, teller, tool, arguments or [], as_json=as_json, output=output, leave=leave)


async def _call_tool(
    opening: AbstractAsyncContextManager[Client],
    teller: Teller,
    name: str,
    typed: list[str],
    *,
    as_json: bool,
    output: Path | None,
    leave: Callable[[str], int] | None,
) -> int:
    """Call the tool and print its result. ``leave``: called with the id of a task, instead of waiting for its end."""
    async with opening as client:
        tool = await _find_tool(client, name)
        with prefix_errors(name):
            arguments = read_arguments(typed, tool.input_schema)
            async with teller.waiting(name):
                handle = (
                    await client.start_task(name, arguments, progress=teller.progress) if leave is not None else None
                )
                if leave is not None and handle is not None and handle.id:
                    return leave(handle.id)
                if handle is not None:
                    # The server has answered at once.
                    result = await handle.result()
                else:
                    result = await client.call_tool(name, arguments, progress=teller.progress)
    if as_json:
        print_json(result)
    if output is not None and not result.is_error:
        for file in save_parts(parts_of(result.content), output):
            teller.say(f"{file} written", "green")
    elif not as_json:
        show_result(result)
    if result.is_error:
        required: object = tool.input_schema.get("required")
        needed = cast("list[object]", required) if isinstance(required, list) else []
        is_complete = all(each in arguments for each in needed)
        takes = "" if is_complete else f"; it takes {format_signature(tool)}"
        teller.say(f"{name}: the tool reports a failure{takes}", "red")
    return FAILED if result.is_error else 0


async def _find_tool(client: Client, name: str) -> Tool:
    names: list[str] = []
    async for tool in client.tools():
        if tool.name == name:
            return tool
        names.append(tool.name)
    raise ConfigError(f"the server has no tool {name!r}: {suggest_similar(name, names)}")


def _make_absolute(root: str) -> str:
    """Return the absolute path of a folder, so that the server gets its name and not a dot."""
    return root if "://" in root else str(Path(root).absolute())


def _leave_task(target: str, config: Path | None, tool: str, id: str, *, as_json: bool) -> int:
    """Remember a task that goes on, and print its id."""
    is_path = "://" not in target and Path(target).exists()
    remember_task(
        StartedTask(
            id=id,
            target=str(Path(target).absolute()) if is_path else target,
            tool=tool,
            started=time.time(),
            config=None if config is None else str(config.absolute()),
        )
    )
    if "://" not in target:
        ends = "a server that this command has started ends with it, and its task goes on only from a store"
        print(f"{tool}: {ends} (TaskOptions(store=...))", file=sys.stderr)
    if as_json:
        print_json({"taskId": id})
    else:
        print_text(id)
    return 0


def show_result(result: CallToolResult) -> None:
    """Print a result: its blocks, or its structured content if it has none."""
    if result.content or result.structured_content is None:
        print_text(format_blocks(result.content))
    else:
        print_text(msgspec.json.format(encode_value(result.structured_content), indent=2).decode())


class StartedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was started from here."""

    id: str
    target: str
    """The server, as it was named."""
    tool: str
    started: float
    """Seconds since the epoch."""
    config: str | None = None
    """The configuration file in which the server was named."""


def remember_task(task: StartedTask) -> None:
    """Remember a task."""
    path = _make_path(task.id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(task))
    for old in read_all()[MAX_STARTED:]:
        forget_task(old.id)


def read_all() -> list[StartedTask]:
    """Return all tasks, the one started last first. Files that cannot be read are left out."""
    found: list[StartedTask] = []
    for path in _find_folder().glob("*.json"):
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            found.append(msgspec.json.decode(read_file(path, _LARGEST), type=StartedTask))
    return sorted(found, key=lambda task: task.started, reverse=True)


def find_task(id: str) -> StartedTask:
    """Return a task by its id, or by the beginning of it."""
    tasks = read_all()
    fitting = [task for task in tasks if task.id == id] or [task for task in tasks if task.id.startswith(id)]
    if len(fitting) == 1 and len(id) >= _SHORTEST:
        return fitting[0]
    problem = "no task was started with" if not fitting else "several tasks begin with"
    raise ConfigError(f"{problem} the id {id!r}: antiphon tasks list shows those that were started from here")


def forget_task(id: str) -> None:
    """Forget a task."""
    with suppress(FileNotFoundError):
        _make_path(id).unlink()


def _find_folder() -> Path:
    return state_folder(os.environ) / "tasks"


def _make_path(id: str) -> Path:
    # The server has chosen the id, so it must not become the name of a file.
    return _find_folder() / f"{hashlib.blake2b(id.encode(), digest_size=16).hexdigest()}.json"
