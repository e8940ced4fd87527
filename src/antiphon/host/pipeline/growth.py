"""A model's answer while it is arriving, shown to the person who approved the request: throttled and masked.

Decides whether and how often updates are stored; they are deleted when the answer is complete. The pipeline does not
wait for any of this: a failure here has no effect on the request, and if nobody is watching the provider is asked
without streaming.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from antiphon.host.checks.redact import mask
from antiphon.host.checks.unfinished import Unfinished
from antiphon.host.pipeline.case import Case
from antiphon.host.providers.base import Growth, Streaming
from antiphon.host.review.partials import Partial
from antiphon.host.store.base import PartialRow, Store
from antiphon.wire.envelope import encode

__all__ = ["MAX_WAITING", "PACE", "Growing", "growing"]

PACE = 0.2
"""Seconds between two updates."""
MAX_WAITING = 64 * 1024
"""Most characters that may arrive within that time. An answer that is faster is shown only when it is complete."""
_LOOK = 0.25
"""Seconds to find out whether anybody is watching, so that a blocked store does not delay the request."""
_NAME, _TARGET = 128, 512

_log = logging.getLogger("antiphon.host")


@asynccontextmanager
async def growing(case: Case) -> AsyncGenerator[Growth | None]:
    """Provide the provider's ``Growth``; ``None`` if nobody is watching, or the provider cannot stream.

    Only answers to requests that a person approved are shown so.
    """
    # A person who asked something themselves has approved it by that.
    review = case.origin.id if case.is_own else case.reviews[-1] if case.reviews else None
    if review is None or not isinstance(case.desk.provider, Streaming) or not await _is_watched(case.desk.store):
        yield None
        return
    # Imported here, because most programs never show partial answers.
    from antiphon.host.review.who import who_of

    who = who_of(case.origin)
    blank = Partial(
        target=who.target[:_TARGET],
        name=who.name[:_NAME],
        call=mask(case.origin.call.name or who.call)[:_NAME] if case.origin.call else "",
        model=case.chosen.model or case.desk.provider.name,
    )
    grows = Growing(case.desk.store, review, blank)
    telling = asyncio.create_task(grows.tell(), name="antiphon-partial")
    case.desk.telling.add(telling)
    telling.add_done_callback(case.desk.telling.discard)
    try:
        yield grows
    finally:
        grows.end()


async def _is_watched(store: Store) -> bool:
    try:
        async with asyncio.timeout(_LOOK):
            return await store.watched()
    except Exception as error:
        _log.warning("an answer is shown only once it is whole: %s", type(error).__name__)
        return False


class Growing:
    """One answer while it is arriving. A ``Growth``: its methods are cheap, and ``tell`` does the work."""

    def __init__(self, store: Store, review: str, blank: Partial) -> None:
        self._store = store
        self._review = review
        self._blank = blank
        self._model = blank.model
        self._told: Partial | None = None
        """The last update of the store."""
        self._began = time.time()
        self._text = Unfinished()
        self._pieces: list[str] = []
        self._waiting = 0
        self._news = asyncio.Event()
        self._ended = asyncio.Event()

    def begin(self, model: str | None) -> None:
        """Start again: another attempt, or another model."""
        self._text, self._pieces, self._waiting = Unfinished(), [], 0
        self._model = model or self._model
        self._news.set()

    def add(self, text: str) -> None:
        """Add text that has arrived."""
        if self._waiting > MAX_WAITING:
            return
        self._pieces.append(text)
        self._waiting += len(text)
        self._news.set()

    def end(self) -> None:
        """Mark the answer as complete."""
        self._ended.set()
        self._news.set()

    async def tell(self) -> None:
        """Update the store until the end, then delete the partial answer there."""
        try:
            while not self._ended.is_set():
                await self._news.wait()
                self._news.clear()
                partial = self._partial()
                if not self._ended.is_set() and self._is_news(partial):
                    self._told = partial
                    await self._store.keep_partial(self._row(partial))
                await self._pause()
        except Exception as error:
            _log.warning("an answer is shown only once it is whole: %s", type(error).__name__)
        finally:
            if self._told is not None:
                await self._dropped()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PACE):
                await self._ended.wait()
        except TimeoutError:
            return

    def _partial(self) -> Partial:
        """Add the text that has arrived to what is shown."""
        if self._waiting > MAX_WAITING:
            return msgspec.structs.replace(self._blank, model=self._model, cut=True)
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        self._text.add("".join(pieces))
        return msgspec.structs.replace(self._blank, model=self._model, text=self._text.text, omitted=self._text.omitted)

    def _is_news(self, partial: Partial) -> bool:
        # That a model was asked is shown anyway, so there is no update before text has arrived.
        return partial != self._told and (self._told is not None or partial.cut or bool(partial.text))

    def _row(self, partial: Partial) -> PartialRow:
        return PartialRow(id=self._review, host=self._store.host, began=self._began, body=encode(partial).decode())

    async def _dropped(self) -> None:
        try:
            await self._store.drop_partial(self._review)
        except Exception as error:
            # It is deleted at the latest with this process.
            _log.warning("a partial answer could not be removed from the store: %s", type(error).__name__)
