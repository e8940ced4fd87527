"""The life of one modern call in this process: its states, what moves it from one to the next, and how it ends.

A legacy call lives as long as its request, and needs no table. A modern call is served by several requests in turn, and
between two of them by none; its handler is one task all the while, or is run again in another process. Each copy of a
call (``parked_call.RoundCall``) has one ``CallState`` and goes through ``TRANSITIONS``, by ``find_next_state`` and in
no other way. Anything else is a bug, and ``find_next_state`` raises.

**What the states tell apart.** Three questions are asked of a call again and again:

* Does a request wait for what comes next? In ``RUNNING``, ``REPLAYING``, ``LIVE`` and ``SEALING`` at least one does. In
  ``PARKED`` none does. In ``DIVERGED`` and ``CANCELLED`` the reply is settled, and a retry waits for it.
* May the handler ask? In ``ASKING``: the ask joins the next round. In all other states nobody could answer, and the ask
  raises.
* May a round be sent? Only from ``SEALING``, which is entered from ``RUNNING`` and ``LIVE``: not before a replay has
  come to everything that was answered, and no second round while the state of the first is being made.

**A round.** The handler asks, a few passes of the event loop bring no further ask (``parked_call.Quiescence``), and the
call is ``SEALING`` (``SEAL``): its state is sealed, which takes as long as the store does where the journal is too long
to travel. Then every request that waits is answered with the round, and the call is ``PARKED`` (``ROUND``). If every
ask has ended by then, by its timeout for example, the requests go on waiting (``LAPSE``). A retry makes it ``LIVE``
again. A retry with the state of an earlier round comes from a client that lost a reply: it is answered with the round
that is out (``REPEAT``), and nothing changes.

**A replay.** A retry that finds no copy of its call here begins one from the journal in its state (``REPLAY``). Until
the handler has come to all that was answered before, it is ``REPLAYING``; then it is ``LIVE`` like any other
(``CATCH_UP``). If it asks for something else instead, it has ``DIVERGED``: its result is discarded, and the client gets
the divergence as an error when the handler ends.

**The end.** A handler ends once. Either by itself (``RETURN``): the call has ``ENDED``, and its reply is the result, or
the error it raised. Or because it was cancelled, and let that happen (``UNWIND``): then the call is ``GIVEN_UP``. It is
cancelled when its client withdraws the last request, when the time or the room for parked calls is used up, when the
server closes, or when another process has gone on with the call. In between it is ``CANCELLED``: its ``finally`` blocks
run, for as long as they take, and a second reason to cancel changes nothing, since it would cut them short. A handler
that catches its cancellation and returns has ended like any other.

After its end, only the reply of a call is kept, for a retry (``server_rounds.EndedCall``).

The diagram in docs/topics/eras-and-rounds.md is drawn from the table (``python -m tests.support.call_diagram``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class CallState(StrEnum):
    """How far a copy of a modern call has come."""

    NEW = "new"
    """Made, and not begun."""
    RUNNING = "running"
    """The handler runs for the first request; no client has a state of the call."""
    REPLAYING = "replaying"
    """The handler runs again over a journal, and has not come to all that was answered."""
    LIVE = "live"
    """The handler goes on, and at least one retry waits for what comes next."""
    SEALING = "sealing"
    """A round is due, and its state is being sealed or its journal stored."""
    PARKED = "parked"
    """The handler waits for answers, and no request is live."""
    DIVERGED = "diverged"
    """Run again, the handler has asked for something else than before; it runs to its end, which is an error."""
    CANCELLED = "cancelled"
    """The handler was cancelled, and cleans up."""
    ENDED = "ended"
    """The handler returned or raised."""
    GIVEN_UP = "given up"
    """The handler was cancelled, and has ended by it."""


class CallEvent(StrEnum):
    """What moves a call, and who says so."""

    START = "start"
    """The first request has come (``Rounds.serve``)."""
    REPLAY = "replay"
    """A retry has come, and the call it names is not here (``Rounds``)."""
    CATCH_UP = "catch up"
    """The handler has come to everything in its journal (``JournalledCall``)."""
    SEAL = "seal"
    """No further ask is coming: a round is due (``Quiescence``)."""
    ROUND = "round"
    """The round goes out to every request that waits."""
    LAPSE = "lapse"
    """The journal is stored, and nothing is asked any more."""
    RETRY = "retry"
    """A retry joins the requests that wait for what comes next (``Rounds``)."""
    REPEAT = "repeat"
    """A retry with an older state is answered with the round that is out (``Rounds``)."""
    DIVERGE = "diverge"
    """The handler asks for something else than its journal says (``Journal``, or the time it has to catch up)."""
    CANCEL = "cancel"
    """Nobody waits for the call any more, or it must not go on here (``RoundCall.end``)."""
    RETURN = "return"
    """The handler has returned or raised."""
    UNWIND = "unwind"
    """The handler has ended by a ``CancelledError``."""


_ENDING = {CallEvent.RETURN: CallState.ENDED, CallEvent.UNWIND: CallState.GIVEN_UP}
"""A handler may end at any time, also while a round is out whose answers it no longer awaits."""

_STOPPING = {**_ENDING, CallEvent.CANCEL: CallState.CANCELLED}

_DIVERGING = {**_STOPPING, CallEvent.DIVERGE: CallState.DIVERGED}
"""Only a copy that has a journal from elsewhere can diverge: every state that a replay leads to."""

TRANSITIONS: Mapping[CallState, Mapping[CallEvent, CallState]] = {
    CallState.NEW: {CallEvent.START: CallState.RUNNING, CallEvent.REPLAY: CallState.REPLAYING},
    CallState.RUNNING: {CallEvent.SEAL: CallState.SEALING, **_STOPPING},
    CallState.REPLAYING: {CallEvent.CATCH_UP: CallState.LIVE, CallEvent.RETRY: CallState.REPLAYING, **_DIVERGING},
    CallState.LIVE: {CallEvent.SEAL: CallState.SEALING, CallEvent.RETRY: CallState.LIVE, **_DIVERGING},
    CallState.SEALING: {
        CallEvent.ROUND: CallState.PARKED,
        CallEvent.LAPSE: CallState.LIVE,
        CallEvent.RETRY: CallState.SEALING,
        **_DIVERGING,
    },
    CallState.PARKED: {CallEvent.RETRY: CallState.LIVE, CallEvent.REPEAT: CallState.PARKED, **_DIVERGING},
    CallState.DIVERGED: {CallEvent.RETRY: CallState.DIVERGED, **_STOPPING},
    CallState.CANCELLED: {CallEvent.RETRY: CallState.CANCELLED, **_STOPPING},
    CallState.ENDED: {},
    CallState.GIVEN_UP: {},
}
"""By state, the state that each event leads to."""

ENDS = frozenset(state for state, events in TRANSITIONS.items() if not events)
"""The states that nothing leads out of."""

ASKING = frozenset({CallState.RUNNING, CallState.REPLAYING, CallState.LIVE, CallState.SEALING, CallState.PARKED})
"""The states in which a handler may ask."""


def find_next_state(state: CallState, event: CallEvent) -> CallState:
    """Return the state that follows; ``RuntimeError``, a bug of ours, if the event cannot happen in this state."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise RuntimeError(f"A modern call that is {state}: there is no {event!r} from here") from None
