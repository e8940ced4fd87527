"""Mutated frames into the two sessions, without I/O: every frame becomes one event, none becomes an exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from msgspec import Raw

from antiphon.errors import InternalError
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Answered, Batch, Event, Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.protocol.session import PeerSession
from antiphon.wire.common import (
    ClientCapabilities,
    ElicitationCapability,
    Implementation,
    RootsCapability,
    SamplingCapability,
)
from antiphon.wire.lifecycle import InitializeResult, ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import REVISIONS, Revision
from tests.fuzz.corpus import frames_of
from tests.fuzz.mutation import Mutator, encoded
from tests.fuzz.oracle import Ledger, messages

RUNS = [pytest.param(3_000, id="short"), pytest.param(100_000, id="long", marks=pytest.mark.slow)]
EPISODE = 500
"""Frames until the session is replaced, so that the handshake is fuzzed as well."""
LEGACY = tuple(revision for revision in REVISIONS if not revision.modern)
INFO = Implementation(name="fuzzed", version="1")
ANSWERS = ClientCapabilities(
    roots=RootsCapability(), sampling=SamplingCapability(tools={}), elicitation=ElicitationCapability(form={}, url={})
)
SERVES = ServerCapabilities(
    tools=ListChangedCapability(),
    prompts=ListChangedCapability(),
    resources=ResourcesCapability(subscribe=True),
    logging={},
    completions={},
)


def flat(event: Event) -> Iterator[Event]:
    """Go through an event, or the events of a batch."""
    yield from event.events if isinstance(event, Batch) else [event]


class Served:
    """Answers what a session accepts, some at once, some later, and counts the replies."""

    def __init__(self, session: PeerSession, seed: int) -> None:
        self._session = session
        self._chance = random.Random(seed)
        self._open: list[Request] = []
        self.ledger = Ledger()

    def take(self, frame: bytes) -> None:
        """Feed one frame and act on what it means."""
        self.ledger.sent(frame)
        for event in flat(self._session.receive(frame)):
            if isinstance(event, Request):
                self._open.append(event)
            elif isinstance(event, Answered):
                self._came(event.reply)
        while self._open and self._chance.random() < 0.6:
            self._answer(self._open.pop(self._chance.randrange(len(self._open))))

    def finish(self) -> None:
        """Answer what is still open."""
        while self._open:
            self._answer(self._open.pop())

    def _answer(self, request: Request) -> None:
        if self._chance.random() < 0.5:
            self._came(self._session.reply(request, Raw(b"{}")))
        else:
            self._came(self._session.reply_error(request, InternalError("no")))

    def _came(self, reply: bytes | None) -> None:
        for message in messages(reply or b"null"):
            self.ledger.came(message)


def opened_client(revision: Revision) -> ClientSession:
    """Make a client session after a legacy handshake, with a request in flight."""
    session = ClientSession(INFO, ANSWERS)
    opening = session.initialize(revision)
    session.receive(encoded({"jsonrpc": "2.0", "id": opening.id, "result": {}}))
    result = InitializeResult(protocol_version=revision.name, capabilities=SERVES, server_info=INFO)
    session.handle_initialized(result, LEGACY)
    session.request(METHODS["ping"], METHODS["ping"].params())
    return session


@pytest.mark.parametrize("count", RUNS)
def test_a_server_session_answers_every_request_once(count: int, seed: int):
    """Whatever a client sends, the session does not raise, and each good request gets its one reply."""
    mutator = Mutator(frames_of("client"), seed)
    for episode in range(count // EPISODE):
        served = Served(ServerSession(ServerOffer(INFO, SERVES)), seed=episode)
        for frame in mutator.frames(EPISODE):
            served.take(frame)
        served.finish()
        assert served.ledger.missing() == []


@pytest.mark.parametrize("count", RUNS)
def test_a_client_session_answers_every_request_once(count: int, seed: int):
    """Whatever a server sends, the session does not raise, and each good request gets its one reply."""
    mutator = Mutator([*frames_of("server"), *frames_of("client")], seed)
    for episode in range(count // EPISODE):
        session = opened_client(LEGACY[episode % len(LEGACY)])
        served = Served(session, seed=episode)
        for frame in mutator.frames(EPISODE):
            served.take(frame)
        served.finish()
        assert served.ledger.missing() == []
        assert len(session.outgoing) <= 1


def test_a_modern_client_session_writes_no_reply():
    """At the newest revision nothing a server sends makes the client session answer."""
    session = ClientSession(INFO, ANSWERS)
    session.revision = REVISIONS[0] if REVISIONS[0].modern else REVISIONS[-1]
    for frame in Mutator(frames_of("server"), 1).frames(1_000):
        events = list(flat(session.receive(frame)))
        replies = [event for event in events if isinstance(event, Answered) and "result" in json.loads(event.reply)]
        assert replies == []
        assert not any(isinstance(event, Request) for event in events)
