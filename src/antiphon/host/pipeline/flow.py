"""A model's answer while it is arriving, on its way to the program that asked: masked, and never taken back.

Decides whether an answer may flow at all: only one that nobody reviews, and in which secrets are masked or allowed.
``checks.unfinished`` decides where a text may be cut.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.host.checks.unfinished import Unfinished
from antiphon.host.pipeline.case import Case
from antiphon.host.providers.base import Growth, Streaming
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Flow", "flowing"]

_CHARACTERS_PER_TOKEN = 32
"""More than any real text has on average: bounds what flows from a service that ignores ``max_tokens``."""


def flowing(case: Case, params: CreateMessageRequestParams, shown: Growth | None, *, alone: bool) -> Growth | None:
    """Return what receives the answer while it comes: the program that asked, if it may, and those who look.

    Args:
        case: the ask.
        params: the request as it is sent.
        shown: shows the answer to those who look; ``None`` if nobody does.
        alone: whether no second model answers as well.
    """
    desk, sink = case.desk, case.flow
    may = alone and desk.review_response == "never" and desk.redaction.response != "block"
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
