"""A text that is still coming, and as much of it as may be shown: what could yet turn out to be a secret waits.

Owns where such a text may be cut. What a secret looks like is ``secret_forms``'s, and ``redact``'s how it is masked.
"""

from __future__ import annotations

import re

from antiphon.host.checks.redact import Finding, find_secrets

__all__ = ["MAX_SHOWN", "Unfinished"]

MAX_SHOWN = 8_000
"""Characters of a partial answer that are shown: its end, several screens of it."""
_SHORT = 16
"""Characters that always wait: a password is told from other words by its first six characters."""
_CONTEXT = 128
"""Characters before the cut that are looked at again: the name of a password stands before it, and is no secret."""
_LONGEST = 32 * 1024
"""Characters that wait at most: of all that is known as a secret, nothing is longer."""
# A key in several lines is masked only once its end has come: all of it waits for that.
_OPEN_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LENGTH = 21_000
# A secret has no blanks in it, and no letters of scripts that are written without blanks.
_BETWEEN = re.compile(r".*[\s\u2e80-\U0010ffff]", re.DOTALL)


class Unfinished:
    """A text that grows at its end, shown word by word."""

    def __init__(self) -> None:
        self._before: str = ""
        """What was shown last, as it came."""
        self._waiting: str = ""
        self.text: str = ""
        """What may be shown: the last ``MAX_SHOWN`` characters of it, masked."""
        self.omitted = 0
        """Characters that were shown once, and stand before ``text``."""

    def add(self, text: str) -> None:
        """Take what has come, and show what can no longer become a secret. Bounded work for each character."""
        self._waiting += text
        window, begin = self._before + self._waiting, len(self._before)
        found = find_secrets(window)
        cut = self._cut(window, found)
        self._show(_masked(window, begin, cut, found))
        self._before, self._waiting = window[:cut][-_CONTEXT:], window[cut:]
        if len(self._waiting) > _LONGEST:
            # No secret is so long: data, which nobody reads.
            self._show("\u2026")
            self._waiting = self._waiting[-_CONTEXT:]

    def _cut(self, window: str, found: list[Finding]) -> int:
        """Return where to cut: before the last word, and never inside what is, or may become, a secret."""
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

    def _show(self, text: str) -> None:
        shown = self.text + text
        self.omitted += max(0, len(shown) - MAX_SHOWN)
        self.text = shown[-MAX_SHOWN:]


def _masked(window: str, begin: int, cut: int, found: list[Finding]) -> str:
    """Return what stands between two places, with what looks like a secret there masked."""
    parts: list[str] = []
    at = begin
    for kind, start, stop in found:
        if stop > at and start < cut:
            parts += [window[at : max(at, start)], f"[{kind}]"]
            at = stop
    return "".join(parts) + window[at:cut]
