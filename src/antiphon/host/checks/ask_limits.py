"""Limits on frequency, concurrency and size for each server and each call, and the types of options that set them.

Counts in the memory of this process, by an injected clock. ``budget`` limits spending, ``validate`` the size of any
request. The options of a program are checked as strictly as those of a file: a misspelt default would allow what it
should deny, and a rule with a misspelt kind would never match.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from operator import gt
from typing import Annotated, Any, get_args

import msgspec

from antiphon.errors import ConfigError
from antiphon.wire.origin import Origin

_MAX_KNOWN = 10_000
"""Most servers and calls whose counts are kept; the one unused for longest is dropped."""
_MINUTE = 60.0
_COUNTED = ("max_tokens", "rounds", "per_minute", "concurrent", "per_call", "concurrent_per_call")
"""The limits that an ask must be within to be admitted."""


_Count = Annotated[int, msgspec.Meta(ge=0)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits; ``None`` means no limit."""

    per_minute: _Count | None = 300
    """Asks of one server in any 60 seconds. A person answers ten; a batch job asks a few per second."""
    concurrent: _Count | None = 64
    """Open asks of one server."""
    pending_reviews: _Count | None = 32
    """Asks of one server that wait for a person."""
    per_call: _Count | None = 100
    """Asks of one call, which ends an endless tool loop. A client allows as many by default."""
    concurrent_per_call: _Count | None = 16
    """Open asks of one call, which ends a recursion. A client answers eight at a time by default."""
    rounds: _Count | None = 64
    """Rounds of one call, in revisions that have them."""
    max_tokens: _Count | None = 16_384
    """Tokens that one request may ask for; more is refused and not lowered, because a truncated answer would be
    wrong."""

    def __post_init__(self) -> None:
        check_options(self)


class LimitReached(Exception):
    """A limit is reached; the text is its name in ``Limits``."""


class Pass(msgspec.Struct, frozen=True):
    """An ask that was admitted; pass it to ``AskGate.leave`` or ``AskGate.end_review``."""

    server: str
    """The coarser identity of the server, so that starting it in another folder does not reset its counts."""
    call: str


class AskGate:
    """Counts the asks of one host."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.counted = _list_counted_limits(limits)
        """What an ask must be within to be admitted, in the order of ``_COUNTED``."""
        self._clock = clock
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()
        self._of_call: OrderedDict[str, int] = OrderedDict()
        self._open: Counter[str] = Counter()
        self._reviews: Counter[str] = Counter()
        self._stopped: OrderedDict[str, None] = OrderedDict()

    def within(self, limits: Limits) -> AskGate:
        """Return a gate with other limits that shares these counts."""
        other = copy(self)
        other.limits, other.counted = limits, _list_counted_limits(limits)
        return other

    def enter(self, origin: Origin, max_tokens: int = 0) -> Pass:
        """Admit an ask, and count it; if a limit is reached, raise ``LimitReached`` and count nothing."""
        admitted = self._admit_caller(origin, max_tokens)
        # One by one: ``Counter.update`` first finds out what it was given, which takes longer.
        for key in (admitted.server, admitted.call):
            self._open[key] += 1
        return admitted

    def count(self, origin: Origin) -> None:
        """Admit an ask that is decided at once, as ``enter`` does, and count it."""
        self._admit_caller(origin, 0)

    def _admit_caller(self, origin: Origin, max_tokens: int) -> Pass:
        admitted = Pass(origin.alike, _find_chain(origin))
        # Without a limit nothing is kept: it would be every ask of the last minute.
        recent = None if self.limits.per_minute is None else self._window(admitted.server)
        opened = self._open
        asked = self._of_call.get(admitted.call, 0) + 1
        counts = (
            max_tokens,
            origin.round.n if origin.round else 0,
            0 if recent is None else len(recent) + 1,
            opened.get(admitted.server, 0) + 1,
            asked,
            opened.get(admitted.call, 0) + 1,
        )
        if True in map(gt, counts, self.counted):
            raise LimitReached(
                next(name for name, *both in zip(_COUNTED, counts, self.counted, strict=True) if gt(*both))
            )
        if recent is not None:
            recent.append(self._clock())
        self._of_call[admitted.call] = asked
        self._of_call.move_to_end(admitted.call)
        for known in (self._recent, self._of_call):
            if len(known) > _MAX_KNOWN:
                _forget_oldest(known)
        return admitted

    def stop(self, origin: Origin) -> None:
        """Refuse all further asks of the call that this ask belongs to."""
        self._stopped[_find_chain(origin)] = None
        _forget_oldest(self._stopped)

    def is_stopped(self, origin: Origin) -> bool:
        """Return whether the call of this ask was stopped."""
        return bool(self._stopped) and _find_chain(origin) in self._stopped

    def leave(self, admitted: Pass) -> None:
        """Note that an ask has ended."""
        for key in (admitted.server, admitted.call):
            self._open[key] -= 1
            if self._open[key] <= 0:
                del self._open[key]

    def begin_review(self, admitted: Pass) -> None:
        """Count an ask that waits for a person; raise ``LimitReached`` if too many are waiting already."""
        most = self.limits.pending_reviews
        if most is not None and self._reviews[admitted.server] >= most:
            raise LimitReached("pending_reviews")
        self._reviews[admitted.server] += 1

    def end_review(self, admitted: Pass) -> None:
        """Note that it does not wait any more."""
        self._reviews[admitted.server] -= 1
        if self._reviews[admitted.server] <= 0:
            del self._reviews[admitted.server]

    def _window(self, server: str) -> deque[float]:
        recent = self._recent.setdefault(server, deque())
        self._recent.move_to_end(server)
        since = self._clock() - _MINUTE
        while recent and recent[0] <= since:
            recent.popleft()
        return recent


def _list_counted_limits(limits: Limits) -> tuple[float, ...]:
    """Return the limits of what is counted, so that all are compared at once."""
    return tuple(math.inf if most is None else most for most in (getattr(limits, name) for name in _COUNTED))


def _find_chain(origin: Origin) -> str:
    return f"call:{origin.chain}"


def _forget_oldest(known: OrderedDict[str, deque[float]] | OrderedDict[str, int] | OrderedDict[str, None]) -> None:
    while len(known) > _MAX_KNOWN:
        known.popitem(last=False)


def check_options(options: msgspec.Struct) -> None:
    """Raise ``ConfigError`` for a member of another type, ``ValueError`` for a name as ``server``."""
    kind = type(options)
    for name, type_ in _list_members(kind):
        value = getattr(options, name)
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            words = ", ".join(words_in(type_))
            problem = f"is one of {words}, not {value!r}" if words else f"cannot be used: {error}"
            raise ConfigError(f"{kind.__name__}({name}=) {problem}") from None
        if name == "server" and isinstance(value, str) and not re.search(r"[:*?\[]", value):
            raise ValueError(
                f"server: the name {value!r} never matches, since a rule goes by identities, such as command:* or "
                f"url:*; leave it out, and antiphon policy show --server {value} prints what to write"
            )


def words_in(kind: object) -> Iterator[str]:
    """Yield the words and numbers of a ``Literal``, anywhere in a type."""
    for inner in get_args(kind):
        yield from (str(inner),) if isinstance(inner, str | int) else words_in(inner)


@cache
def _list_members(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind))
