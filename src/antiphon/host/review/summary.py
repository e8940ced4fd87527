"""A review in one line (who asks, for what, at which cost, how long), and its first words.

Pure. Owns short names and durations as people read them, the same on every surface. The texts are in
the shared catalogues; the surface makes a server's texts inert.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import urlsplit

from antiphon.host.budget import rounded_dollars
from antiphon.host.checks.visible import replace_hidden
from antiphon.host.review.question import Outcome
from antiphon.host.review.review import ElicitItem, Figures, ReviewItem, ToolItem
from antiphon.host.review.texts import Texts
from antiphon.wire.content import TextContent, ToolResultContent
from antiphon.wire.sampling import SamplingMessage

__all__ = ["clock", "figures_text", "first_words", "host_of", "outcome_text", "server_name", "span"]

_NAME = 40
"""Most characters of a server's short name."""
_WORDS = 120
"""Most characters of a message in a list; the request itself is shown completely."""
_WINDOW = 2_000
"""Number of characters searched at once for readable text."""
_WINDOWS = 10
"""Most such windows; a text hidden behind more blank space than this has no first words."""
_RUNNERS = frozenset(["python", "pypy", "node", "deno", "bun", "npx", "bunx", "uvx", "pipx", "uv", "env", "sh", "bash"])
"""Programs that run another one, by which the server is named."""
_NAMING = frozenset(["-m", "--module", "--package", "--from"])
"""Options of such programs whose value names what is run."""
_WITH_VALUE = frozenset(["--with", "--directory", "--python", "-X", "-W"])
"""Options of such programs with any other value."""
_VERSION = re.compile(r"[\d.]*(?:\.exe)?$")
_BLANK = re.compile(r"\s+")


def server_name(target: str, kind: str) -> str:
    """Shorten a configured command line or URL to a name for the server."""
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
    """Return the host of an address with its port, as a browser would interpret it; empty if there is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    return f"{parts.hostname or ''}{'' if port is None else f':{port}'}"


def figures_text(figures: Figures | None, words: Texts) -> str:
    """Say in one line who answered, for how much, and how long it took. Not inert."""
    if figures is None:
        return ""
    cost = words("rival.unpriced") if figures.money is None else rounded_dollars(figures.money)
    return " · ".join([figures.model, cost, words("rival.seconds", n=f"{figures.seconds:.1f}")])


def clock(seconds: float, words: Texts) -> str:
    """Format the time that is left: ``9:59``, ``2h05``, or a text that it is over."""
    if seconds <= 0:
        return words("clock.over")
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def span(seconds: float, words: Texts) -> str:
    """Format a duration in its largest unit: ``12 s``, ``4 min``, ``3 h``, ``2 d``."""
    whole = max(0, int(seconds))
    units: Sequence[tuple[Literal["s", "min", "h", "d"], int]] = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next((each for each in units if whole >= each[1]), ("s", 1))
    return words(f"span.{unit}", n=whole // size)


def first_words(item: ReviewItem | ElicitItem | ToolItem | None) -> str:
    """Return the beginning of what is new in a request, in one line, without what an earlier request has shown.

    New is an answer, or what follows the model's last turn. Blanks and invisible characters are left out, so that they
    cannot push the text out of sight; the request itself shows them.
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
    """Say what became of a decision, as far as it is known."""
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
    """Return the readable beginning of a text, as one line."""
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
        # A package of npm has its scope in front; a path is named by its last part.
        return word if word.startswith("@") else name
    return words[-1].rpartition("/")[2] if words else ""
