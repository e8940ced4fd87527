"""A raw connection to a server: every message as it came, every wait with a deadline, all that is held bounded.

Owns what is examined of each message wherever it arrives: its envelope, the request that it answers, and whether the
server may send it. What a probe asks for is examined by the probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from antiphon.channel import Channel, Frame, Oversized
from antiphon.check.findings import excerpt_of
from antiphon.check.message_rules import find_envelope_faults, needs_declaration
from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.wire.common import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from antiphon.wire.envelope import encode_value
from antiphon.wire.revisions import Revision

Json = dict[str, Any]
Key = tuple[str, object]
"""An id of a request with its type: 1 and True, or 1 and "1", are others."""
Report = Callable[[str, str, object], None]
"""Takes the id of a rule, the place, and what was seen there."""

MAX_MESSAGES = 20_000
"""Most messages of one connection: all lists of a server with 10,000 tools on pages of one."""
MAX_BYTES = 64 * 1024 * 1024
"""Most bytes of one connection: four of the largest frames."""
MAX_SILENT = 2
"""Requests without a reply after which the connection is given up, so that a server that hangs costs little."""
CLIENT = {"name": "antiphon-check", "version": "1"}


class RawPeer:
    """One connection to a server, on one revision; ``ended`` says why nothing more can come of it.

    Args:
        revision: the revision that is spoken.
        report: takes what is found.
        wait: seconds for one reply.
        declares: the capabilities that we declare.
    """

    def __init__(self, revision: Revision, report: Report, *, wait: float, declares: Mapping[str, Any]) -> None:
        self.revision = revision
        self.report = report
        self.wait = wait
        self.declares = declares
        self.opening: Json = {}
        self.place = "initialize"
        """The method in whose course messages arrive now."""
        self.ended = ""
        self.is_calling = False
        """Whether a tool runs now, which may ask."""
        self.without_id: list[Json] = []
        """Error replies to what had no readable id."""
        self._pending: dict[Key, object] = {}
        """The progress token of each open request."""
        self._replies: dict[Key, Json] = {}
        self._answered: set[Key] = set()
        self._given_up: set[Key] = set()
        self._progress: dict[object, float] = {}
        self.is_explained = False
        """Whether it was reported already why a request is not answered."""
        self._count = self._size = self._silent = self._ids = 0

    @property
    def capabilities(self) -> Json:
        """What the server declared."""
        found = self.opening.get("capabilities")
        return cast("Json", found) if isinstance(found, dict) else {}

    def make_request(self, method: str, params: Mapping[str, Any] | None = None, *, id: object = None) -> Json:
        """Make a request as this revision has it, with a progress token."""
        self._ids += 1
        filled: Json = {**(params or {})}
        meta: Json = {"progressToken": f"token-{self._ids}", **filled.get("_meta", {})}
        if self.revision.modern:
            meta = {
                PROTOCOL_VERSION: self.revision.name,
                CLIENT_INFO: CLIENT,
                CLIENT_CAPABILITIES: self.declares,
                **meta,
            }
        filled["_meta"] = meta
        return {"jsonrpc": "2.0", "id": self._ids if id is None else id, "method": method, "params": filled}

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, id: object = None) -> Json | None:
        """Send a request and return its reply; ``None`` if none came, which is reported."""
        return await self.ask_for(self.make_request(method, params, id=id))

    async def ask_for(self, request: Json, *, place: str = "", quiet: bool = False) -> Json | None:
        """Send this request and return its reply; ``None`` if none came, which is reported unless ``quiet``."""
        if self.ended:
            return None
        self.place = place or str(request.get("method"))
        key = key_of(request["id"])
        token = request.get("params", {}).get("_meta", {}).get("progressToken")
        self._pending[key] = token
        self._progress[token] = float("-inf")
        try:
            async with asyncio.timeout(self.wait):
                await self.exchange(request, lambda: key in self._replies)
        except TimeoutError:
            pass
        self._pending.pop(key, None)
        (self._answered if key in self._replies else self._given_up).add(key)
        self._progress.pop(token, None)
        reply = self._replies.pop(key, None)
        if reply is None and not quiet:
            self._silent += 1
            if not self.is_explained:
                self.report("rpc.silent", self.place, self.ended or f"no reply within {self.wait:g} s")
            if self._silent >= MAX_SILENT:
                self.ended = self.ended or "several requests were not answered"
        return reply

    def await_also(self, request: Json) -> None:
        """Expect a reply to a request that is sent with others."""
        token = request["params"]["_meta"]["progressToken"]
        self._pending[key_of(request["id"])] = token
        self._progress[token] = float("-inf")

    def count_awaited(self) -> int:
        """Return how many of the requests of ``await_also`` have no reply yet."""
        return len(self._pending.keys() - self._replies.keys())

    async def wait_for_others(self, seconds: float) -> int:
        """Wait for the replies to the requests of ``await_also``, and return how many did not come."""
        try:
            async with asyncio.timeout(seconds):
                while self.count_awaited() and not self.ended:
                    await self.receive()
        except TimeoutError:
            pass
        missing = self.count_awaited()
        self._answered |= self._replies.keys()
        self._given_up |= self._pending.keys() - self._replies.keys()
        self._pending.clear()
        self._replies.clear()
        return missing

    async def receive(self) -> None:
        """Take what comes next; over HTTP nothing comes that was not asked for."""
        raise TimeoutError

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.place = method
        await self.send({"jsonrpc": "2.0", "method": method, "params": {**(params or {})}})

    async def exchange(self, message: object, is_done: Callable[[], bool]) -> None:
        """Send a message, and take what comes until ``is_done``, or until no more can come."""
        raise NotImplementedError

    async def send(self, message: object) -> None:
        """Send a message that has no reply."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the connection."""
        raise NotImplementedError

    def take(self, data: bytes) -> None:
        """Examine what the server sent, and keep it if it is awaited."""
        self._count += 1
        self._size += len(data)
        if self._count > MAX_MESSAGES or self._size > MAX_BYTES:
            self.report(
                "safety.flood", self.place, f"{self._count} messages, {self._size} bytes; the last: {excerpt_of(data)}"
            )
            self.is_explained, self.ended = True, "it sends without end"
            return
        try:
            found: object = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.report("rpc.encoding" if not is_utf8(data) else "rpc.rubbish", self.place, data)
            return
        several = [found]
        if isinstance(found, list) and self.revision.batches:
            several = cast("list[object]", found)
        for message in several:
            self._take_message(message)

    def _take_message(self, message: object) -> None:
        for rule, seen in find_envelope_faults(message):
            self.report(rule, self.place, seen)
        if not isinstance(message, dict):
            return
        message = cast("Json", message)
        if isinstance(message.get("method"), str):
            (self._take_request if "id" in message else self._take_notification)(message)
        elif "result" in message or "error" in message:
            self._take_reply(message)

    def _take_reply(self, message: Json) -> None:
        id: object = message.get("id")
        key = key_of(id)
        if not isinstance(id, (str, int)):
            self.without_id.append(message)
        elif key in self._pending and key not in self._replies:
            self.file_reply(key, message)
        elif key in self._answered or key in self._replies:
            self.report("rpc.twice", self.place, message)
        elif key not in self._given_up:
            self.report("rpc.id", self.place, message)
            if len(self._pending) == 1:
                # It can only be the reply to this request, which is examined as such.
                self.file_reply(next(iter(self._pending)), message)

    def file_reply(self, key: Key, message: Json) -> None:
        """Keep the reply to an open request, whose progress ends with it."""
        self._replies[key] = message
        self._progress.pop(self._pending.get(key), None)

    def _take_notification(self, message: Json) -> None:
        method, params = message["method"], message.get("params")
        if method == "notifications/progress" and isinstance(params, dict):
            self._take_progress(cast("Json", params))
        if method == "notifications/message" and self.revision.modern:
            self.report("notify.log-unasked", self.place, message)
        elif (missing := needs_declaration(method, self.capabilities)) and self.opening:
            self.report("notify.log-undeclared" if missing == "logging" else "notify.undeclared", self.place, message)

    def _take_progress(self, params: Json) -> None:
        token, value = params.get("progressToken"), params.get("progress")
        if not isinstance(token, (str, int)) or token not in self._progress:
            self.report("progress.token", self.place, params)
        elif not isinstance(value, (int, float)) or value <= self._progress[token]:
            self.report("progress.increase", self.place, params)
        else:
            self._progress[token] = value

    def _take_request(self, message: Json) -> None:
        method = message["method"]
        family = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
        if self.revision.modern:
            self.report("asks.modern", self.place, message)
        elif method in family and family[method] not in self.declares:
            self.report("asks.undeclared", self.place, message)
        elif method in family and method != "roots/list" and not self.is_calling:
            self.report("safety.unasked", self.place, message)
        refusal = {"error": {"code": -32601, "message": "not offered by antiphon check"}}
        results: dict[str, Json] = {"ping": {}, "roots/list": {"roots": []}}
        answer: Json = {"result": results[method]} if method in results else refusal
        if not self.revision.modern:
            self.answer({"jsonrpc": "2.0", "id": message["id"], **answer})

    def answer(self, message: Json) -> None:
        """Send the answer to a request of the server's, without waiting."""


class ChannelPeer(RawPeer):
    """A connection over a channel: a child process, or a server in memory."""

    def __init__(
        self, channel: Channel, revision: Revision, report: Report, *, wait: float, declares: Mapping[str, Any]
    ) -> None:
        super().__init__(revision, report, wait=wait, declares=declares)
        self.channel = channel
        self._noise = 0

    async def exchange(self, message: object, is_done: Callable[[], bool]) -> None:
        """Send a message, and take what comes until ``is_done``."""
        await self.send(message)
        while not is_done() and not self.ended:
            await self.receive()

    async def listen(self, seconds: float) -> None:
        """Take what comes within this time."""
        try:
            async with asyncio.timeout(seconds):
                while not self.ended:
                    await self.receive()
        except TimeoutError:
            return

    async def receive(self) -> None:
        """Take what comes next."""
        frames = await self.channel.receive()
        if not frames:
            error = self.channel.closed_error()
            message, _, tail = str(error).partition("\n")
            self.ended = ": ".join(filter(None, (message or "the connection has ended", tail.strip()[-200:])))
        for frame in frames:
            if isinstance(frame, Oversized):
                self.report("safety.oversized", self.place, f"a message of {frame.size} bytes")
            elif not self.ended:
                self.take(frame)
        self._look_at_noise()

    def _look_at_noise(self) -> None:
        if isinstance(self.channel, StdioClientChannel) and self.channel.noise > self._noise:
            self._noise = self.channel.noise
            lines = list(self.channel.noise_tail)
            rule = "rpc.encoding" if any("�" in line for line in lines) else "rpc.rubbish"
            self.report(rule, "standard output", f"{self._noise} lines, such as {lines[0]!r}")

    async def send(self, message: object) -> None:
        """Send a message, or bytes as they are."""
        data = message if isinstance(message, bytes) else encode_value(message)
        room = self.channel.send(Frame(data))
        if isinstance(room, Awaitable):
            try:
                async with asyncio.timeout(self.wait):
                    await room
            except TimeoutError:
                self.ended = "it does not read its input"

    def answer(self, message: Json) -> None:
        """Send the answer to a request of the server's; one that does not fit is dropped."""
        self.channel.send(Frame(encode_value(message)))

    async def close(self) -> None:
        """End the connection, and a child process with it."""
        await self.channel.close()


def key_of(id: object) -> Key:
    """Return what tells an id from any other."""
    return type(id).__name__, id


def is_utf8(data: bytes) -> bool:
    """Return whether these bytes are a text in UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
