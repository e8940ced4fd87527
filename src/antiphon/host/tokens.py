"""An estimate of the tokens in a text for any model, by script, too many rather than too few.

Vendors' tokenizers are mostly not available, and each vocabulary would take megabytes. The table holds the counts of
those that are available (``benchmarks/tokens.py`` measures them). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["GROUPS", "MEASURED", "counts_of", "estimate"]


def _range(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


GROUPS: Mapping[str, bytes] = {
    "letters": b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "space": b" ",
    "digits": b"0123456789",
    "signs": bytes(code for code in range(0x80) if not chr(code).isalnum() and code != 0x20),
    # A character of UTF-8 is identified by its first byte, so each group takes one pass over the text.
    "Latin": _range(0xC2, 0xCB),
    "marks": _range(0xCC, 0xCD),
    "Greek": _range(0xCE, 0xCF),
    "Cyrillic": _range(0xD0, 0xD3),
    "Armenian": _range(0xD4, 0xD5),
    "Hebrew": _range(0xD6, 0xD7),
    "Arabic": _range(0xD8, 0xDB),
    "Syriac": _range(0xDC, 0xDF),
    "Indic, Thai": b"\xe0",
    "Georgian, Burmese, Khmer": b"\xe1",
    "symbols": b"\xe2",
    "Kana": b"\xe3",
    "Han": _range(0xE4, 0xE9),
    "Hangul": _range(0xEA, 0xED),
    "wide forms": _range(0xEE, 0xEF),
    "emoji, rare scripts": _range(0xF0, 0xF4),
}
"""The groups of characters that are counted together, each by first bytes in UTF-8."""


_TABLE: Mapping[str, int] = {
    "letters": 44,
    "space": 44,
    "digits": 100,
    "signs": 82,
    "Latin": 177,
    "marks": 205,
    "Greek": 134,
    "Cyrillic": 101,
    "Armenian": 269,
    "Hebrew": 121,
    "Arabic": 160,
    "Syriac": 200,
    "Indic, Thai": 311,
    "Georgian, Burmese, Khmer": 311,
    "symbols": 298,
    "Kana": 124,
    "Han": 190,
    "Hangul": 183,
    "wide forms": 300,
    "emoji, rare scripts": 400,
}
"""Tokens per hundred characters: what 99.9 % of all windows of 200 characters do not exceed, over nine tokenizers:
cl100k, o200k, Claude's of 2023, DeepSeek's, two of Qwen, Mistral's Tekken and two by SentencePiece. Measured on
translations in a hundred languages; where these are too few, and for digits and signs, on random characters."""
_MARGIN = 110
"""Per cent, as a margin for tokenizers that are not available."""
MEASURED = 1024 * 1024
"""Bytes of one request that are counted, which takes a few milliseconds; each further byte counts as a token."""
_ASCII = tuple(name for name, leads in GROUPS.items() if max(leads) < 0x80)
_NOT_LEADS = _range(0x00, 0xBF)


def counts_of(text: str) -> dict[str, int]:
    """Count the characters of each group in the text, in linear time."""
    data = text.encode("utf-8", "surrogatepass")
    # Most texts are ASCII or have few other characters, and only those are counted by group.
    leads = b"" if text.isascii() else data.translate(None, _NOT_LEADS)
    found: dict[str, int] = {}
    for name, group in GROUPS.items():
        looked_at = data if name in _ASCII else leads
        count = len(looked_at) - len(looked_at.translate(None, group)) if looked_at else 0
        if count:
            found[name] = count
    return found


def estimate(texts: Iterable[str]) -> int:
    """Estimate the tokens of several texts together."""
    hundredths, rest, left = 0, 0, MEASURED
    for text in texts:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > left:
            rest += size
        else:
            left -= size
            hundredths += sum(_TABLE[name] * count for name, count in counts_of(text).items())
    return -(-hundredths * _MARGIN // 10_000) + rest
