"""``antiphon tasks``: the tasks that were started in the background, what has become of them, and their end."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import click
from msgspec import structs

from antiphon.cli.commands.call import find_task, forget_task, read_all, show_result
from antiphon.cli.open_client import open_client
from antiphon.cli.options import AnswerOptions, Json, Reach
from antiphon.cli.output.formats import FAILED, print_json, print_list
from antiphon.cli.output.progress import Teller
from antiphon.cli.signatures import ClickCommand, CommandGroup
from antiphon.client.task import TaskHandle
from antiphon.errors import InvalidParams

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
