"""Simulates replicas that share an engine, event by event: calls wait for processors, and are passed on.

A replica is one processor with a queue; Redis is one, PostgreSQL has several. A call of a session at home takes one
turn at its replica. Elsewhere it is looked up, sent to the home through the engine, served there, and its reply comes
back the same way. What each turn takes is drawn around the measured mean (exponentially, which is more scattered than
a real processor), so that queues are not underestimated. The same seed gives the same run.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

__all__ = ["Costs", "Outcome", "Plan", "simulate"]

LEASE = 2.0
"""Seconds after which a replica that is silent counts as dead."""
BEATS = 4
"""Signs of life within a lease."""
LOOKS = 4
"""How often a replica asks after others within a lease."""
SILENCE = 7.5
"""Seconds between two questions of one replica to another after silent streams."""

Then = Callable[[], None]


class Costs(NamedTuple):
    """Milliseconds of processor time, and bytes, as ``benchmarks.growth.costs`` measures them."""

    home: float
    """A call where its session lives."""
    arrival: float
    """A call that is passed on, where it arrives, without what its home does."""
    away: float
    """The same at its home, for a replica that passed it on."""
    lookup: float
    """The engine: finding the home of a session, and asking whether it lives."""
    message: float
    """The engine: one message to one replica, written, read and deleted."""
    operation: float
    """The engine: any small operation, such as a sign of life."""
    store: float
    """The engine: writing one record of a session."""
    restore: float
    """A session that goes on at another replica, there; the engine looks it up and stores it."""
    open: float
    """A session that is opened, at its replica; the engine stores it twice."""
    relay_bytes: float
    """What a call that is passed on sends to the engine and gets from it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is simulated."""

    replicas: int
    calls: float
    """A second; or how many callers there are of which each makes its next call at once (``closed``)."""
    seconds: float
    closed: bool = False
    affinity: float = 0.0
    """Share of the calls that the load balancer sends home on purpose; the others go to any replica."""
    sessions: int = 1_000_000
    engines: int = 1
    """Processors of the engine."""
    one_processor: bool = False
    """Whether all share one processor, as in the run that this is compared with."""
    deaths: tuple[tuple[float, int], ...] = ()
    """When which replica dies."""
    renewals: int = 0
    """Records that each replica stores again from the first second on, one after another."""
    streams: bool = False
    """Whether each replica has open streams of sessions that live at all others, on which nothing happens."""
    openings: int = 0
    """Sessions that clients open at once in the first second, beside the calls."""


class Station:
    """Processors with one queue."""

    def __init__(self, run: Run, processors: int = 1) -> None:
        self._run = run
        self._free = processors
        self._waiting: deque[tuple[float, Then]] = deque()
        self.processors = processors
        self.busy = 0.0
        """Seconds of processor time that were given."""
        self.longest = 0
        self.is_dead = False

    def work(self, mean: float, then: Then) -> None:
        """Take so many milliseconds on average, in turn, and go on; a dead station does nothing any more."""
        if self.is_dead:
            return
        seconds = self._run.random.expovariate(1000 / mean) if mean else 0.0
        if self._free:
            self._begin(seconds, then)
        else:
            self._waiting.append((seconds, then))
            self.longest = max(self.longest, len(self._waiting))

    def _begin(self, seconds: float, then: Then) -> None:
        self._free -= 1
        # What goes on after the end of the simulation is not part of it.
        self.busy += min(seconds, max(0.0, self._run.plan.seconds - self._run.now))

        def end() -> None:
            self._free += 1
            if self.is_dead:
                return
            if self._waiting:
                self._begin(*self._waiting.popleft())
            then()

        self._run.at(self._run.now + seconds, end)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out."""

    begun: int
    answered: int
    failed: int
    """Calls that ended with an error, because a replica died."""
    open: int
    """Calls that had not ended when the simulation did."""
    rate: float
    """Calls answered a second."""
    median: float
    """Milliseconds."""
    p99: float
    replica: float
    """Utilisation of the replicas, from 0 to 1."""
    engine: float
    watched: float
    """Share of the engine's processor time that goes into asking whether replicas live, of those that wait for them."""
    asked: int
    """How often a replica has asked the engine whether another lives, beside looking up calls."""
    restored: int
    longest: int
    """Most that waited in one replica at once."""
    relayed: int
    spent: float
    """Seconds of processor time at the replicas."""


class Call:
    """One call: where it arrived, where it is served, and whether it has ended."""

    __slots__ = ("at", "began", "home", "is_over", "session")

    def __init__(self, session: int, at: int, began: float) -> None:
        self.session, self.at, self.began = session, at, began
        self.home: int | None = None
        self.is_over = False


@dataclass
class Run:
    """A simulation under way."""

    plan: Plan
    costs: Costs
    seed: int
    now: float = 0.0
    times: list[float] = field(default_factory=list)
    begun: int = 0
    failed: int = 0
    relayed: int = 0
    restored: int = 0
    asked: int = 0
    watching: float = 0.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._events: list[tuple[float, int, Then]] = []
        self._numbers = count()
        shared = Station(self) if self.plan.one_processor else None
        self.replicas = [shared or Station(self) for _ in range(self.plan.replicas)]
        self.engine = shared or Station(self, self.plan.engines)
        self._moved: dict[int, int] = {}
        self._moving: dict[int, list[Call]] = {}
        self._alive = list(range(self.plan.replicas))
        self._lapsed: dict[int, float] = {}
        """When others notice that a replica is dead."""
        self._spoken: dict[tuple[int, int], float] = {}
        """When a replica has heard of another last."""
        self._open: list[set[Call]] = [set() for _ in range(self.plan.replicas)]
        """The calls that each replica has received."""

    # --- time ---------------------------------------------------------------------------------------------------

    def at(self, when: float, event: Then) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def run(self) -> Outcome:
        """Let the time pass."""
        plan = self.plan
        for each in range(plan.replicas):
            self.at(self.random.random() * LEASE / BEATS, lambda each=each: self._beat(each))
            self.at(self.random.random() * LEASE / LOOKS, lambda each=each: self._look_after(each))
            if plan.renewals:
                self.at(1.0, lambda each=each: self._renew(each, plan.renewals))
        for when, which in plan.deaths:
            self.at(when, lambda which=which: self._die(which))
        for _ in range(plan.openings):
            self.at(self.random.random(), self._open_session)
        if plan.closed:
            for _ in range(int(plan.calls)):
                self.at(0.0, self._call)
        elif plan.calls:
            self.at(0.0, self._arrivals)
        while self._events and self._events[0][0] <= plan.seconds:
            self.now, _, event = heapq.heappop(self._events)
            event()
        return self._outcome()

    def _outcome(self) -> Outcome:
        plan = self.plan
        times = sorted(self.times)
        stations = list({id(each): each for each in self.replicas}.values())
        spent = sum(each.busy for each in stations)
        return Outcome(
            begun=self.begun,
            answered=len(times),
            failed=self.failed,
            open=sum(map(len, self._open)),
            rate=len(times) / plan.seconds,
            median=1000 * times[len(times) // 2] if times else 0.0,
            p99=1000 * times[len(times) * 99 // 100] if times else 0.0,
            replica=spent / plan.seconds / len(stations),
            engine=self.engine.busy / plan.seconds / self.engine.processors,
            watched=self.watching / max(self.engine.busy, 1e-9),
            asked=self.asked,
            restored=self.restored,
            longest=max(each.longest for each in self.replicas),
            relayed=self.relayed,
            spent=spent,
        )

    # --- calls --------------------------------------------------------------------------------------------------

    def _arrivals(self) -> None:
        self._call()
        self.at(self.now + self.random.expovariate(self.plan.calls), self._arrivals)

    def _call(self) -> None:
        session = self.random.randrange(self.plan.sessions)
        home = self._home(session)
        at = self.random.choice(self._alive)
        if home in self._alive and self.random.random() < self.plan.affinity:
            at = home
        call = Call(session, at, self.now)
        self.begun += 1
        self._open[at].add(call)
        self._route(call)

    def _home(self, session: int) -> int:
        return self._moved.get(session, session % self.plan.replicas)

    def _route(self, call: Call) -> None:
        """Serve a call where it arrived, or find its home."""
        costs, home = self.costs, self._home(call.session)
        if home == call.at:
            self._work(call, call.at, costs.home, lambda: self._answer(call))
            return
        self.relayed += 1
        part = costs.arrival / 3
        self._work(
            call, call.at, part, lambda: self._ask_engine(call, costs.lookup, lambda: self._looked_up(call, part))
        )

    def _looked_up(self, call: Call, part: float) -> None:
        """Pass a call on, or take its session over from a replica that is known to be dead."""
        home = self._home(call.session)
        if home == call.at:
            self._work(call, call.at, self.costs.home, lambda: self._answer(call))
        elif home not in self._alive and self.now >= self._lapsed[home]:
            self._restore(call)
        else:
            call.home = home
            message = self.costs.message
            self._work(call, call.at, part, lambda: self._ask_engine(call, message, lambda: self._serve(call, part)))

    def _serve(self, call: Call, part: float) -> None:
        assert call.home is not None
        home, message = call.home, self.costs.message

        def reply() -> None:
            self._ask_engine(call, message, arrived)

        def arrived() -> None:
            self._spoken[call.at, home] = self.now
            self._work(call, call.at, part, lambda: self._answer(call))

        self._work(call, home, self.costs.away, reply)

    def _restore(self, call: Call) -> None:
        """Become the home of a session; whoever wants it meanwhile waits."""
        waiting = self._moving.get(call.session)
        if waiting is not None:
            waiting.append(call)
            return
        self._moving[call.session] = [call]
        costs = self.costs

        def restored() -> None:
            self._moved[call.session] = call.at
            self.restored += 1
            for each in self._moving.pop(call.session):
                if not each.is_over:
                    self._route(each)

        self._work(call, call.at, costs.restore, lambda: self._ask_engine(call, costs.store, restored))

    def _work(self, call: Call, at: int, mean: float, then: Then) -> None:
        """Have a replica work for a call, unless that has ended meanwhile."""
        self.replicas[at].work(mean, lambda: None if call.is_over else then())

    def _ask_engine(self, call: Call, mean: float, then: Then) -> None:
        self.engine.work(mean, lambda: None if call.is_over else then())

    def _answer(self, call: Call) -> None:
        self._end(call)
        self.times.append(self.now - call.began)
        if self.plan.closed:
            self._call()

    def _end(self, call: Call) -> None:
        call.is_over = True
        self._open[call.at].discard(call)

    def _open_session(self) -> None:
        """Greet a client: two requests, each of which is stored."""
        station, costs = self.replicas[self.random.choice(self._alive)], self.costs
        half = costs.open / 2
        station.work(half, lambda: self.engine.work(costs.store, lambda: station.work(half, stored)))

        def stored() -> None:
            self.engine.work(costs.store, lambda: None)

    # --- what goes on beside calls ------------------------------------------------------------------------------

    def _beat(self, which: int) -> None:
        if which in self._alive:
            self.engine.work(self.costs.operation, lambda: None)
            self.at(self.now + LEASE / BEATS, lambda: self._beat(which))

    def _look_after(self, which: int) -> None:
        """Ask after each replica that serves something for this one, and has said nothing lately."""
        if which not in self._alive:
            return
        homes = {call.home for call in self._open[which] if call.home is not None}
        if self.plan.streams:
            homes = set(range(self.plan.replicas)) - {which}
        for home in homes:
            if self.now - self._spoken.get((which, home), -LEASE) < LEASE / 2:
                continue
            self.watching += self.costs.operation / 1000
            self.asked += 1
            self.engine.work(self.costs.operation, lambda: None)
            if self.plan.streams and self.random.random() < LEASE / LOOKS / SILENCE:
                # The question after all streams of this home, and its answer.
                for _ in range(2):
                    self.engine.work(self.costs.message, lambda: None)
        self.at(self.now + LEASE / LOOKS, lambda: self._look_after(which))

    def _renew(self, which: int, left: int) -> None:
        if left and which in self._alive:
            self.engine.work(self.costs.store, lambda: self._renew(which, left - 1))

    def _die(self, which: int) -> None:
        """Let a replica vanish: clients connected to it know at once, those at others within the lease."""
        self._alive.remove(which)
        self.replicas[which].is_dead = True
        self._lapsed[which] = self.now + LEASE
        for call in list(self._open[which]):
            self._lose(call)
        self.at(self.now + LEASE, lambda: self._notice(which))

    def _notice(self, which: int) -> None:
        for calls in self._open:
            for call in [each for each in calls if each.home == which]:
                self._lose(call)

    def _lose(self, call: Call) -> None:
        self._end(call)
        self.failed += 1
        moving = self._moving.get(call.session, [])
        if moving and moving[0] is call:
            # Another one has to begin anew what this one had begun.
            del self._moving[call.session]
            for each in moving[1:]:
                self._restore(each)
        elif call in moving:
            moving.remove(call)
        if self.plan.closed:
            self._call()


def simulate(plan: Plan, costs: Costs, seed: int = 0) -> Outcome:
    """Run a simulation to its end."""
    return Run(plan, costs, seed).run()
