"""Which server behind a gateway owns a URI: the rule for URIs and templates of several servers that overlap.

A hostile server can always choose the more specific of two overlapping templates. So neither of two that may overlap is
served, until the configuration names the owner. The decision whether they may overlap takes bounded time, and errs
towards refusing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

from msgspec import Struct

from antiphon.gateway.filters import Filters

__all__ = ["Claim", "Overlap", "Owners", "refused_claims"]

MAX_STEPS = 20_000
"""Most steps in which the URIs of all servers are compared, 30 ms; each two servers have an equal share."""

_LEAST_STEPS = 2_000
_LONGEST = 2_000
"""Steps after which two claims are taken to overlap."""
_LAST = "\U0010ffff"
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_OF_ONE_SEGMENT = re.compile(r"[\w.,:*%]*")
_ANY, _IN_SEGMENT = "", "/?#"
"""What an expression may become: any text, or any without these characters. All other pieces have one character."""


class Claim(Struct, frozen=True):
    """A URI or a template that a server lists."""

    server: str
    text: str
    is_template: bool

    @property
    def lead(self) -> str:
        """The text that every URI of it begins with."""
        return self.text.partition("{")[0] if self.is_template else self.text


class Overlap(Struct, frozen=True):
    """Two claims of different servers that may be about the same URI, so that the first is not served."""

    first: Claim
    second: Claim

    def __str__(self) -> str:
        """Describe the overlap in a sentence, with the remedy."""
        one, other = self.first, self.second
        return (
            f"{one.text} of {one.server} is not served, since it may overlap with {other.text} of {other.server}; name "
            f"the owner: [gateway.servers.NAME] owns = [...]"
        )


class Owners:
    """The owners of URIs that the configuration names.

    ``lists``: globs over URIs and templates, by the name of their server.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]] = {}) -> None:
        self._owned = {server: Filters({server: globs}) for server, globs in lists.items()}

    def has(self, claim: Claim) -> bool:
        """Return whether a server is named as the owner of what it claims."""
        owned = self._owned.get(claim.server)
        return owned is not None and owned.passes(claim.server, claim.text)


def refused_claims(claims: Sequence[Claim], owners: Owners) -> dict[Claim, Overlap]:
    """Return the claims that are not served, because one of another server may overlap."""
    by_server: dict[str, list[Claim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.lead):
        by_server.setdefault(claim.server, []).append(claim)
    pairs = list(combinations(by_server.values(), 2))
    refused: dict[Claim, Overlap] = {}
    for one, other in pairs:
        for mine, theirs in _overlaps(one, other, owners, max(_LEAST_STEPS, MAX_STEPS // len(pairs))):
            refused.setdefault(mine, Overlap(mine, theirs))
    return refused


def _overlaps(
    one: Sequence[Claim], other: Sequence[Claim], owners: Owners, steps: int
) -> Iterator[tuple[Claim, Claim]]:
    """Yield each claim of two servers that is not served, and one of the other server that it may overlap with."""
    for mine, theirs in chain(_near(one, other), _near(other, one)):
        if owners.has(mine) == owners.has(theirs):
            taken, overlap = _compare(_pieces(mine), _pieces(theirs))
            steps -= taken + (len(mine.text) + len(theirs.text)) // 8
            if overlap:
                yield mine, theirs
                yield theirs, mine
        steps -= 1
        if steps < 0:
            yield from ((claim, other[0]) for claim in one if not owners.has(claim))
            yield from ((claim, one[0]) for claim in other if not owners.has(claim))
            return


def _near(one: Sequence[Claim], other: Sequence[Claim]) -> Iterator[tuple[Claim, Claim]]:
    """Yield the pairs in which the lead of the second begins with that of the first. Both are sorted by their leads."""
    leads = [claim.lead for claim in other]
    for mine in one:
        end = bisect_left(leads, mine.lead + _LAST) if mine.is_template else bisect_right(leads, mine.lead)
        for at in range(bisect_left(leads, mine.lead), end):
            yield mine, other[at]


def _pieces(claim: Claim) -> list[str]:
    """Split a claim into characters, and expressions as ``_ANY`` or ``_IN_SEGMENT``."""
    if not claim.is_template:
        return list(claim.text)
    pieces: list[str] = []
    for at, part in enumerate(_EXPRESSION.split(claim.text)):
        if at % 2:
            pieces.append(_IN_SEGMENT if _OF_ONE_SEGMENT.fullmatch(part) else _ANY)
        else:
            # A brace without its partner: nobody knows what the rest means.
            pieces += [_ANY] if "{" in part or "}" in part else part
    return pieces


def _compare(one: Sequence[str], other: Sequence[str]) -> tuple[int, bool]:
    """Return the number of steps taken, and whether some text may fit both: both are walked at the same time."""
    todo, seen = [(0, 0)], {(0, 0)}
    while todo and len(seen) < _LONGEST:
        i, j = todo.pop()
        if i == len(one) and j == len(other):
            return len(seen), True
        for state in _steps(one[i : i + 1], other[j : j + 1], i, j):
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return len(seen), bool(todo)


def _steps(one: Sequence[str], other: Sequence[str], i: int, j: int) -> Iterator[tuple[int, int]]:
    """Yield the states after this one. ``one``, ``other``: the next piece of each, if there is one."""
    for a in one:
        if len(a) != 1:
            yield i + 1, j
    for b in other:
        if len(b) != 1:
            yield i, j + 1
    for a, b in zip(one, other, strict=False):
        if len(a) == len(b) == 1:
            if a == b:
                yield i + 1, j + 1
        elif len(a) == 1 and a not in b:
            yield i + 1, j
        elif len(b) == 1 and b not in a:
            yield i, j + 1
