"""How well a model suits a server's priorities: cost, speed and intelligence, weighted.

Computed in exact fractions, so that rounding never decides between two models.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import msgspec

from antiphon.host.catalogue import Tier
from antiphon.wire.sampling import ModelPreferences

__all__ = ["Priorities", "cost_score", "priorities_of", "tier_score", "weigh"]

_DECADES = 5
"""Decades of the scale for cost: from $1e-5 per request (a short one to the smallest models) to $1."""
_TIERS = tuple(Fraction(steps, 4) for steps in range(5))
_DIGITS = Context(prec=12)
"""Correctly rounded, so that the logarithm is the same on every platform, and monotonic."""


class Priorities(msgspec.Struct, frozen=True, kw_only=True):
    """The server's priorities, each from 0 to 1."""

    cost: Fraction
    speed: Fraction
    intelligence: Fraction

    @property
    def total(self) -> Fraction:
        """The sum; 0 if there are no priorities."""
        return self.cost + self.speed + self.intelligence


def priorities_of(wishes: ModelPreferences | None) -> Priorities:
    """Return the priorities of a request; absent ones are 0."""
    given = (None,) * 3
    if wishes is not None:
        given = (wishes.cost_priority, wishes.speed_priority, wishes.intelligence_priority)
    cost, speed, intelligence = (Fraction(value or 0) for value in given)
    return Priorities(cost=cost, speed=speed, intelligence=intelligence)


@lru_cache(4_096)
def cost_score(dollars: Decimal | None) -> Fraction:
    """Score a cost on a logarithmic scale: 1 at $1e-5 per request and below, 0 at $1 and above, or if unknown."""
    if dollars is None or dollars >= 1:
        return Fraction(0)
    if dollars <= Decimal(10) ** -_DECADES:
        return Fraction(1)
    return Fraction(-dollars.log10(_DIGITS)) / _DECADES


def tier_score(tier: Tier | None) -> Fraction:
    """Score a tier: 0 for the lowest, 1 for the highest; an unknown one counts as the lowest."""
    return _TIERS[(tier or 1) - 1]


def weigh(priorities: Priorities, cost: Fraction, speed: Fraction, intelligence: Fraction) -> Fraction:
    """Return the weighted sum of the scores, not divided by the sum of the priorities, which all models share."""
    # One fraction is made at the end and not one for each step, because this runs for each model of each request.
    numerator, denominator = 0, 1
    for priority, part in ((priorities.cost, cost), (priorities.speed, speed), (priorities.intelligence, intelligence)):
        below = priority.denominator * part.denominator
        numerator = numerator * below + priority.numerator * part.numerator * denominator
        denominator *= below
    return Fraction(numerator, denominator)
