"""``antiphon call`` and ``antiphon tasks``: call a tool, answer what it asks, and follow what goes on as a task."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, cast

import click
import msgspec
from msgspec import structs

from antiphon.cli.arguments import read_arguments
from antiphon.cli.commands.read import format_signature
from antiphon.cli.open_client import open_client
from antiphon.cli.options import AnswerOptions, ClickCommand, CommandGroup, Json, ModelApi, Reach, TargetText
from antiphon.cli.output.formats import FAILED, Failed, prefix_errors, print_json, print_list, print_text
from antiphon.cli.output.output_files import Output, format_blocks, parts_of, save_parts
from antiphon.cli.output.progress import Teller
from antiphon.client.client import Client
from antiphon.client.task import TaskHandle
from antiphon.errors import ConfigError, InvalidParams
from antiphon.host.store.store_location import state_folder
from antiphon.machine.files import read_file, replace_file
from antiphon.machine.other_frameworks import suggest_similar
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
    async with open_client(target, reach, answers, roots=folders, model_api=model_api, teller=teller) as client:
        known = await _find_tool(client, tool)
        with prefix_errors(tool):
            given = read_arguments(arguments or [], known.input_schema)
            async with teller.waiting(tool):
                if background:
                    handle = await client.start_task(tool, given, progress=teller.progress)
                    if handle.id:
                        return _leave_task(target, reach.config, tool, handle.id, as_json=as_json)
                    # The server has answered at once.
                    result = await handle.result()
                else:
                    result = await client.call_tool(tool, given, progress=teller.progress)
    _print_or_save(result, output, teller, as_json=as_json)
    if result.is_error:
        required: object = known.input_schema.get("required")
        needed = cast("list[object]", required) if isinstance(required, list) else []
        is_complete = all(each in given for each in needed)
        takes = "" if is_complete else f"; it takes {format_signature(known)}"
        if result.text.startswith(f"{tool} failed: ") and not reach.verbose and "://" not in target:
            takes += "; -v shows what its server writes about it"
        teller.say(f"{tool}: the tool reports a failure{takes}", "red")
    return FAILED if result.is_error else 0


def _make_absolute(root: str) -> str:
    """Return the absolute path of a folder, so that the server gets its name and not a dot."""
    return root if "://" in root else str(Path(root).absolute())


def _print_or_save(result: CallToolResult, output: Path | None, teller: Teller, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
    if output is not None and not result.is_error:
        try:
            for file in save_parts(parts_of(result.content), output):
                teller.say(f"{file} written", "green")
        except Failed:
            # The tool has done its work, so that its result must not be lost with the file.
            if not as_json:
                show_result(result)
            raise
    elif not as_json:
        show_result(result)


async def _find_tool(client: Client, name: str) -> Tool:
    names: list[str] = []
    async for tool in client.tools():
        if tool.name == name:
            return tool
        names.append(tool.name)
    raise ConfigError(f"the server has no tool {name!r}: {suggest_similar(name, names)}")


def _leave_task(target: str, config: Path | None, tool: str, id: str, *, as_json: bool) -> int:
    """Remember a task that goes on, and print its id."""
    is_path = "://" not in target and Path(target).exists()
    place = str(Path(target).absolute()) if is_path else target
    file = None if config is None else str(config.absolute())
    remember_task(StartedTask(id=id, target=place, tool=tool, started=time.time(), config=file))
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
        with suppress(OSError, msgspec.DecodeError):
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
    _make_path(id).unlink(missing_ok=True)


def _find_folder() -> Path:
    return state_folder(os.environ) / "tasks"


def _make_path(id: str) -> Path:
    # The server has chosen the id, so it must not become the name of a file.
    return _find_folder() / f"{hashlib.blake2b(id.encode(), digest_size=16).hexdigest()}.json"


commands = CommandGroup(help="List and follow tasks that call --background started. Without a command: list.")

TaskId = Annotated[str, "ID: The task's id, or the beginning of it."]


_ID = re.compile(r"-[\w-]{21,}")
"""An id that begins with a dash and cannot be guessed (128 bits in base 64). No option looks so."""


class TaskCommand(ClickCommand):
    """A command about one task. The id may begin with a dash, because the server has chosen it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move a word that begins a known id, or looks like one, behind ``--``: click would read it as options."""
        options = {name for each in self.get_params(ctx) for name in each.opts}
        dashed = [word for word in args if word.startswith("-") and word.partition("=")[0] not in options]
        if dashed and "--" not in args:
            known = [task.id for task in read_all()]
            ids = [word for word in dashed if _ID.fullmatch(word) or any(id.startswith(word) for id in known)]
            args = [word for word in args if word not in ids] + (["--", *ids] if ids else [])
        return super().parse_args(ctx, args)


@commands.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the tasks started from here, the newest first."""
    print_list(
        read_all(),
        {
            "id": lambda task: task.id,
            "tool": lambda task: task.tool,
            "server": lambda task: task.target,
            "started": lambda task: time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started)),
        },
        as_json=as_json,
        nothing="No task was started from here.",
    )


@commands.command("show", cls=TaskCommand)
async def show_(id: TaskId, *, as_json: Json = False, reach: Reach) -> None:
    """Say what has become of a task."""
    async with _open_task(id, reach, Teller(sys.stderr)) as handle:
        update = await handle.refresh()
    if as_json:
        print_json({"id": handle.id, "status": update.status, "message": update.message})
        return
    print_list([update], {"status": lambda one: one.status, "message": lambda one: one.message or ""},
               as_json=False, nothing="")  # fmt: skip


@commands.command(cls=TaskCommand)
async def follow(id: TaskId, *, as_json: Json = False, answers: AnswerOptions, reach: Reach) -> int:
    """Follow a task to its end and print its result.

    What it asks is answered as for antiphon call. The timeout is for each request, and not for the task. Exit code 1
    if the tool says that it failed.
    """
    teller = Teller(sys.stderr)
    async with _open_task(id, reach, teller, answers) as handle:
        async with teller.waiting(find_task(id).tool):
            result = await handle.shown(teller.progress)
        if as_json:
            print_json(result)
        else:
            show_result(result)
        forget_task(handle.id)
        return FAILED if result.is_error else 0


@commands.command(cls=TaskCommand)
async def cancel(id: TaskId, *, reach: Reach) -> None:
    """Ask the server to stop a task."""
    async with _open_task(id, reach, Teller(sys.stderr)) as handle:
        await handle.cancel()
        forget_task(handle.id)


@asynccontextmanager
async def _open_task(
    id: str, reach: Reach, teller: Teller, answers: AnswerOptions | None = None
) -> AsyncGenerator[TaskHandle]:
    """Connect to the server of a task, whose name is looked up in the same file as when the task was started."""
    task = find_task(id)
    config = reach.config or (None if task.config is None else Path(task.config))
    async with open_client(task.target, structs.replace(reach, config=config), answers, teller=teller) as client:
        try:
            yield client.task(task.id, tool=task.tool, started=task.started)
        except InvalidParams:
            # The server does not know the task any more, and never will again.
            forget_task(task.id)
            raise
