"""What a peer owes us for a frame we sent: worked out without the code under test.

A request is a JSON object with ``"jsonrpc": "2.0"``, a text ``method`` and an ``id`` that is a text or an integer. Each
is owed exactly one reply; anything else at most one, with its id or with none. This module owns that rule and the
counting; what a reply says is the business of the scenario scripts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

__all__ = ["Id", "Ledger", "messages"]

DEEPEST = 128
Id = int | str
_SEEMING_ID = re.compile(rb'"id"\s*:\s*(-?\d+|"(?:[^"\\]|\\.)*")')


@lru_cache(maxsize=16)
def decoded(frame: bytes) -> Any:
    """Decode JSON strictly; what is no JSON is ``None``. Nobody changes the value: each frame is looked at often."""
    try:
        return msgspec.json.decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return None


@lru_cache(maxsize=16)
def mended(frame: bytes) -> Any:
    """Decode JSON and what is nearly JSON: U+FFFD stands for text that is no Unicode. Else ``None``.

    Nobody changes the value: each frame is looked at often.
    """
    try:
        text = frame.decode("utf-8", "replace")
        value = json.loads(text, strict=False)
        # Only an escape writes half a character.
        if "\\u" not in text:
            return value
        return json.loads(
            json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    except (ValueError, RecursionError):
        return None


def depth(value: Any) -> int:
    """Measure how deep JSON nests."""
    level, found = [value], 0
    while level:
        containers = [item for item in level if isinstance(item, dict | list)]
        found += bool(containers)
        level = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
    return found


def messages(frame: bytes) -> Iterator[dict[str, Any]]:
    """Go through the JSON objects of a frame: one, or those of a batch."""
    value = mended(frame)
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield item


def is_id(value: Any) -> bool:
    """Tell whether a value can be the id of a request."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def is_request(message: dict[str, Any]) -> bool:
    """Return whether a message is a request in good form, so that a reply is owed.

    One that has a result or an error as well may be a reply to a request of ours with the same id.
    """
    is_rpc = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
    return is_rpc and is_id(message.get("id")) and not message.keys() & {"result", "error"}


class Ledger:
    """Counts what was sent and what came back, per id."""

    def __init__(self) -> None:
        self.owed: Counter[Id] = Counter()
        """Replies owed per id: one for each request."""
        self.perhaps: Counter[Any] = Counter()
        """Replies that may come besides: for a member of a batch, or for what is no good request."""
        self.received: Counter[Any] = Counter()
        self.excused: set[Id] = set()
        """Ids whose request may go unanswered: it was cancelled, or it waits by its nature."""

    def sent(self, frame: bytes) -> None:
        """Take note of a frame that went out."""
        good, value = decoded(frame), mended(frame)
        for message in messages(frame):
            self._excuse(message)
        if isinstance(good, dict) and is_request(good) and depth(good) <= DEEPEST:
            self.owed[good["id"]] += 1
        elif isinstance(value, list):
            # Each member of a batch may be answered, also what is no object (JSON-RPC 2.0, section 6).
            self._may_answer([item.get("id") if isinstance(item, dict) else None for item in value])
        elif isinstance(value, dict):
            self._may_answer([value.get("id")])
        else:
            self._may_answer([mended(id) for id in _SEEMING_ID.findall(frame)])

    def _may_answer(self, ids: list[Any]) -> None:
        self.perhaps[None] += max(1, len(ids))
        self.perhaps.update(id for id in ids if is_id(id) or isinstance(id, float))

    def _excuse(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if message.get("method") == "notifications/cancelled" and isinstance(params, dict):
            id = params.get("requestId")
            if is_id(id) or isinstance(id, float):
                self.excused.add(id)

    def came(self, reply: dict[str, Any]) -> None:
        """Take note of a reply; one that nothing can have caused is an error at once."""
        id = reply.get("id")
        self.received[id] += 1
        due = self.perhaps[id] + (self.owed[id] if id is not None else 0)
        assert self.received[id] <= due, f"reply {self.received[id]} for id {id!r}, at most {due} due: {reply}"
        assert ("result" in reply) is not ("error" in reply), f"neither or both of result and error: {reply}"

    def missing(self) -> list[Id]:
        """List the ids that are owed replies which have not come."""
        owed = ((id, number) for id, number in self.owed.items() if id not in self.excused)
        return [id for id, number in owed if self.received[id] < number]
