"""How many tokens a text may be, whichever model reads it: estimated by script, rather too many than too few.

Owns the table and how characters are counted. A vendor's tokenizer is mostly not to be had, and a vocabulary of each
would be megabytes: the table is what those that can be had count (``benchmarks/tokens.py`` measures it). Pure.
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
    # A character of UTF-8 is counted by its first byte, which is one look at the text for each.
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
"""The characters that are counted together, each by its first byte in UTF-8."""


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
"""Tokens of a hundred characters: what 99.9 % of the windows of 200 characters do not exceed, over nine tokenizers.

Those are cl100k, o200k, Claude's of 2023, DeepSeek's, two of Qwen, Mistral's Tekken and two by SentencePiece, on
translations in a hundred languages; where there are too few, and for digits and signs, on random characters.
"""
_MARGIN = 110
"""Per cent: for tokenizers that cannot be had."""
MEASURED = 1024 * 1024
"""Bytes of one request that are looked at, a few milliseconds; of the rest each byte counts as a token."""
_ASCII = tuple(name for name, leads in GROUPS.items() if max(leads) < 0x80)
_NOT_LEADS = _range(0x00, 0xBF)


def counts_of(text: str) -> dict[str, int]:
    """Count the characters of each group that is there, in time that grows with the text alone."""
    data = text.encode("utf-8", "surrogatepass")
    # Most texts have nothing but ASCII, or few other characters: only those are looked at again and again.
    leads = b"" if text.isascii() else data.translate(None, _NOT_LEADS)
    found: dict[str, int] = {}
    for name, group in GROUPS.items():
        looked_at = data if name in _ASCII else leads
        count = len(looked_at) - len(looked_at.translate(None, group)) if looked_at else 0
        if count:
            found[name] = count
    return found


def estimate(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts together."""
    hundredths, rest, left = 0, 0, MEASURED
    for text in texts:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > left:
            rest += size
        else:
            left -= size
            hundredths += sum(_TABLE[name] * count for name, count in counts_of(text).items())
    return -(-hundredths * _MARGIN // 10_000) + rest
