"""A host whose questions wait in a store, for the tests of those who decide them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from antiphon.host import Host, MemoryStore, Queue, Scripted
from antiphon.host.review.question import Question
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, collect_shown
from antiphon.host.store.base import Store
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from tests.host.asks import CHOICES, origin, request

__all__ = ["FORM", "Asking", "asking", "sampling", "show_of"]

FORM = ElicitRequestParams.form(
    "Who?",
    {
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "age": {"type": "integer", "default": 7},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
            "likes": {"type": "array", "items": {"enum": ["tea", "milk"]}, "default": ["milk"]},
            "agrees": {"type": "boolean"},
        },
        "required": ["name"],
    },
)


def sampling(**more: Any) -> ReviewItem:
    """Make a request under review."""
    params = request()
    usual = {"params": params, "received": params, "origin": origin(), "choices": CHOICES, "provider": "echo"}
    return ReviewItem(**{**usual, **more})


def show_of(item: Any, kind: Any) -> Shown:
    """Show an item."""
    question = Question(
        id="1", kind=kind, group="g", identity="i", created=0, expires=None, state="pending", waited_for=True, item=item
    )
    shown = collect_shown(question)
    assert shown is not None
    return shown


class Asking:
    """A host, and servers that ask it."""

    def __init__(self, store: Store, **options: Any) -> None:
        self.store = store
        self.queue = Queue(store)
        options.setdefault("provider", Scripted(["one", "two", "three"]))
        self.host = Host(reviewer=self.queue, store=store, **options)
        self.tasks: list[asyncio.Task[Any]] = []

    async def ask(
        self, params: CreateMessageRequestParams | str = "Describe a sweater", who: Origin | None = None, **more: Any
    ) -> asyncio.Task[CreateMessageResult]:
        """Let a server ask for a completion; the question waits when this returns."""
        params = request(params, **more) if isinstance(params, str) else params
        return await self.waits(self.host(params, who or self.origin()))

    async def ask_person(self, params: ElicitRequestParams = FORM) -> asyncio.Task[ElicitResult]:
        """Let a server ask the person."""
        return await self.waits(self.host.elicit(params, self.origin()))

    async def waits(self, asked: Any) -> asyncio.Task[Any]:
        """Wait until a question is in the queue."""
        before = len(await self.queue.pending())
        task = asyncio.create_task(asked)
        self.tasks.append(task)
        async for _ in self.queue.changes():
            if len(await self.queue.pending()) > before:
                break
        return task

    async def put_all(self, texts: Sequence[str], system: str | None = None) -> None:
        """Put questions into the queue, past the limits of a host."""
        for number, text in enumerate(texts):
            params = request(text, system_prompt=system)
            item = ReviewItem(
                origin=origin(str(number)), params=params, received=params, provider="echo", choices=CHOICES
            )
            self.tasks.append(asyncio.create_task(self.queue.review(item)))
        async for _ in self.queue.changes():
            if len(await self.queue.pending()) == len(texts):
                break

    async def newest(self) -> Question:
        """Return the question that came last."""
        return (await self.queue.pending())[-1]

    def origin(self) -> Origin:
        """Say who asks: the same server for the same call."""
        return origin(str(len(self.tasks) + 1))


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[Asking]:
    """Open a host for a block."""
    made = Asking(MemoryStore(), **options)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
