"""``antiphon tasks``: the tasks that were started in the background, what has become of them, and their end."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.commands.call import show
from antiphon.cli.failures import FAILED
from antiphon.cli.groups import ListGroup, group
from antiphon.cli.open_client import opened, run
from antiphon.cli.options import Deny, Headers, Json, ModelName, Provider, Reach, Review, Timeout, Verbose, Yes
from antiphon.cli.output.formats import print_json, print_list
from antiphon.cli.output.progress import Teller
from antiphon.cli.started_tasks import find, forget, read_all
from antiphon.cli.store import StorePlace
from antiphon.client.task import TaskHandle
from antiphon.errors import InvalidParams

__all__ = ["commands"]

commands = group(ListGroup, "List and follow tasks that call --background started. Without a command: list.")

TaskId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The task's id, or the beginning of it.", show_default=False),
]


@commands.command("list")
def list_(*, as_json: Json = False) -> int:
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
    return 0


@commands.command("show")
def show_(
    id: TaskId, *, as_json: Json = False, header: Headers = None, timeout: Timeout = 60.0, verbose: Verbose = False
) -> int:
    """Say what has become of a task."""

    async def look(handle: TaskHandle, _teller: Teller) -> int:
        update = await handle.refresh()
        if as_json:
            print_json({"id": handle.id, "status": update.status, "message": update.message})
        else:
            print_list([update], {"status": lambda one: one.status, "message": lambda one: one.message or ""},
                       as_json=False, nothing="")  # fmt: skip
        return 0

    return run(_on(id, look, header=header, timeout=timeout, verbose=verbose))


@commands.command()
def follow(
    id: TaskId,
    *,
    as_json: Json = False,
    yes: Yes = False,
    deny: Deny = False,
    provider: Provider = None,
    model: ModelName = None,
    header: Headers = None,
    store: StorePlace = None,
    review: Review = None,
    timeout: Timeout = 60.0,
    verbose: Verbose = False,
) -> int:
    """Follow a task to its end and print its result.

    What it asks is answered as for antiphon call. The timeout is for each request, and not for the task. Exit code 1
    if the tool says that it failed.
    """

    async def see(handle: TaskHandle, teller: Teller) -> int:
        async with teller.waiting(find(id).tool):
            result = await handle.shown(teller.progress)
        if as_json:
            print_json(result)
        else:
            show(result)
        forget(handle.id)
        return FAILED if result.is_error else 0

    return run(
        _on(
            id, see, header=header, timeout=timeout, verbose=verbose, yes=yes, deny=deny, provider=provider,
            model=model, store=store, review=review,
        )
    )  # fmt: skip


@commands.command()
def cancel(id: TaskId, *, header: Headers = None, timeout: Timeout = 60.0, verbose: Verbose = False) -> int:
    """Ask the server to stop a task."""

    async def stop(handle: TaskHandle, _teller: Teller) -> int:
        await handle.cancel()
        forget(handle.id)
        return 0

    return run(_on(id, stop, header=header, timeout=timeout, verbose=verbose))


async def _on(
    id: str,
    work: Callable[[TaskHandle, Teller], Awaitable[int]],
    *,
    header: list[str] | None,
    timeout: float,
    verbose: bool,
    yes: bool = False,
    deny: bool = False,
    provider: str | None = None,
    model: str | None = None,
    store: str | None = None,
    review: Review = None,
) -> int:
    """Do something with a task, at its server."""
    task = find(id)
    reach = Reach(
        target=task.target,
        config=None if task.config is None else Path(task.config),
        header=header,
        timeout=timeout,
        verbose=verbose,
        yes=yes,
        deny=deny,
        provider=provider,
        model=model,
        store=store,
        review=review,
        log_level="info",
    )
    teller = Teller(sys.stderr)
    async with opened(reach, teller) as client:
        try:
            return await work(client.task(task.id, tool=task.tool), teller)
        except InvalidParams:
            # Nobody will ever hear of it again.
            forget(task.id)
            raise
