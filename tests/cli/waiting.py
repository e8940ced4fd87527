"""A host whose questions wait in a store, for the commands that decide them from elsewhere."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon.cli.commands.review.queue_list import format_listed_id
from antiphon.host import Host, Queue, Scripted
from antiphon.host.review.question import Question
from antiphon.host.store import Store, open_store
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams
from tests.cli.program import Done, in_process
from tests.host.asks import origin, request

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

__all__ = ["FORM", "Waiting", "editor", "waiting"]

FORM = ElicitRequestParams.form(
    "Who?", {"properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}}, "required": ["name"]}
)


class Waiting:
    """A host in this process, and commands that find its store."""

    def __init__(self, store: Store, place: Path, cli: Cli, **options: Any) -> None:
        self.store = store
        self.place = str(place)
        self.queue = Queue(store)
        options.setdefault("provider", Scripted(["one", "two", "three"]))
        self.host = Host(reviewer=self.queue, store=store, **options)
        self._cli = cli
        self._asked = 0
        self._tasks: list[asyncio.Task[Any]] = []

    async def ask(self, params: CreateMessageRequestParams | None = None, **more: Any) -> asyncio.Task[Any]:
        """Have a server ask; the question is there when this returns."""
        return await self.kept(self.host(params or request(), self._origin(**more)))

    async def ask_person(self, params: ElicitRequestParams = FORM, **more: Any) -> asyncio.Task[Any]:
        """Have a server ask the person; the question is there when this returns."""
        return await self.kept(self.host.elicit(params, self._origin(**more)))

    async def pending(self) -> Question:
        """Return the newest question that waits."""
        return (await self.queue.pending())[-1]

    async def named(self) -> str:
        """Name the newest question that waits together with what it shows, as a script does."""
        return format_listed_id(await self.pending())

    async def run(self, *words: str) -> Done:
        """Run a command in this process, beside the host."""
        return await asyncio.to_thread(self._cli, *words, "--store", self.place)

    async def elsewhere(self, *words: str, **env: str) -> Done:
        """Run a command in a process of its own."""
        return await asyncio.to_thread(in_process, *words, "--store", self.place, env=env)

    async def leave(self) -> None:
        """Withdraw what still waits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _origin(self, **more: Any):
        self._asked += 1
        return origin(str(self._asked), **more)

    async def kept(self, answer: Any) -> asyncio.Task[Any]:
        before = len(await self.queue.pending())
        task = asyncio.create_task(answer)
        self._tasks.append(task)
        async for _ in self.queue.changes():
            if len(await self.queue.pending()) > before or task.done():
                return task
        raise AssertionError


@asynccontextmanager
async def waiting(place: Path, cli: Cli, **options: Any) -> AsyncIterator[Waiting]:
    """Open a host on a SQLite file."""
    store = open_store(place)
    opened = Waiting(store, place, cli, **options)
    try:
        yield opened
    finally:
        await opened.leave()
        await store.aclose()


def editor(folder: Path, *programs: str) -> str:
    """Make an editor out of programs that change ``text``: the first at its first start, the last from then on."""
    path = folder / "editor.py"
    path.write_text(
        f"""
import pathlib, sys
count = pathlib.Path({str(folder / "edits")!r})
done = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (done + 1))
file = pathlib.Path(sys.argv[1])
text = file.read_text()
(pathlib.Path({str(folder)!r}) / f"seen{{done}}").write_text(text)
programs = {list(programs)!r}
scope = {{"text": text}}
exec(programs[min(done, len(programs) - 1)], scope)
file.write_text(scope["text"])
""",
        encoding="utf-8",
    )
    return shlex.join([sys.executable, str(path)])
