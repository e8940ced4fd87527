"""A text that is still arriving, and the part of it that may be shown: possible secrets are held back.

Decides where the text may be cut. ``secret_forms`` describes secrets, and ``redact`` masks them.
"""

from __future__ import annotations

import re

from antiphon.host.checks.redact import Finding, find_secrets

__all__ = ["MAX_SHOWN", "Unfinished"]

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
        cut = self._cut(window, found)
        self._show(_masked(window, begin, cut, found))
        if len(window) - cut > _LONGEST:
            # No secret is this long: it is data that nobody reads. But a secret may be in it.
            far = _beside(found, cut, len(window) - _KEPT)
            self._skip(_masked(window, cut, far, found))
            cut = far
        self._before, self._waiting = window[:cut][-_CONTEXT:], window[cut:]

    def _cut(self, window: str, found: list[Finding]) -> int:
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


def _beside(found: list[Finding], begin: int, at: int) -> int:
    """Return a position after ``begin`` and near ``at`` that is not inside a possible secret."""
    for _, start, stop in found:
        if start < at < stop:
            return start if start > begin else stop
    return at


def _masked(window: str, begin: int, cut: int, found: list[Finding]) -> str:
    """Return the text between two positions, with possible secrets masked."""
    parts: list[str] = []
    at = begin
    for kind, start, stop in found:
        if stop > at and start < cut:
            parts += [window[at : max(at, start)], f"[{kind}]"]
            at = stop
    return "".join(parts) + window[at:cut]
