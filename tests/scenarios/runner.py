"""Plays a message script against a peer over any channel, and compares what comes back.

A script is a file of JSON lines, ``{"from": "client" | "server", "frame": ...}``; with ``"raw"`` instead of ``"frame"``
the client sends text that need not be JSON. The side named by ``plays`` is ours: its frames are sent, the other side's
are expected, in order. Lines marked ``"any_order": true`` that follow each other may arrive in any order.

In a frame these strings, as values or as keys, are not literal:

    "<any>" "<string>" "<integer>"   any value, any text, any whole number
    "<=name>"                        any value; it is remembered
    "<name>"                         what was remembered: sent as it is, or expected again
    "<rest>": "<any>"                the object may have further members
    [..., "<rest>"]                  the list may have further items

This module owns the format and the comparison; which peers are played against is the business of the tests.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from antiphon.channel import Channel, Frame, Oversized

__all__ = [
    "LEFT_OUT",
    "NOT_OVER",
    "SCRIPTS",
    "Check",
    "Line",
    "Mismatch",
    "Player",
    "fit_for",
    "matches",
    "read_script",
]

HERE = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in HERE.glob("*.jsonl"))
PATIENCE = 10.0
"""Seconds a peer has for each frame."""

_OVERTAKES = "each message is a POST of its own: of two that are sent at once either may arrive first"
_NO_REPLY = "HTTP answers it with a status and a body, and there is no request that our channel could give it to"

LEFT_OUT: dict[str, dict[str, str]] = {
    "sse": {"An id in use.": _OVERTAKES, "An id in use, and its cancellation.": _OVERTAKES},
    "http": {
        "p0": "there is no session yet: HTTP answers 400, also where a ping would be served",
        "An id in use.": _OVERTAKES,
        "An id in use, and its cancellation.": f"{_OVERTAKES}; at 2026-07-28 they have nothing to do with each other",
        "An id that is none.": _NO_REPLY,
        "What has an id, and is no message.": _NO_REPLY,
        "What cannot be read.": _NO_REPLY,
        "What is no message.": _NO_REPLY,
        "Batches.": "our client sends none, so its channel brings no reply that is one",
        "again": "a second initialize means a new session over HTTP; the channel would leave the one it has",
        "g1": "an initialize with a modern _meta: the headers cannot say both",
    },
}
"""By transport: sections and ids of the scripts that it cannot carry, each with the reason."""

NOT_OVER = {("http", "2024-11-05"): "Streamable HTTP came with 2025-03-26; before, there was HTTP+SSE"}
"""Transports and scripts that have nothing to do with each other, with the reason."""


class Mismatch(AssertionError):
    """The peer said something else than the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message of a script."""

    place: str
    side: Literal["client", "server"]
    frame: Any = None
    raw: str | None = None
    any_order: bool = False
    section: str = ""
    """The last line for people before it."""


def read_script(name: str) -> list[Line]:
    """Read ``name.jsonl`` beside this module; lines that start with ``#`` are for people."""
    lines: list[Line] = []
    section = ""
    # Not splitlines(): JSON text may hold other line breaks, and the scripts do.
    for number, text in enumerate((HERE / f"{name}.jsonl").read_text(encoding="utf-8").split("\n"), 1):
        if text.startswith("#"):
            section = text.removeprefix("# ")
        elif text.strip():
            fields = json.loads(text)
            side = fields.pop("from")
            lines.append(Line(place=f"{name}.jsonl:{number}", side=side, section=section, **fields))
    return lines


def fit_for(transport: str, script: list[Line]) -> list[Line]:
    """Return the lines that a transport can carry; what it cannot, and why, stands in ``LEFT_OUT``."""
    left_out = LEFT_OUT.get(transport, {})
    return [line for line in script if line.section not in left_out and line_id(line) not in left_out]


def line_id(line: Line) -> object:
    """Return the id of a message, if it is one text."""
    id = line.frame.get("id") if isinstance(line.frame, dict) else None
    return id if isinstance(id, str) else None


class Check(Protocol):
    """Looks at every message that travels; raises where one is wrong."""

    def sent(self, frame: Any) -> None:
        """Look at what we send."""
        ...

    def received(self, frame: Any) -> None:
        """Look at what comes."""
        ...


class Player:
    """One side of a script, over one channel."""

    def __init__(
        self, channel: Channel, *, plays: Literal["client", "server"] = "client", check: Check | None = None
    ) -> None:
        self._channel = channel
        self._check = check
        self._plays = plays
        self._memory: dict[str, Any] = {}
        self._arrived: deque[bytes | Oversized] = deque()

    async def play(self, script: list[Line]) -> None:
        """Play a whole script.

        Raises:
            Mismatch: the peer said something else, or nothing.
        """
        expected: list[Line] = []
        for line in script:
            if line.side == self._plays:
                await self._expect(expected)
                expected = []
                await self._send(line)
            else:
                expected.append(line)
        await self._expect(expected)

    async def _send(self, line: Line) -> None:
        frame = filled(line.frame, self._memory)
        if self._check is not None and line.raw is None:
            self._check.sent(frame)
        data = line.raw.encode() if line.raw is not None else encoded(frame)
        wait = self._channel.send(Frame(data))
        if wait is not None:
            await wait

    async def _expect(self, lines: list[Line]) -> None:
        waiting = list(lines)
        while waiting:
            frame = await self._next(waiting[0])
            candidates = waiting[: max(1, loose(waiting))]
            for candidate in candidates:
                memory = dict(self._memory)
                if matches(candidate.frame, frame, memory):
                    self._memory = memory
                    waiting.remove(candidate)
                    break
            else:
                raise Mismatch(f"{waiting[0].place}\nexpected {shown(waiting[0].frame)}\n     got {shown(frame)}")

    async def _next(self, line: Line) -> Any:
        if not self._arrived:
            try:
                self._arrived.extend(await asyncio.wait_for(self._channel.receive(), PATIENCE))
            except TimeoutError:
                raise Mismatch(f"{line.place}\nexpected {shown(line.frame)}\n     got nothing") from None
        if not self._arrived:
            end = self._channel.closed_error()
            raise Mismatch(f"{line.place}\nexpected {shown(line.frame)}\n     got the end: {end}")
        data = self._arrived.popleft()
        assert not isinstance(data, Oversized), f"{line.place}: the peer sent {data.size} bytes"
        frame = json.loads(data)
        if self._check is not None:
            self._check.received(frame)
        return frame


def loose(lines: list[Line]) -> int:
    """Count the lines at the start that may come in any order."""
    count = 0
    while count < len(lines) and lines[count].any_order:
        count += 1
    return count


def encoded(value: Any) -> bytes:
    """Encode a frame the way a plain client would."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def shown(frame: Any) -> str:
    """Render a frame for a person."""
    return json.dumps(frame, ensure_ascii=False)


def name_in(text: object, start: str = "<") -> str | None:
    """Find the name in ``<name>`` or, with ``start="<="``, in ``<=name>``."""
    is_name = isinstance(text, str) and text.startswith(start) and text.endswith(">") and len(text) > len(start) + 1
    return text[len(start) : -1] if is_name and isinstance(text, str) else None


def filled(value: Any, memory: dict[str, Any]) -> Any:
    """Replace every ``<name>`` by what was remembered."""
    if isinstance(value, dict):
        return {filled(key, memory): filled(item, memory) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, memory) for item in value]
    name = name_in(value)
    return memory.get(name, value) if name else value


def matches(expected: Any, actual: Any, memory: dict[str, Any]) -> bool:
    """Tell whether a frame is what the script expects; remembers on the way what the script names."""
    if isinstance(expected, str) and expected.startswith("<") and expected.endswith(">"):
        return text_matches(expected, actual, memory)
    if isinstance(expected, dict):
        return isinstance(actual, dict) and object_matches(expected, actual, memory)
    if isinstance(expected, list):
        return isinstance(actual, list) and list_matches(expected, actual, memory)
    # JSON knows no difference between 1 and 1.0, but Python's True is no 1.
    return isinstance(expected, bool) is isinstance(actual, bool) and expected == actual


def text_matches(expected: str, actual: Any, memory: dict[str, Any]) -> bool:
    """Compare with a text that is not literal."""
    kinds = {"<any>": object, "<string>": str, "<integer>": int}
    if expected in kinds:
        return isinstance(actual, kinds[expected])
    new = name_in(expected, "<=")
    if new is not None:
        memory[new] = actual
        return True
    name = name_in(expected)
    return actual == memory.get(name or "", expected)


def object_matches(expected: dict[str, Any], actual: dict[str, Any], memory: dict[str, Any]) -> bool:
    """Compare objects; named keys stand for the members that are left, in the order they came."""
    left = dict(actual)
    for key, value in sorted(expected.items(), key=lambda item: name_in(item[0]) is not None):
        if key == "<rest>":
            continue
        new = name_in(key, "<=")
        found = next(iter(left), None) if new is not None else memory.get(name_in(key) or "", key)
        if found not in left or not matches(value, left.pop(found), memory):
            return False
        if new is not None:
            memory[new] = found
    return not left or "<rest>" in expected


def list_matches(expected: list[Any], actual: list[Any], memory: dict[str, Any]) -> bool:
    """Compare lists, item by item."""
    wanted = expected[:-1] if expected and expected[-1] == "<rest>" else expected
    enough = len(actual) >= len(wanted) if wanted is not expected else len(actual) == len(wanted)
    return enough and all(matches(one, other, memory) for one, other in zip(wanted, actual, strict=False))
