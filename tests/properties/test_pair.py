"""Random interleavings on two sessions whose frames take their time: races, and what must hold in all of them."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from antiphon.errors import InvalidParams, LocalProtocolError
from antiphon.protocol.events import Answered, Cancelled, Notified, Outgoing, Replied, Request
from antiphon.protocol.session import PeerSession
from antiphon.wire.common import RequestParams
from antiphon.wire.content import TextContent
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import REVISIONS
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from tests.support.pair import Pair, flat

SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
ANSWER = CreateMessageResult(role="assistant", content=TextContent(text="yes"), model="m")
NOISE = [
    b"nonsense",
    b"{}",
    b"[]",
    b'{"jsonrpc":"2.0","id":"x","method":"no/such"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}',
    b'{"jsonrpc":"2.0","id":"x","result":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}',
]


class Interleavings(RuleBasedStateMachine):
    """A client and a server that talk past each other."""

    calls = Bundle("calls")
    asks = Bundle("asks")
    served = Bundle("served")
    asked = Bundle("asked")

    @initialize(revision=st.sampled_from(REVISIONS))
    def open(self, revision: Any) -> None:
        """Begin with an open session."""
        pair = Pair.opened(revision)
        self.client, self.server, self.modern = pair.client, pair.server, revision.modern
        self.wire: dict[PeerSession, deque[bytes]] = {self.client: deque(), self.server: deque()}
        self.replies: Counter[tuple[str, Any]] = Counter()
        self.ends: Counter[Outgoing] = Counter()
        self.sent: list[Outgoing] = []
        self.withdrawn: set[Outgoing] = set()
        self.accepted: dict[Outgoing, Request] = {}
        self.progress: dict[Any, float] = {}

    # --- what both sides do -----------------------------------------------------------------------------------------

    def send(self, sender: PeerSession, data: bytes | None) -> None:
        """Put a frame on its way."""
        if data is None:
            return
        message = json.loads(data)
        if "method" not in message and message.get("id") is not None:
            self.replies["server" if sender is self.server else "client", message["id"]] += 1
        self.wire[sender].append(data)

    @rule(target=calls, wants=st.booleans())
    def call(self, wants: bool) -> Outgoing:
        """Let the client make a request."""
        params = CallToolRequestParams(name="t")
        outgoing = self.client.request(METHODS["tools/call"], params, wants_progress=wants)
        self.sent.append(outgoing)
        self.send(self.client, outgoing.data)
        return outgoing

    @rule(target=asks, request=served, wants=st.booleans())
    def ask(self, request: Request, wants: bool) -> Any:
        """Let the server ask, if it still may."""
        is_open = self.server.incoming.get(request.id) is request
        try:
            outgoing = self.server.ask(METHODS["sampling/createMessage"], SAMPLE, request, wants_progress=wants)
        except LocalProtocolError:
            assert self.modern or not is_open
            return multiple()
        assert is_open
        self.sent.append(outgoing)
        self.send(self.server, outgoing.data)
        return outgoing

    @rule(request=consumes(served), fails=st.booleans())
    def reply(self, request: Request, fails: bool) -> None:
        """Let the server's handler end; its asks end with it."""
        data = (
            self.server.reply_error(request, InvalidParams("no"))
            if fails
            else self.server.reply(request, CallToolResult(content=[]))
        )
        for id in list(request.children or ()):
            self.withdraw(self.server, id)
        self.send(self.server, data)

    @rule(request=consumes(asked), fails=st.booleans())
    def answer(self, request: Request, fails: bool) -> None:
        """Let the client's answerer end."""
        error = InvalidParams("no")
        data = self.client.reply_error(request, error) if fails else self.client.reply(request, ANSWER)
        self.send(self.client, data)

    @rule(outgoing=calls)
    def give_up_call(self, outgoing: Outgoing) -> None:
        """Let the client withdraw a call, whatever has become of it."""
        self.withdraw(self.client, outgoing.id)

    @rule(outgoing=asks)
    def give_up_ask(self, outgoing: Outgoing) -> None:
        """Let the server withdraw an ask, whatever has become of it."""
        self.withdraw(self.server, outgoing.id)

    def withdraw(self, sender: PeerSession, id: Any) -> None:
        """Cancel a request that is open, and count it as ended."""
        outgoing = sender.outgoing.get(id)
        data = sender.cancel(id, "test")
        assert (data is None) is (outgoing is None)
        if outgoing is not None:
            self.withdrawn.add(outgoing)
            self.ends[outgoing] += 1
        self.send(sender, data)

    @rule(request=served, value=st.integers(0, 5))
    def tell(self, request: Request, value: int) -> None:
        """Let the server's handler report progress."""
        self.send(self.server, self.server.progress(request, value, 5, None))

    @rule(request=asked, value=st.integers(0, 5))
    def tell_back(self, request: Request, value: int) -> None:
        """Let the client's answerer report progress."""
        self.send(self.client, self.client.progress(request, value, 5, None))

    @rule(sender=st.sampled_from(["client", "server"]), data=st.sampled_from(NOISE))
    def noise(self, sender: str, data: bytes) -> None:
        """Put something else on its way."""
        self.wire[getattr(self, sender)].append(data)

    @rule()
    def ping(self) -> None:
        """Let the server ask for a sign of life, where it may."""
        if not self.modern:
            outgoing = self.server.ask(METHODS["ping"], RequestParams(), None)
            self.sent.append(outgoing)
            self.send(self.server, outgoing.data)

    # --- what arrives -----------------------------------------------------------------------------------------------

    @rule(target=served)
    def to_server(self) -> Any:
        """Let the server read one frame."""
        return self.deliver(self.client, self.server)

    @rule(target=asked)
    def to_client(self) -> Any:
        """Let the client read one frame."""
        return self.deliver(self.server, self.client)

    def deliver(self, sender: PeerSession, receiver: PeerSession) -> Any:
        """Carry one frame, and do what an engine would; returns the requests that were accepted."""
        if not self.wire[sender]:
            return multiple()
        requests = []
        for event in flat(receiver.receive(self.wire[sender].popleft())):
            if isinstance(event, Request):
                self.accepted[sender.outgoing.get(event.id) or self.find(sender, event.id)] = event
                requests.append(event)
            elif isinstance(event, Replied):
                self.ends[event.outgoing] += 1
            elif isinstance(event, Answered):
                self.send(receiver, event.reply)
            elif isinstance(event, Cancelled):
                for id in list(event.request.children or ()):
                    self.withdraw(receiver, id)
            elif isinstance(event, Notified) and event.method.name == "notifications/progress":
                token = (receiver.side, event.params.progress_token)
                assert event.params.progress > self.progress.get(token, -1)
                self.progress[token] = event.params.progress
        return multiple(*requests)

    def find(self, sender: PeerSession, id: Any) -> Outgoing:
        """Find a request that was withdrawn while it was on its way."""
        side = METHODS["tools/call"] if sender is self.client else METHODS["sampling/createMessage"]
        return next(each for each in self.sent if each.id == id and each.method is side)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        """On the wire, and to whoever waits."""
        if not hasattr(self, "ends"):
            return
        assert all(count <= 1 for (_, id), count in self.replies.items() if id != "x")
        assert all(count <= 1 for count in self.ends.values())

    @invariant()
    def asks_belong_to_open_calls(self) -> None:
        """Each knows its call, and its call knows it."""
        if not hasattr(self, "ends"):
            return
        for outgoing in self.server.outgoing.values():
            if outgoing.parent is not None:
                assert outgoing.id in (outgoing.parent.children or ())
                assert self.server.incoming.get(outgoing.parent.id) is outgoing.parent

    def teardown(self) -> None:
        """Deliver what is on its way and let every handler end: each request ends once, and all tables are empty."""
        if not hasattr(self, "ends"):
            return
        while self.wire[self.client] or self.wire[self.server] or self.server.incoming or self.client.incoming:
            self.deliver(self.client, self.server)
            self.deliver(self.server, self.client)
            for request in list(self.client.incoming.values()):
                self.answer(request, fails=False)
            for request in list(self.server.incoming.values()):
                self.reply(request, fails=False)
        assert self.client.outgoing == self.server.outgoing == {}
        assert all(self.ends[outgoing] == 1 for outgoing in self.sent)
        for outgoing, request in self.accepted.items():
            assert request.cancelled <= (outgoing in self.withdrawn)
            assert not request.children


def test_every_interleaving_ends_with_one_end_for_each_request():
    """Whatever crosses whatever on its way."""
    run_state_machine_as_test(Interleavings, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))
