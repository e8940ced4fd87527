"""A peer that does what its messages say, so that a transport can be tested without an engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from antiphon.channel import Channel, Frame
from antiphon.protocol.call_record import CallRecord
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import is_request
from antiphon.transports.http.server.app import HttpApp
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Envelope

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def frame(**members: Any) -> bytes:
    """Encode a message."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


class FakePeer:
    """Serves ``tools/call`` by the name of the tool."""

    def __init__(
        self, channel: Channel, principal: str | None, headers: Mapping[str, str], assumed: str | None
    ) -> None:
        self.channel = channel
        self.principal = principal
        self.headers = headers
        self.assumed = assumed
        self.is_over = False
        self.taken: list[Envelope] = []
        self.withdrawn: list[Any] = []
        self.answers: asyncio.Queue[Envelope] = asyncio.Queue()
        self.go = asyncio.Event()
        self.began: Callable[[], object] = list
        self._waits: Callable[[], object] | None = None

    async def handle(
        self,
        message: Envelope,
        *,
        waits: Callable[[], object] | None = None,
        params: RequestParams | None = None,
        caller: Caller | None = None,
        record: CallRecord | None = None,
        pass_on: Callable[[str], object] | None = None,
    ) -> None:
        self.taken.append(message)
        if not is_request(message):
            self.answers.put_nowait(message)
            return
        self._waits = waits
        params = json.loads(bytes(message.params) or b"{}")
        what = params.get("name") if message.method == "tools/call" else message.method
        await getattr(self, f"do_{what.replace('/', '_')}", self.do_unknown)(message.id, params)

    def tell(self, message: Envelope) -> None:
        self.taken.append(message)
        self.answers.put_nowait(message)

    def withdraw(self, id: Any, reason: str) -> None:
        self.withdrawn.append(id)
        self.go.set()

    async def close(self) -> None:
        self.is_over = True
        self.go.set()
        await self.channel.close()

    # --- the tools ----------------------------------------------------------------------------------------------

    def reply(self, id: Any, result: Any) -> None:
        self.channel.send(Frame(frame(id=id, result=result), id, final=True))

    def say(self, id: Any, what: str) -> None:
        self.channel.send(Frame(frame(method="notifications/message", params={"data": what}), id))

    async def wait(self) -> None:
        if self._waits is not None:
            self._waits()
        self.began()
        await self.go.wait()

    async def do_unknown(self, id: Any, params: Any) -> None:
        self.channel.send(Frame(frame(id=id, error={"code": -32601, "message": "?"}), id, final=True, code=-32601))

    async def do_initialize(self, id: Any, params: Any) -> None:
        if params["protocolVersion"] == "refused":
            await self.do_fail(id, {"arguments": {"code": -32602}})
            return
        self.reply(id, {"protocolVersion": params["protocolVersion"]})

    async def do_echo(self, id: Any, params: Any) -> None:
        self.reply(id, params.get("arguments"))

    async def do_tell(self, id: Any, params: Any) -> None:
        self.say(id, "one")
        self.say(id, "two")
        self.reply(id, "told")

    async def do_babble(self, id: Any, params: Any) -> None:
        for number in range(params["arguments"]["times"]):
            self.say(id, str(number))
        self.reply(id, "told")

    async def do_wait(self, id: Any, params: Any) -> None:
        await self.wait()
        if not self.withdrawn and not self.is_over:
            self.reply(id, "waited")

    async def do_mute(self, id: Any, params: Any) -> None:
        await self.wait()

    async def do_tell_and_wait(self, id: Any, params: Any) -> None:
        self.say(id, "before")
        await self.wait()
        self.say(id, "after")
        self.reply(id, "waited")

    async def do_tell_later(self, id: Any, params: Any) -> None:
        self.say(id, "before")

    async def do_later(self, id: Any, params: Any) -> None:
        asyncio.get_running_loop().call_soon(self.reply, id, "late")

    async def do_ask(self, id: Any, params: Any) -> None:
        self.channel.send(Frame(frame(id=7, method="sampling/createMessage", params={}), id))
        if self._waits is not None:
            self._waits()
        answer = await self.answers.get()
        self.reply(id, json.loads(bytes(answer.result)))

    async def do_broadcast(self, id: Any, params: Any) -> None:
        self.channel.send(Frame(frame(method="notifications/tools/list_changed")))
        self.reply(id, "sent")

    async def do_fail(self, id: Any, params: Any) -> None:
        code = params["arguments"]["code"]
        self.channel.send(Frame(frame(id=id, error={"code": code, "message": "no"}), id, final=True, code=code))

    async def do_subscriptions_listen(self, id: Any, params: Any) -> None:
        self.channel.send(Frame(frame(method="notifications/subscriptions/acknowledged"), id))


class Bench:
    """An application with fake peers."""

    def __init__(self, **options: Any) -> None:
        self.peers: list[FakePeer] = []
        self.waiting = asyncio.Event()
        self.app: HttpApp = HttpApp(self.connect, **options)

    def connect(
        self, channel: Channel, principal: str | None, headers: Mapping[str, str], assumed: str | None
    ) -> FakePeer:
        peer = FakePeer(channel, principal, headers, assumed)
        peer.began = self.waiting.set
        self.peers.append(peer)
        return peer

    @property
    def peer(self) -> FakePeer:
        """The one that was made last."""
        return self.peers[-1]


def initialize(version: str = "2025-11-25", id: Any = 0) -> dict[str, Any]:
    """Make the message that opens a session."""
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {"protocolVersion": version}}


def call(name: str, id: Any = 1, meta: Any = None, **arguments: Any) -> dict[str, Any]:
    """Make a call of a tool."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if meta is not None:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def modern(name: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    """Make a modern call of a tool."""
    return call(name, id, META, **arguments)


def modern_headers(method: str = "tools/call", name: str = "") -> dict[str, str]:
    """Make the headers of a modern request."""
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    return {**headers, "mcp-name": name} if name else headers
