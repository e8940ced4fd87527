"""What a browser has decided last, and what became of it: a named list, so that no outcome is taken for another's.

Owns the list of each session, which lasts as long as this process. The store says what became of a decision.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence

import msgspec

from antiphon.host.review.question import Question
from antiphon.host.review.queue import Queue
from antiphon.host.review.summary import Texts, first_words, outcome_text, who_of

_LAST = 5
"""Entries that are kept for each browser: more than a person takes back."""


class OutcomeRequest(msgspec.Struct, kw_only=True):
    """One request that was decided."""

    question: Question
    about: str
    """Its first words, as the server wrote them."""


class OutcomeEntry(msgspec.Struct, kw_only=True):
    """One decision, about one request or about several at once."""

    requests: tuple[OutcomeRequest, ...]
    done: str
    """Key of the text that says what was decided."""
    server: str = ""

    def seconds(self, now: float) -> float:
        """Return for how long the decision can still be taken back; 0 if it cannot."""
        held = (each.question.release for each in self.requests if each.question.state == "held")
        return max((at - now for at in held if at is not None), default=0.0)

    @property
    def is_open(self) -> bool:
        """Whether the outcome of any of its requests is not known yet."""
        return any(each.question.outcome is None for each in self.requests)

    def results(self, words: Texts) -> list[str]:
        """Say what became of it: one text for each kind of outcome, with its number if there are several requests."""
        known = (each.question.outcome for each in self.requests)
        counted = Counter(outcome_text(outcome, words) for outcome in known if outcome is not None)
        return [text if len(self.requests) == 1 else f"{count}: {text}" for text, count in counted.items()]


class OutcomeLists:
    """The lists of all browsers of one page."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lists: dict[int, deque[OutcomeEntry]] = defaultdict(lambda: deque(maxlen=_LAST))

    async def add(self, session: int, before: Sequence[Question], done: str) -> OutcomeEntry:
        """Note a decision. ``before``: the questions, as they were when they were decided."""
        requests = [
            OutcomeRequest(question=await self._queue.get(each.id), about=first_words(each.item)) for each in before
        ]
        server = who_of(before[0].item.origin).name if before[0].item is not None else ""
        entry = OutcomeEntry(requests=tuple(requests), done=done, server=server)
        self._lists[session].appendleft(entry)
        return entry

    async def read(self, session: int) -> None:
        """Read from the store what became of the decisions of a browser. What was taken back leaves the list."""
        entries = self._lists[session]
        for entry in [each for each in entries if each.is_open]:
            for request in entry.requests:
                if request.question.outcome is None:
                    request.question = await self._queue.get(request.question.id)
            entry.requests = tuple(each for each in entry.requests if each.question.state != "pending")
            if not entry.requests and entry in entries:
                entries.remove(entry)

    def of(self, session: int) -> list[OutcomeEntry]:
        """Return the entries of a browser, newest first."""
        return list(self._lists[session])
