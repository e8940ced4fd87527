"""What a request may cost at most, and which accounts it is taken from. Whole numbers only.

Owns prices, estimates, caps and the names of the accounts. Pure: the accounts themselves are in the ``store``, where a
reservation is one conditional update, so that requests at the same time can never overspend together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from typing import Protocol

import msgspec

from antiphon.host.checks.contents import binaries, blocks, texts
from antiphon.host.providers.base import Usage
from antiphon.host.tokens import estimate
from antiphon.wire.content import ToolResultContent, ToolUseContent
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "DOLLAR",
    "Account",
    "Amount",
    "Budget",
    "Cap",
    "Costs",
    "Price",
    "Priced",
    "accounts_for",
    "brief_dollars",
    "dearest",
    "dollars",
    "estimate_costs",
    "estimated_usage",
    "input_estimate",
    "nano",
    "worst_case",
]

DOLLAR = 1_000_000_000
"""One dollar in the unit that money is counted in: nano-dollars."""
_PER_DOLLAR = Decimal(10) ** 12
_TOKENS_PER_MESSAGE = 8
"""Roles and separators: vendors count three to seven."""
_TOKENS_PER_IMAGE = 2_000
"""Vendors scale a picture down until it counts about 1,600 tokens."""
_BYTES_PER_SOUND_TOKEN = 100
"""A second is at most 32 tokens, and at least 4,000 bytes even when it is well compressed."""


class Priced(Protocol):
    """A price list, however it is made."""

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Compute what so many tokens cost, in dollars, exactly."""
        ...


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """A flat price, in pico-dollars per token: the same figure as micro-dollars per million tokens.

    Three dollars per million tokens are ``3_000_000``.
    """

    input_per_token: int
    output_per_token: int

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Compute what so many tokens cost, in dollars, exactly."""
        return (input_tokens * self.input_per_token + output_tokens * self.output_per_token) / _PER_DOLLAR


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Money in nano-dollars (0 where there is no price), and tokens."""

    money: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, usage: Usage, price: Priced | None) -> Amount:
        """Compute what this usage costs."""
        money = 0 if price is None else nano(price.cost(usage.input_tokens, usage.output_tokens))
        return cls(money=money, tokens=usage.input_tokens + usage.output_tokens)


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may cost, for whoever decides; what is left is the least of what its accounts have left."""

    low: Amount
    """Its input alone."""
    likely: Amount
    """Its input, and half of the answer it may get."""
    worst: Amount
    left: int | None = None
    """Nano-dollars before this request; ``None`` where no cap bounds them."""


class Cap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that may be spent: money in nano-dollars, tokens; ``None`` for no bound."""

    money: int | None = None
    tokens: int | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be spent, by whom and when. What has no price counts in tokens only."""

    call: Cap = Cap(money=DOLLAR)
    """By all asks of one call of ours together."""
    server: Cap = Cap()
    """By one server, ever; by all that differ in folder, version or variables only, together."""
    day: Cap = Cap(money=10 * DOLLAR)
    """By all in one day (UTC)."""
    total: Cap = Cap()
    """By all, ever."""
    together: bool = True
    """Whether ``server`` bounds what servers alike spend together; false where this one is configured by itself."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One sum that a request counts towards: ``call:...``, ``server:...``, ``day:...``, ``total`` or ``grant:...``."""

    key: str
    cap: Cap


def input_estimate(params: CreateMessageRequestParams) -> int:
    """Estimate the tokens a request is, rather too many than too few."""
    total = estimate(_sent(params)) + _TOKENS_PER_MESSAGE * (len(params.messages) + 1)
    for binary in binaries(params):
        is_image = binary.mime_type.startswith("image/")
        total += _TOKENS_PER_IMAGE if is_image else len(binary.data) * 3 // 4 // _BYTES_PER_SOUND_TOKEN + 1
    return total


def _sent(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[str]:
    """Yield all texts that a vendor counts: what a model reads, and the ids that say which result is of which use."""
    yield from (text for _, text in texts(asked))
    for _, block in blocks(asked):
        if isinstance(block, ToolUseContent):
            yield block.id
        elif isinstance(block, ToolResultContent):
            yield block.tool_use_id


def worst_case(params: CreateMessageRequestParams) -> Usage:
    """Say what a request takes at most: all of its input, and an answer as long as it may be."""
    return Usage(input_tokens=input_estimate(params), output_tokens=params.max_tokens)


def estimated_usage(params: CreateMessageRequestParams, result: CreateMessageResult) -> Usage:
    """Estimate what was used where the provider did not say."""
    output = min(estimate(_sent(result)) + 1, params.max_tokens)
    return Usage(input_tokens=input_estimate(params), output_tokens=output)


def dearest(usage: Usage, prices: Iterable[Priced | None]) -> Amount:
    """Compute what this usage costs at most, whichever of the prices holds."""
    amounts = [Amount.of(usage, price) for price in prices]
    return max(amounts, key=lambda amount: amount.money, default=Amount.of(usage, None))


def estimate_costs(params: CreateMessageRequestParams, price: Priced | None, left: int | None) -> Costs:
    """Say what a request may cost."""
    worst = worst_case(params)
    likely = Usage(input_tokens=worst.input_tokens, output_tokens=-(-worst.output_tokens // 2))
    return Costs(
        low=Amount.of(Usage(input_tokens=worst.input_tokens, output_tokens=0), price),
        likely=Amount.of(likely, price),
        worst=Amount.of(worst, price),
        left=left,
    )


def accounts_for(budget: Budget, origin: Origin, *, host: str, day: str) -> tuple[Account, ...]:
    """Name the accounts a request counts towards, always in the same order.

    ``host`` is the process: the ids of calls are its own. ``day`` is ``"2026-11-21"``.
    """
    call = origin.call.id if origin.call else f"ask:{origin.id}"
    return (
        Account(key=f"call:{host}:{call}", cap=budget.call),
        Account(key=f"day:{day}", cap=budget.day),
        *_of_server(budget, origin),
        Account(key="total", cap=budget.total),
    )


def _of_server(budget: Budget, origin: Origin) -> tuple[Account, ...]:
    """Name a server's own account, and the one it shares with servers alike; the cap is on one of them."""
    own = f"server:{origin.identity}"
    if origin.alike == origin.identity:
        return (Account(key=own, cap=budget.server),)
    caps = (Cap(), budget.server) if budget.together else (budget.server, Cap())
    return (Account(key=own, cap=caps[0]), Account(key=f"server:{origin.alike}", cap=caps[1]))


def nano(amount: Decimal) -> int:
    """Convert dollars to nano-dollars, rounded up."""
    return int((amount * DOLLAR).to_integral_value(rounding=ROUND_CEILING))


def dollars(money: int) -> str:
    """Write nano-dollars for people: ``"$0.0042"``, with as many digits as it takes, two at least."""
    whole, rest = divmod(abs(money), DOLLAR)
    digits = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if money < 0 else ''}${whole}.{digits}"


def brief_dollars(money: int) -> str:
    """Write nano-dollars with the digits that matter: cents from one dollar on, below it two digits, ``"$0.0042"``."""
    amount = Decimal(abs(money)) / DOLLAR
    last = min(-2, amount.adjusted() - 1) if 0 < amount < 1 else -2
    text = f"{amount.quantize(Decimal(1).scaleb(last), ROUND_HALF_UP):,f}"
    whole, _, digits = text.partition(".")
    return f"{'-' if money < 0 else ''}${whole}.{digits.rstrip('0').ljust(2, '0')}"
