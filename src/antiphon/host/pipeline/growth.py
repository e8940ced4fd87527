"""A model's answer while it is arriving, shown to the person who approved the request: throttled and masked.

Decides whether and how often updates are stored; they are deleted when the answer is complete. The pipeline does not
wait for any of this: a failure here has no effect on the request, and if nobody is watching the provider is asked
without streaming. Owns what of an unfinished text may be shown: nothing that may turn out to be a secret.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from antiphon.host.checks.redact import SecretFinding, find_secrets, mask_text, replace_findings
from antiphon.host.pipeline.case import Case
from antiphon.host.providers.base import Growth, Streaming
from antiphon.host.store.base import PartialRow, Store
from antiphon.machine.asyncio_tasks import at_once_or_within, wait_at_most
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams

PACE = 0.2
"""Seconds between two updates."""
MAX_WAITING = 64 * 1024
"""Most characters that may arrive within that time. An answer that is faster is shown only when it is complete."""
_LOOK = 0.25
"""Seconds to find out whether anybody is watching, so that a blocked store does not delay the request."""
_NAME, _TARGET = 128, 512

_log = logging.getLogger("antiphon.host")


@asynccontextmanager
async def watch_growth(case: Case) -> AsyncGenerator[Growth | None]:
    """Provide the provider's ``Growth``; ``None`` if nobody is watching, or the provider cannot stream.

    Only answers to requests that a person approved are shown so.
    """
    # A person who asked something themselves has approved it by that.
    review = case.origin.id if case.is_own else case.reviews[-1] if case.reviews else None
    if review is None or not isinstance(case.desk.provider, Streaming) or not await _is_watched(case.desk.store):
        yield None
        return
    # Imported here, because most programs never show partial answers.
    from antiphon.host.review.summary import who_of

    who = who_of(case.origin)
    blank = Partial(
        target=who.target[:_TARGET],
        name=who.name[:_NAME],
        call=mask_text(case.origin.call.name or who.call)[:_NAME] if case.origin.call else "",
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
        return await at_once_or_within(_LOOK, store.watched())
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
                # That a model was asked is shown anyway, so there is no update before text has arrived.
                is_news = partial != self._told and bool(self._told is not None or partial.cut or partial.text)
                if not self._ended.is_set() and is_news:
                    self._told = partial
                    body = encode_value(partial).decode()
                    row = PartialRow(id=self._review, host=self._store.host, began=self._began, body=body)
                    await self._store.keep_partial(row)
                await wait_at_most(PACE, self._ended.wait())
        except Exception as error:
            _log.warning("an answer is shown only once it is whole: %s", type(error).__name__)
        finally:
            if self._told is not None:
                await self._drop_partial()

    def _partial(self) -> Partial:
        """Add the text that has arrived to what is shown."""
        if self._waiting > MAX_WAITING:
            return msgspec.structs.replace(self._blank, model=self._model, cut=True)
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        self._text.add("".join(pieces))
        return msgspec.structs.replace(self._blank, model=self._model, text=self._text.text, omitted=self._text.omitted)

    async def _drop_partial(self) -> None:
        try:
            await self._store.drop_partial(self._review)
        except Exception as error:
            # It is deleted at the latest with this process.
            _log.warning("a partial answer could not be removed from the store: %s", type(error).__name__)


_CHARACTERS_PER_TOKEN = 32
"""More than any real text has on average: bounds what flows from a service that ignores ``max_tokens``."""


def choose_growth(case: Case, params: CreateMessageRequestParams, shown: Growth | None) -> Growth | None:
    """Return what receives the answer while it comes: the program that asked, if it may, and those who look."""
    desk, sink = case.desk, case.flow
    may = desk.review_response == "never" and desk.redaction.response != "block"
    if sink is None or not may or not isinstance(desk.provider, Streaming):
        return shown
    return Flow(sink, params.max_tokens * _CHARACTERS_PER_TOKEN, shown, masks=desk.redaction.response != "allow")


class Flow:
    """One answer on its way. A ``Growth``.

    What was handed on cannot be taken back: after it, a second attempt does not flow.
    """

    def __init__(
        self, sink: Callable[[str], object], most: int, shown: Growth | None = None, *, masks: bool = True
    ) -> None:
        self._sink = sink
        self._left = most
        self._shown = shown
        self._masks = masks
        self._text = _Passing(self._pass)
        self._has_flowed = self._is_over = False

    def begin(self, model: str | None) -> None:
        """Begin an attempt; see ``Growth``."""
        self._is_over = self._is_over or self._has_flowed
        self._text = _Passing(self._pass)
        if self._shown is not None:
            self._shown.begin(model)

    def add(self, text: str) -> None:
        """Add text; see ``Growth``."""
        if self._shown is not None:
            self._shown.add(text)
        if self._is_over:
            return
        if self._masks:
            self._text.add(text)
        else:
            self._pass(text)

    def _pass(self, text: str) -> None:
        if len(text) > self._left:
            self._is_over = True
        if text and not self._is_over:
            self._left -= len(text)
            self._has_flowed = True
            self._sink(text)


MAX_SHOWN = 8_000
"""Characters of a partial answer that are shown: the last ones, several screens."""
_SHORT = 16
"""Characters that are always held back: a password is recognized by its first six characters."""
_CONTEXT = 128
"""Characters before the cut that are examined again, since the name of a password may stand before it."""
_LONGEST = 32 * 1024
"""Characters that are held back at most; no known kind of secret is longer."""
_KEPT = 4_096
"""The last characters that stay held back when that many have come: a token without blanks may begin there."""
_SOON = 1_024
"""Up to this many held-back characters are examined again with each piece; more of them only after each growth by an
eighth."""
# A key of several lines can be masked only when its end has arrived: until then all of it is held back.
_OPEN_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LENGTH = 21_000
# A secret contains no blanks, and no letters of scripts that are written without blanks.
_BETWEEN = re.compile(r".*[\s\u2e80-\U0010ffff]", re.DOTALL)


class Unfinished:
    """A text that grows at its end, shown word by word."""

    def __init__(self) -> None:
        self._before: str = ""
        """What was shown last, unmasked."""
        self._waiting: str = ""
        self._unread = 0
        """Characters at the end of what waits that were not examined yet."""
        self.text: str = ""
        """What may be shown: the last ``MAX_SHOWN`` characters, masked."""
        self.omitted = 0
        """Number of characters before ``text`` that are no longer shown."""

    def add(self, text: str) -> None:
        """Add text, and show what can no longer become a secret.

        The work per character is bounded, however small the pieces are.
        """
        self._waiting += text
        self._unread += len(text)
        if self._unread < (len(self._waiting) - _SOON) // 8:
            return
        self._unread = 0
        window, begin = self._before + self._waiting, len(self._before)
        found = find_secrets(window)
        cut = self._find_cut(window, found)
        self._show(replace_findings(window, found, begin, cut))
        if len(window) - cut > _LONGEST:
            # No secret is this long: it is data that nobody reads. But a secret may be in it.
            far = _find_safe_position(found, cut, len(window) - _KEPT)
            self._skip(replace_findings(window, found, cut, far))
            cut = far
        self._before, self._waiting = window[:cut][-_CONTEXT:], window[cut:]

    def _find_cut(self, window: str, found: list[SecretFinding]) -> int:
        """Return where to cut: before the last word, and never inside a possible secret."""
        begin = len(self._before)
        end = max(begin, len(window) - _SHORT)
        between = _BETWEEN.match(window, begin, end)
        cut = begin if between is None else between.end()
        for opened in _OPEN_KEY.finditer(window):
            after = len(window) - opened.start()
            if after < _KEY_LENGTH and "-----END" not in window[opened.end() :]:
                cut = min(cut, opened.start())
        for _, start, stop in found:
            if start < cut < stop:
                cut = start
        return max(begin, cut)

    def _skip(self, text: str) -> None:
        """Pass over text that is longer than any secret. ``text``: with what looks like a secret in it masked."""
        self._show("\u2026")

    def _show(self, text: str) -> None:
        shown = self.text + text
        self.omitted += max(0, len(shown) - MAX_SHOWN)
        self.text = shown[-MAX_SHOWN:]


def _find_safe_position(found: list[SecretFinding], begin: int, at: int) -> int:
    """Return a position after ``begin`` and near ``at`` that is not inside a possible secret."""
    for _, start, stop in found:
        if start < at < stop:
            return start if start > begin else stop
    return at


class _Passing(Unfinished):
    """Hands on what may be shown, instead of keeping it."""

    def __init__(self, sink: Callable[[str], object]) -> None:
        super().__init__()
        self._sink = sink

    def _show(self, text: str) -> None:
        self._sink(text)

    def _skip(self, text: str) -> None:
        # Longer than any secret, so it may pass; the secrets in it are masked.
        self._sink(text)


LOOK = 0.25
"""Seconds between two reads of unfinished answers."""
_FOR = 40.0
"""Seconds for which a viewer counts as watching without a further sign; a page gives one four times as often."""
_AGAIN = 10.0


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as far as it has arrived."""

    review: str = ""
    """The review of its request."""
    began: float = 0.0
    target: str
    """The server it is for, with secrets masked."""
    name: str
    """The server's short name."""
    call: str = ""
    """The call it belongs to; empty in the background."""
    model: str
    """The model that answers."""
    text: str = ""
    """The end of what has arrived, with secrets masked."""
    omitted: int = 0
    """Number of characters before ``text``."""
    cut: bool = False
    """Whether it arrived too fast to be shown; the rest is shown when it is complete."""


async def partials_in(store: Store) -> list[Partial]:
    """Return the unfinished answers, in the order they began."""
    found = [(row, msgspec.json.decode(row.body, type=Partial)) for row in await store.partials()]
    return [msgspec.structs.replace(partial, review=row.id, began=row.began) for row, partial in found]


class Watching(msgspec.Struct, eq=False):
    """Records in a store that somebody is watching, no more often than necessary."""

    _store: Store
    _clock: Callable[[], float] = time.time
    _said: float = -_AGAIN

    async def look(self) -> None:
        """Record that somebody is watching now."""
        now = self._clock()
        if not 0 <= now - self._said < _AGAIN:
            self._said = now
            await self._store.watch(now + _FOR)
