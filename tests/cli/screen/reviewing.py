"""What the tests of the screen are made of: a host whose questions wait, the screen over the same store, a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual import events
from textual.pilot import Pilot

from antiphon.cli.screen.key_bindings import ARMED
from antiphon.cli.screen.program import ReviewApp
from antiphon.cli.screen.sheet import Sheet, now
from antiphon.cli.screen.stage import ReviewStage, Setting
from antiphon.cli.screen.views import RowsView
from antiphon.host import Host, MemoryStore, Queue, Scripted
from antiphon.host.review.question import Question
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, show
from antiphon.host.store.base import Store
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from tests.host.asks import CHOICES, origin, request

__all__ = ["FORM", "RESULT", "Asking", "Reviewing", "asking", "lines", "reviewing", "sampling", "show_of"]

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


RESULT = CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")


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
    shown = show(question)
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


class Reviewing:
    """The screen, and the person before it."""

    def __init__(self, app: ReviewApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.decisions: list[Any] = []
        """What was decided here, in this order."""
        decide = self.stage.queue.decide_all

        async def decide_all(decisions: dict[str, Any], hashes: dict[str, str], *, by: str | None = None) -> None:
            await decide(decisions, hashes, by=by)
            self.decisions += decisions.values()

        self.stage.queue.decide_all = decide_all

    @property
    def stage(self) -> ReviewStage:
        """What is below all forms."""
        return self.app.stage

    @property
    def text(self) -> str:
        """All that is on the terminal now."""
        return "\n".join(lines(self.app))

    @property
    def page(self) -> str:
        """The whole question that is shown, as far as it goes."""
        document = self.stage.query_one("#request", RowsView).document
        return "\n".join(row.lead + row.text for row in map(document.row, range(len(document))))

    async def until(self, is_so: Callable[[], object], pause: float = 0.01) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(30):
            while not is_so():
                await moment(pause)

    async def quickly(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, and look as often as one can."""
        await self.until(is_so, 0)

    async def sees(self, text: str) -> None:
        """Wait until this is on the terminal."""
        try:
            # To read a terminal takes as long as to draw it.
            await self.until(lambda: text in self.text, 0.03)
        except TimeoutError:
            raise AssertionError(f"{text!r} is not on the terminal:\n{self.text}") from None

    def type(self, key: str) -> None:
        """Press a key without waiting for anything."""
        self.app.post_message(events.Key(key, key if len(key) == 1 else None))

    async def ready(self, key: str = "") -> None:
        """Wait until what is shown can be decided; not for what lets it pass, unless that is the key."""
        over = self.app.screen
        if isinstance(over, Sheet):
            await self.until(lambda: over._arming.armed(now()))
        if self.stage.question is None or over is not self.stage:
            return
        counts = self.stage.arming.armed if key in ARMED else self.stage.arming.seen
        await self.until(lambda: self.stage.question is None or self.stage.question.state != "pending" or counts(now()))

    async def escape(self) -> None:
        """Leave a dialog, and wait until keys count again for the question behind it."""
        stage = self.stage
        before = stage.arming._since
        self.type("escape")
        await self.until(
            lambda: self.app.screen is stage and not stage._busy and stage.arming._since not in (None, before)
        )

    async def press(self, *keys: str, sees: str) -> None:
        """Press keys, once they count, and wait for what they bring."""
        await self.ready(keys[0])
        if len(keys) == 1:
            self.type(keys[0])
        else:
            await self.pilot.press(*keys)
        await self.sees(sees)


async def moment(seconds: float) -> None:
    """Let everything else go on."""
    await asyncio.sleep(seconds)


def lines(app: ReviewApp) -> list[str]:
    """Read the terminal."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[Asking]:
    """Open a host for a block."""
    made = Asking(MemoryStore(), **options)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


@asynccontextmanager
async def reviewing(store: Store, *, size: tuple[int, int] = (110, 40), **setting: Any) -> AsyncIterator[Reviewing]:
    """Open the screen for a block; what lets something pass is not dead at first, unless that is asked for."""
    app = ReviewApp(Setting(**{"store": store, "by": "ada", "dead": 0.0, "undo": 0.0, **setting}))
    async with app.run_test(size=size) as pilot:
        made = Reviewing(app, pilot)
        await made.until(lambda: app.stage.looked and (app.stage.question is not None or not app.stage.pending))
        yield made
