"""Two sessions back to back: what one writes the other reads, without a channel, a loop or a task between them.

Every frame that passes is checked against the schema of its revision, and after every step the tables of both sides
must agree. Who may send what is the sessions' business; this module only carries, checks and remembers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Answered, Batch, Cancelled, Event, Notified, Outgoing, Replied, Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.protocol.session import PeerSession, Phase
from antiphon.wire.common import (
    ClientCapabilities,
    ElicitationCapability,
    Implementation,
    RootsCapability,
    SamplingCapability,
    Wire,
)
from antiphon.wire.envelope import decode_wire
from antiphon.wire.lifecycle import (
    DiscoverResult,
    InitializeResult,
    ListChangedCapability,
    ResourcesCapability,
    ServerCapabilities,
)
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LEGACY, REVISIONS, Revision
from tests.support import mcp_schema

__all__ = [
    "CLIENT",
    "EVERYTHING",
    "OFFERS_ALL",
    "SERVER",
    "Pair",
    "cancelled",
    "decoded",
    "error_of",
    "flat",
    "frame",
    "result_of",
]

CLIENT = Implementation(name="pair-client", version="1")
SERVER = Implementation(name="pair-server", version="2")
OFFERS_ALL = ClientCapabilities(
    roots=RootsCapability(list_changed=True),
    sampling=SamplingCapability(tools={}),
    elicitation=ElicitationCapability(form={}, url={}),
)
EVERYTHING = ServerCapabilities(
    tools=ListChangedCapability(list_changed=True),
    prompts=ListChangedCapability(list_changed=True),
    resources=ResourcesCapability(list_changed=True, subscribe=True),
    completions={},
    logging={},
)
ERRORS = ("JSONRPCErrorResponse", "JSONRPCError")


def frame(**members: Any) -> bytes:
    """Write a JSON-RPC message by hand."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def decoded(data: bytes | None) -> Any:
    """Read a frame that must be there."""
    assert data is not None, "nothing was sent"
    return json.loads(data)


def flat(event: Event) -> Iterator[Event]:
    """Go through an event, or the events of a batch."""
    yield from event.events if isinstance(event, Batch) else [event]


def result_of(event: Event) -> Raw:
    """Return the result a reply brought."""
    assert isinstance(event, Replied), event
    assert event.result is not None, event.error
    return event.result


def error_of(event: Event) -> dict[str, Any]:
    """Return the error of a reply that a session gave by itself."""
    assert isinstance(event, Answered), event
    return json.loads(event.reply)["error"]


def schema_problems(revision: Revision, message: dict[str, Any], answers: str | None) -> list[str]:
    """List what the schema of a revision has against a message; ``answers`` is the method a result belongs to."""
    name = revision.name
    if "method" in message:
        kind = mcp_schema.messages(name)[message["method"]]
        # Before 2026-07-28 the definition of a message does not repeat the members every JSON-RPC message has.
        envelope = {"jsonrpc", "id"} - set(mcp_schema.definitions(name)[kind]["properties"])
        return mcp_schema.problems(name, kind, {key: message[key] for key in message if key not in envelope})
    if "error" in message:
        kind = next(kind for kind in ERRORS if kind in mcp_schema.definitions(name))
        return mcp_schema.problems(name, kind, message)
    result = METHODS[answers].result if answers is not None else None
    if result is None or message["result"].get("resultType") == "input_required":
        return []
    return mcp_schema.problems(name, result.__name__, message["result"])


class Pair:
    """A client and a server that hear each other at once."""

    def __init__(
        self,
        revision: Revision,
        *,
        offers: ClientCapabilities = OFFERS_ALL,
        serves: ServerCapabilities = EVERYTHING,
        speaks: tuple[Revision, ...] = REVISIONS,
    ) -> None:
        self.revision = revision
        self.client = ClientSession(CLIENT, offers)
        self.server = ServerSession(ServerOffer(SERVER, serves, "be kind", speaks))
        self.frames: list[tuple[str, Any]] = []
        """What has passed: who sent it, and the message."""

    @classmethod
    def opened(cls, revision: Revision, **options: Any) -> Pair:
        """Make a pair whose handshake, or probe, is complete."""
        pair = cls(revision, **options)
        pair.open()
        return pair

    def open(self) -> None:
        """Complete the handshake, or the probe."""
        if self.revision.modern:
            reply = self.to_client(self.answered(self.client.probe(self.revision)))
            self.client.handle_discovery(decode_wire(result_of(reply), DiscoverResult), (LATEST,))
        else:
            reply = self.to_client(self.answered(self.client.initialize(self.revision)))
            self.expect(client=Phase.NEW, server=Phase.ANSWERED)
            done = self.client.handle_initialized(decode_wire(result_of(reply), InitializeResult), LEGACY)
            assert isinstance(self.to_server(done), Notified)
            self.expect(client=Phase.READY, server=Phase.READY)

    def expect(self, *, client: Phase, server: Phase) -> None:
        """Assert how far both sides have come."""
        assert (self.client.phase, self.server.phase) == (client, server)

    # --- carrying -----------------------------------------------------------------------------------------------

    def to_server(self, data: bytes) -> Event:
        """Carry a frame of the client's over, and return what the server makes of it."""
        return self._carry("client", data, self.server)

    def to_client(self, data: bytes) -> Event:
        """Carry a frame of the server's over, and return what the client makes of it."""
        return self._carry("server", data, self.client)

    def _carry(self, sender: str, data: bytes, receiver: PeerSession) -> Event:
        message = decoded(data)
        self.frames.append((sender, message))
        answers = receiver.outgoing.get(message.get("id")) if "result" in message else None
        assert schema_problems(self.revision, message, answers.method.name if answers else None) == [], message
        event = receiver.receive(data)
        self.check()
        return event

    def answered(self, outgoing: Outgoing) -> bytes:
        """Carry a request over that the other side answers by itself, and return the answer."""
        assert outgoing.method.direction != "server", "the client answers nothing but pings by itself"
        event = self.to_server(outgoing.data)
        assert isinstance(event, Answered), event
        return event.reply

    # --- a call and its asks ------------------------------------------------------------------------------------

    def call(self, method: str = "tools/call", params: Wire | None = None, **options: Any) -> tuple[Outgoing, Request]:
        """Let the client make a request that the server accepts; return it as both sides see it."""
        spec = METHODS[method]
        values = params if params is not None else spec.params(**({"name": "t"} if method == "tools/call" else {}))
        outgoing = self.client.request(spec, values, **options)
        request = self.to_server(outgoing.data)
        assert isinstance(request, Request), request
        return outgoing, request

    def ask(self, request: Request | None, method: str, params: Wire, **options: Any) -> tuple[Outgoing, Request]:
        """Let the server ask, within a request, what the client accepts; return the ask as both sides see it."""
        outgoing = self.server.ask(METHODS[method], params, request, **options)
        arrived = self.to_client(outgoing.data)
        assert isinstance(arrived, Request), arrived
        return outgoing, arrived

    def reply(self, request: Request, result: Wire | BaseException) -> Replied:
        """Let the side that was asked answer; return what the other side makes of it."""
        answers = self.client if self.client.incoming.get(request.id) is request else self.server
        is_error = isinstance(result, BaseException)
        data = answers.reply_error(request, result) if is_error else answers.reply(request, result)
        assert data is not None, "the request has ended"
        event = self.to_client(data) if answers is self.server else self.to_server(data)
        assert isinstance(event, Replied), event
        return event

    def cancel(self, sender: PeerSession, outgoing: Outgoing, reason: str | None = None) -> Event:
        """Let one side withdraw a request of its own; return what the other side makes of it."""
        data = sender.cancel(outgoing.id, reason)
        assert data is not None, "nothing to cancel"
        return self.to_server(data) if sender is self.client else self.to_client(data)

    # --- agreement ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert that the tables of both sides agree."""
        for asker, answerer in ((self.client, self.server), (self.server, self.client)):
            for id, request in answerer.incoming.items():
                assert request.id == id
                assert not request.cancelled
            for id, outgoing in asker.outgoing.items():
                assert outgoing.id == id
                if outgoing.parent is not None:
                    assert id in (outgoing.parent.children or ())
        for request in self.server.incoming.values():
            assert (request.children or set()) <= set(self.server.outgoing)

    def check_empty(self) -> None:
        """Assert that nothing is left of anything."""
        for session in (self.client, self.server):
            assert session.incoming == {}
            assert session.outgoing == {}


def cancelled(event: Event) -> Request:
    """Return the request that an event withdraws."""
    assert isinstance(event, Cancelled), event
    return event.request
