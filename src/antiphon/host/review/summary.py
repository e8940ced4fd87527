"""What is said of a review in one line: who asks, for what, at which cost, for how long; and its first words.

Pure. Owns short names, sums of money and spans of time as people read them, the same on every surface. The words are in
the shared catalogues; making what a server wrote inert is the surface's business.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal
from urllib.parse import urlsplit

from antiphon.host.budget import DOLLAR
from antiphon.host.checks.visible import replace_hidden
from antiphon.host.review.question import Outcome
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.texts import Texts
from antiphon.wire.content import TextContent, ToolResultContent
from antiphon.wire.sampling import SamplingMessage

__all__ = ["clock", "first_words", "host_of", "money", "outcome_text", "server_name", "span"]

_NAME = 40
"""Characters of a server's short name."""
_WORDS = 120
"""Characters of a message that a list shows of it; the request itself is shown whole."""
_WINDOW = 2_000
"""Characters that are looked at together for something to read."""
_WINDOWS = 10
"""Windows that are looked into: who hides a text behind more than this gets no first words."""
_RUNNERS = frozenset(["python", "pypy", "node", "deno", "bun", "npx", "bunx", "uvx", "pipx", "uv", "env", "sh", "bash"])
"""Programs that run another one, which is what a server is known by."""
_NAMING = frozenset(["-m", "--module", "--package", "--from"])
"""Options of such programs whose value names what is run."""
_WITH_VALUE = frozenset(["--with", "--directory", "--python", "-X", "-W"])
"""Options of theirs whose value does not."""
_VERSION = re.compile(r"[\d.]*(?:\.exe)?$")
_BLANK = re.compile(r"\s+")


def server_name(target: str, kind: str) -> str:
    """Shorten what a user configured, a command line or a URL, to the name a server is known by."""
    if kind == "url":
        try:
            parts = urlsplit(target)
        except ValueError:
            return target[:_NAME]
        return f"{parts.netloc}{parts.path.rstrip('/')}"[:_NAME]
    try:
        words = shlex.split(target)
    except ValueError:
        words = target.split()
    return (_program(words) or target)[:_NAME]


def host_of(url: str) -> str:
    """Return the host of an address, with its port, as a browser would go there; nothing where there is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    return f"{parts.hostname or ''}{'' if port is None else f':{port}'}"


def money(nano: int, *, up: bool = True) -> str:
    """Write nano-dollars with the digits that matter: cents, or two digits of what is less than a cent.

    ``up`` rounds up, as fits what will be spent; else down, as fits what is left.
    """
    dollars = Decimal(abs(nano)) / DOLLAR
    digits = 2 if dollars >= Decimal("0.01") or not nano else 1 - dollars.adjusted()
    rounded = dollars.quantize(Decimal(1).scaleb(-digits), ROUND_CEILING if up == (nano >= 0) else ROUND_FLOOR)
    whole, _, rest = f"{rounded:f}".partition(".")
    return f"{'-' if nano < 0 else ''}${whole}.{rest.rstrip('0').ljust(2, '0')}"


def clock(seconds: float, words: Texts) -> str:
    """Write how long somebody still waits: ``9:59``, ``2h05``, or that it is over."""
    if seconds <= 0:
        return words("clock.over")
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def span(seconds: float, words: Texts) -> str:
    """Write a length of time in its largest unit: ``12 s``, ``4 min``, ``3 h``, ``2 d``."""
    whole = max(0, int(seconds))
    units: Sequence[tuple[Literal["s", "min", "h", "d"], int]] = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next((each for each in units if whole >= each[1]), ("s", 1))
    return words(f"span.{unit}", n=whole // size)


def first_words(item: ReviewItem | ElicitItem | ToolItem | None) -> str:
    """Return the beginning of what is new in a request, in one line: not what an earlier one has shown already.

    New is an answer, or what stands behind the model's last turn. Blanks and characters that cannot be seen are left
    out, so that neither pushes the text out of sight; the request itself shows them.
    """
    if item is None:
        return ""
    if isinstance(item, ToolItem):
        return _line(item.params.name)
    if isinstance(item, ElicitItem):
        return _line(item.params.message)
    for text in _new_texts(item):
        if said := _line(text):
            return said
    last = item.result or item.params.messages[-1]
    return type(last.blocks[0] if last.blocks else last).__name__.removesuffix("Content").lower()


def outcome_text(outcome: Outcome, words: Texts) -> str:
    """Say what became of a decision: nothing is claimed that is not known."""
    why = f"outcome.why.{outcome.why}"
    said = words(f"outcome.{outcome.became}")
    return f"{said} {words(why)}" if outcome.why and words.has(why) else said


def _new_texts(item: ReviewItem) -> Iterator[str]:
    if item.result is not None:
        yield item.result.text
        return
    messages = item.params.messages
    answered = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    new = messages[answered + 1 :] or messages[-1:]
    for message in new:
        yield from _texts(message)


def _texts(message: SamplingMessage) -> Iterator[str]:
    for block in message.blocks:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, ToolResultContent):
            yield from (each.text for each in block.content if isinstance(each, TextContent))


def _line(text: str) -> str:
    """Return what there is to read at the beginning of a text, as one line."""
    text = text.lstrip()
    for at in range(0, min(len(text), _WINDOW * _WINDOWS), _WINDOW):
        seen = _BLANK.sub(" ", replace_hidden(text[at : at + _WINDOW], _nothing)).strip()
        if seen:
            return seen[:_WORDS]
    return ""


def _nothing(char: str) -> str:
    return ""


def _program(words: Sequence[str]) -> str:
    skipped = False
    for at, word in enumerate(words):
        if word in _NAMING and at + 1 < len(words):
            return words[at + 1]
        if skipped or word.startswith("-") or "=" in word.partition("/")[0]:
            skipped = word in _WITH_VALUE
            continue
        name = word.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if _VERSION.sub("", name).lower() in _RUNNERS or (name in ("run", "tool", "exec") and at):
            continue
        # A package of npm has its scope before it; a path is known by its last part.
        return word if word.startswith("@") else name
    return words[-1].rpartition("/")[2] if words else ""
