"""A raw connection to a server: every message as it came, every wait with a deadline, all that is held bounded.

Owns what is examined of each message wherever it arrives: its envelope, and the request that it answers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.channel import Channel, Frame, Oversized
from antiphon.check.check_rules import find_faults, read_list, read_object
from antiphon.errors import AntiphonError
from antiphon.machine.asyncio_tasks import wait_at_most
from antiphon.transports.stdio.client import GRACE, KILL, StdioClientChannel
from antiphon.wire.common import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from antiphon.wire.envelope import encode_value, too_deep
from antiphon.wire.revisions import Revision

Json = dict[str, Any]
Note = Callable[[str, str, object], None]
"""Takes the id of a rule, the place, and what was seen there."""
Usual = tuple[str, Mapping[str, Any]]  # a method and params that are allowed
IsDone = Callable[[], bool] | None  # whether all that is awaited has come
MAX_MESSAGES, MAX_BYTES = 20_000, 64 * 1024 * 1024
"""Most messages and bytes of one connection: all lists of a server with 10,000 tools on pages of one; four frames."""
MAX_DEPTH, MAX_SILENT, QUIET = 200, 2, 0.3
"""Deepest nesting of a message, since many readers give up at 100 to 500; requests without a reply after which the
connection is given up; and seconds in which what a server sends unasked would have come."""
CLIENT = {"name": "antiphon-check", "version": "1"}


@dataclass(kw_only=True)
class RawPeer:
    """One connection to a server, on one revision; ``ended`` says why nothing more can come of it."""

    revision: Revision
    note: Note
    wait: float
    declares: Mapping[str, Any]
    info: Mapping[str, Any]
    opening: Json = field(default_factory=dict[str, Any])
    capabilities: Json = field(default_factory=dict[str, Any])
    place: str = "initialize"
    ended: str = ""
    is_calling: bool = False
    usual: Sequence[Usual] = (("ping", {}),)
    token: str = CLIENT["name"]  # of progress
    took: float = 0.0  # seconds until the answer to the opening
    progress: float = -math.inf  # the latest one of the open request
    is_explained: bool = False  # whether it was noted already why the open request is not answered
    counts: Counter[str] = field(default_factory=Counter[str])  # messages, bytes, requests, silent, without id, noise
    _pending: set[str] = field(default_factory=set[str])
    _replies: dict[str, Json] = field(default_factory=dict[str, Json])
    _done: dict[str, bool] = field(default_factory=dict[str, bool])  # whether each earlier request was answered

    def examine(self, kind: str, value: object, place: str = "", *, seen: object = None) -> None:
        """Apply the rules of a kind, and note what is wrong; ``seen`` is shown in place of the part that is wrong."""
        for rule, path, part in find_faults(kind, value, self.revision):
            where = place or self.place
            self.note(rule, where if seen is not None else f"{where} {path}".rstrip(), part if seen is None else seen)

    def make_request(self, method: str, params: Mapping[str, Any] | None = None, *, id: object = None) -> Json:
        """Make a request as this revision has it."""
        self.counts["requests"] += 1
        number = self.counts["requests"]
        filled: Json = {**(params or {})}
        if self.revision.modern:
            ours = {PROTOCOL_VERSION: self.revision.name, CLIENT_INFO: self.info, CLIENT_CAPABILITIES: self.declares}
            filled["_meta"] = {**ours, **read_object(filled.get("_meta"))}
        return {"jsonrpc": "2.0", "id": number if id is None else id, "method": method, "params": filled}

    def make_opening(self) -> Json:
        """Make the request that opens a session on this revision."""
        if self.revision.modern:
            return self.make_request("server/discover")
        params = {"protocolVersion": self.revision.name, "capabilities": self.declares, "clientInfo": self.info}
        return {"jsonrpc": "2.0", "id": "opening", "method": "initialize", "params": params}

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, place: str = "", id: object = None
    ) -> Json | None:
        """Send a request and return its reply; ``None`` if none came, which is noted."""
        return (await self.ask_all([self.make_request(method, params, id=id)], place=place))[0]

    async def ask_all(
        self, requests: Sequence[Json], messages: Sequence[object] = (), *, place: str = "", may_fail: bool = False
    ) -> list[Json | None]:
        """Send requests, or ``messages`` that hold them, and return their replies; ``None`` if one did not come."""
        if self.ended:
            return [None for _ in requests]
        self.is_explained, self.progress, self.place = False, -math.inf, place or str(requests[0]["method"])
        keys = [repr(request["id"]) for request in requests]
        self._pending.update(keys)
        await wait_at_most(self.wait, self.exchange(messages or requests, lambda: self._replies.keys() >= set(keys)))
        replies = [self._replies.pop(key, None) for key in keys]
        self._done.update({key: reply is not None for key, reply in zip(keys, replies, strict=True)})
        self._pending.difference_update(keys)
        if None in replies and not may_fail:
            self.counts["silent"] += 1
            if not self.is_explained:
                self.note("rpc.silent", self.place, self.ended or f"no reply within {self.wait:g} s")
            if self.counts["silent"] >= MAX_SILENT:
                self.ended = self.ended or "several requests were not answered"
        return replies

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self.place = method
        await self.exchange([{"jsonrpc": "2.0", "method": method, "params": params}])

    async def cancel(self, params: Mapping[str, object]) -> None:
        """Send a request that is allowed, and cancel it without waiting: a reply that comes nevertheless is right."""
        method, given = self.usual[-1]
        request = self.make_request(method, given)
        self._done[repr(request["id"])], self.is_calling = False, method == "tools/call"
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {**params, "requestId": request["id"]}}
        await self.abandon(request, told)

    async def abandon(self, request: Json, notification: Json) -> None:
        """Send a request, and the notification that it is cancelled."""
        await self.exchange([request, notification])

    async def exchange(self, messages: Sequence[object], is_done: IsDone = None) -> None:
        """Send messages, or bytes as they are, and take what comes until ``is_done``; without it nothing is awaited."""
        raise NotImplementedError

    async def try_transport(self) -> None:
        """Try what only concerns the transport, once all else was tried."""

    async def explain_refusal(self) -> str:
        """Examine why no session could be opened, and return why nothing can be checked; empty if it can."""
        return ""

    def list_processes(self) -> list[int]:
        """Return the processes of the server, where they are known: those of this machine, but not our own."""
        return []

    def note_unreadable(self, rule: str, seen: object) -> None:
        """Note what explains why the open request is not answered."""
        self.is_explained = True
        self.note(rule, self.place, seen)

    def take(self, data: bytes) -> None:
        """Examine what the server sent, and keep it if it is awaited."""
        self.counts.update(messages=1, bytes=len(data))
        if self.counts["messages"] > MAX_MESSAGES or self.counts["bytes"] > MAX_BYTES:
            self.note_unreadable("safety.flood", f"{self.counts['messages']} messages; the last: {data[:80]}")
            self.ended = "it sends without end"
            return
        if too_deep(data, MAX_DEPTH):
            self.note_unreadable("safety.oversized", f"a message nested more than {MAX_DEPTH} deep")
            return
        try:
            found: object = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            is_text = data == data.decode(errors="replace").encode()
            self.note_unreadable("rpc.rubbish" if is_text else "rpc.encoding", data)
            return
        many: list[Any] = read_list(found) if self.revision.batches else []
        for message in many or [found]:
            self._take_message(message)

    def _take_message(self, message: Any) -> None:
        self.examine("message", message, seen=message)
        members = read_object(message)
        if members and "method" not in members:
            self.examine("response", members, seen=members)
            if "result" in members or "error" in members:
                self.take_reply(members)
        elif isinstance(members.get("method"), str) and "id" in members:
            self.take_request(members)
        elif isinstance(members.get("method"), str) and self.opening:
            value: object = read_object(members.get("params")).get("progress")
            number = value if isinstance(value, int | float) and not isinstance(value, bool) else -math.inf
            state = {"declared": self.capabilities, "isCalling": self.is_calling, "grows": number > self.progress}
            state["isOurs"] = read_object(members.get("params")).get("progressToken") == self.token
            if members["method"] == "notifications/progress":
                self.progress = max(number, self.progress)
            self.examine("notification", {**members, **state}, seen=members)

    def take_request(self, message: Json) -> None:
        """Examine a request of the server's, which is left unanswered."""
        self.examine("ask", {**message, "declared": self.declares, "isCalling": self.is_calling}, seen=message)

    def take_reply(self, message: Json) -> None:
        """Keep the reply to an open request; note any other."""
        # The text of an id tells its type: 1 and True, or 1 and "1", are others.
        key = repr(message.get("id"))
        if type(message.get("id")) not in (str, int):
            self.counts["without id"] += 1
            return
        text = str(message["id"])
        alike = {key, text, repr(text)} & self._pending
        if key in self._replies or (not alike and self._done.get(key)):
            self.note("rpc.twice", self.place, message)
            return
        if not alike and key in self._done:
            self._done[key] = True
            return
        if key not in alike:
            self.note("rpc.id", self.place, message)
            if len(alike or self._pending) != 1:
                return
            # It can only be the reply to this request, which is examined as such.
            (key,) = alike or self._pending
        self._replies[key] = message


@dataclass(kw_only=True)
class ChannelPeer(RawPeer):
    """A connection over a channel: a child process, a WebSocket, or a server in memory."""

    channel: Channel
    is_first: bool = False  # the first one has as much time to end as hosts give

    async def exchange(self, messages: Sequence[object], is_done: IsDone = None) -> None:
        """Send messages, and take what comes until ``is_done``."""
        for message in messages:
            room = self.channel.send(Frame(message if isinstance(message, bytes) else encode_value(message)))
            if isinstance(room, Awaitable):
                try:
                    await asyncio.wait_for(room, self.wait)
                except (TimeoutError, AntiphonError):
                    self.ended = "it does not read its input"
        while is_done is not None and not is_done() and not self.ended:
            await self._receive()

    async def try_transport(self) -> None:
        """Take what comes without having been asked for."""
        await wait_at_most(QUIET, self.exchange([], lambda: False))

    async def _receive(self) -> None:
        frames = await self.channel.receive()
        if not frames:
            first, _, rest = str(self.channel.closed_error()).partition("\n")
            self.ended = ": ".join(filter(None, (first or "the connection has ended", rest.strip()[-200:])))
        for frame in frames:
            if isinstance(frame, Oversized):
                self.note_unreadable("safety.oversized", f"a message of {frame.size} bytes")
            elif not self.ended:
                self.take(frame)
        if isinstance(self.channel, StdioClientChannel) and self.channel.noise > self.counts["noise"]:
            self.counts["noise"] = self.channel.noise
            line = self.channel.noise_tail[0]
            self.note("rpc.encoding" if "\ufffd" in line else "rpc.rubbish", "standard output", line)

    def take_request(self, message: Json) -> None:
        """Examine a request of the server's, and answer it; an answer that does not fit is dropped."""
        super().take_request(message)
        results: dict[str, Json] = {"ping": {}, "roots/list": {"roots": []}}
        refusal = {"error": {"code": -32601, "message": "not offered by antiphon check"}}
        answer: Json = {"result": results[message["method"]]} if message["method"] in results else refusal
        if not self.revision.modern:
            self.channel.send(Frame(encode_value({"jsonrpc": "2.0", "id": message["id"], **answer})))

    async def close(self) -> None:
        """End the connection, and a child process with it."""
        if self.ended or not self.is_first or not isinstance(self.channel, StdioClientChannel):
            await self.channel.close()
            return
        began, place = time.monotonic(), "end of standard input"
        if survivors := await self.channel.close_and_look():
            self.note("stdio.orphan", place, f"{GRACE:g} s later there still ran {', '.join(survivors)}")
        elif time.monotonic() - began >= GRACE:
            ended_by = "SIGKILL" if self.channel.returncode == -KILL else "SIGTERM"
            self.note("stdio.exit", place, f"it still ran {GRACE:g} s later, and was ended by {ended_by}")

    def list_processes(self) -> list[int]:
        """Return the process of the server, and those that it has started."""
        return self.channel.list_processes() if isinstance(self.channel, StdioClientChannel) else []
