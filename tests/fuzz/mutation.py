"""Turns good frames into bad ones: seeded, so that a failure can be repeated from its seed and its number.

Owns the mutations only. Some work on the bytes of a frame, more on the decoded JSON, because a peer that is merely
wrong writes perfect JSON. Nothing here knows what an answer to a bad frame should be.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Mutator", "encoded"]

MAX_SIZE = 200_000
"""Largest frame made, in bytes: far above real messages, small enough for a hundred thousand of them."""

ODD_NUMBERS = [0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**40, 1e308, 1.5, -0.0]
ODD_TEXTS = ["", " ", "\x00", "\u2028", "é" * 300, "𝄞", "null", "0", "x" * 5_000, "<script>", "../../etc", "{}", "%00"]
ODD_VALUES: list[Any] = [None, True, False, [], {}, [[]], [{}], {"": ""}, {"a": None}, "", 0]
ODD_METHODS = ["", "ping", "rpc.discover", "tools/call ", "tools", "/", "notifications/", "notifications/initialized"]
ODD_BYTES = [
    b"\x00",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\u0000",
    b"\\ud800",
    b"NaN",
    b"1e999",
    b'"',
]
MEMBERS = ["jsonrpc", "id", "method", "params", "result", "error", "_meta", "name", "arguments", "requestId"]

Path = list[Any]


def encoded(value: Any) -> bytes:
    """Encode JSON compactly, lone surrogates and all."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


class Mutator:
    """An endless source of frames made from a corpus of good ones."""

    def __init__(self, corpus: list[bytes], seed: int) -> None:
        self._corpus = corpus
        self._chance = random.Random(seed)
        self._ids: list[Any] = [1, "a", 0]
        self._on_bytes: list[Callable[[bytes], bytes]] = [
            self._flip, self._truncate, self._insert, self._delete, self._repeat, self._splice, self._swap_runs,
        ]  # fmt: skip
        self._on_json: list[Callable[[Any], Any]] = [
            self._drop_member, self._replace_value, self._swap_values, self._odd_number, self._odd_text, self._odd_id,
            self._odd_method, self._nest, self._graft, self._batch, self._extra_member, self._rename_member,
            self._same_id,
        ]  # fmt: skip

    def frames(self, count: int) -> Iterator[bytes]:
        """Make ``count`` frames, none of them with a line break."""
        for _ in range(count):
            yield self.frame()

    def frame(self) -> bytes:
        """Make one frame: sometimes a good one, mostly one with one to four faults."""
        chance = self._chance
        data = chance.choice(self._corpus)
        kind = chance.random()
        if kind < 0.15:
            return data
        for _ in range(1 + min(3, int(chance.expovariate(1)))):
            data = (chance.choice(self._on_bytes)(data) if kind < 0.5 else self._structural(data))[:MAX_SIZE]
        # A line break would end the frame on stdio; what follows it is a frame of its own.
        return data.replace(b"\n", b" ").replace(b"\r", b" ")

    def _structural(self, data: bytes) -> bytes:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return self._flip(data)
        if isinstance(value, dict) and "id" in value and len(self._ids) < 64:
            self._ids.append(value["id"])
        try:
            return encoded(self._chance.choice(self._on_json)(value))
        except (ValueError, RecursionError):
            return data

    # --- on bytes -----------------------------------------------------------------------------------------------

    def _place(self, data: bytes) -> int:
        return self._chance.randrange(len(data) + 1)

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data or b"{")
        for _ in range(self._chance.choice([1, 1, 2, 8])):
            changed[self._chance.randrange(len(changed))] ^= 1 << self._chance.randrange(8)
        return bytes(changed)

    def _truncate(self, data: bytes) -> bytes:
        return data[: self._place(data)]

    def _insert(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self._chance.choice(ODD_BYTES) + data[place:]

    def _delete(self, data: bytes) -> bytes:
        start = self._place(data)
        return data[:start] + data[start + self._chance.choice([1, 1, 2, 5, 40]) :]

    def _repeat(self, data: bytes) -> bytes:
        start = self._place(data)
        piece = data[start : start + self._chance.choice([1, 3, 20])]
        return data[:start] + piece * self._chance.choice([2, 3, 500]) + data[start:]

    def _splice(self, data: bytes) -> bytes:
        other = self._chance.choice(self._corpus)
        return data[: self._place(data)] + other[self._place(other) :]

    def _swap_runs(self, data: bytes) -> bytes:
        one, two, three = sorted(self._place(data) for _ in range(3))
        return data[:one] + data[two:three] + data[one:two] + data[three:]

    # --- on JSON ------------------------------------------------------------------------------------------------

    def _paths(self, value: Any) -> list[Path]:
        found: list[Path] = []
        waiting: list[tuple[Path, Any]] = [([], value)]
        while waiting and len(found) < 500:
            path, item = waiting.pop()
            keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else []
            for key in keys:
                found.append([*path, key])
                waiting.append(([*path, key], item[key]))
        return found

    def _somewhere(self, value: Any) -> tuple[Any, Any]:
        """Choose a place: a container and a key in it. A frame that has none becomes the only item of a list."""
        paths = self._paths(value)
        if not paths:
            return [value], 0
        path = self._chance.choice(paths)
        for key in path[:-1]:
            value = value[key]
        return value, path[-1]

    def _odd(self) -> Any:
        pool = self._chance.choice([ODD_VALUES, ODD_NUMBERS, ODD_TEXTS])
        return self._chance.choice(pool)

    def _drop_member(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        del container[key]
        return value

    def _replace_value(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        container[key] = self._odd()
        return value

    def _swap_values(self, value: Any) -> Any:
        one, two = self._somewhere(value), self._somewhere(value)
        one[0][one[1]], two[0][two[1]] = two[0][two[1]], one[0][one[1]]
        return value

    def _odd_number(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        container[key] = self._chance.choice(ODD_NUMBERS)
        return value

    def _odd_text(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        container[key] = self._chance.choice(ODD_TEXTS)
        return value

    def _odd_id(self, value: Any) -> Any:
        if isinstance(value, dict):
            value["id"] = self._odd()
        return value

    def _same_id(self, value: Any) -> Any:
        if isinstance(value, dict):
            value["id"] = self._chance.choice(self._ids)
        return value

    def _odd_method(self, value: Any) -> Any:
        if isinstance(value, dict):
            value["method"] = self._chance.choice([*ODD_METHODS, self._method_of_another()])
        return value

    def _method_of_another(self) -> Any:
        try:
            other = json.loads(self._chance.choice(self._corpus))
        except ValueError:
            return "?"
        return other.get("method") if isinstance(other, dict) else "?"

    def _nest(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        depth = self._chance.choice([3, 60, 120, 126, 127, 128, 129, 200, 600])
        inner = container[key]
        for _ in range(depth):
            inner = [inner] if self._chance.random() < 0.5 else {"a": inner}
        container[key] = inner
        return value

    def _graft(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        try:
            other = json.loads(self._chance.choice(self._corpus))
        except ValueError:
            return value
        place, name = self._somewhere(other)
        container[key] = place[name]
        return value

    def _batch(self, value: Any) -> Any:
        copies = self._chance.choice([0, 1, 2, 3, 300])
        return [value] * min(copies, MAX_SIZE // len(encoded(value)))

    def _extra_member(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        target = container[key] if isinstance(container[key], dict) else container
        if isinstance(target, dict):
            target[self._chance.choice([*MEMBERS, "<extra>", "__proto__", ""])] = self._odd()
        return value

    def _rename_member(self, value: Any) -> Any:
        container, key = self._somewhere(value)
        if isinstance(container, dict):
            container[self._chance.choice([*MEMBERS, key.upper(), key + "_"])] = container.pop(key)
        return value
