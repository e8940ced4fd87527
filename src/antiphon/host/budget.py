"""What a request may cost at most, and which accounts it is charged to. All amounts are integers.

Pure: owns prices, estimates, caps, the names of accounts, and how money is written. The accounts are in the ``store``,
where a reservation is one conditional update, so that concurrent requests never overspend together.

Tokens of a text are estimated for any model, by script, too many rather than too few. Vendors' tokenizers are mostly
not available, and each vocabulary would take megabytes. ``token_groups.toml`` holds what those that are available
count (``benchmarks/tokens.py`` measures them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from antiphon.host.checks.ask_limits import check_options
from antiphon.host.checks.message_parts import list_binaries, list_blocks, list_texts
from antiphon.host.model_catalogue import ModelPrice
from antiphon.host.providers.base import Usage
from antiphon.wire.content import ToolResultContent, ToolUseContent
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

DOLLAR = 1_000_000_000
"""One dollar in nano-dollars, the unit in which money is counted."""
_TOKENS_PER_MESSAGE = 8
"""Roles and separators; vendors count three to seven tokens for them."""
_TOKENS_PER_IMAGE = 2_000
"""Vendors scale a picture down until it takes about 1,600 tokens."""
_BYTES_PER_SOUND_TOKEN = 100
"""A second of sound takes at most 32 tokens, and at least 4,000 bytes even when well compressed."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Money in nano-dollars (0 if there is no price), and tokens."""

    money: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, usage: Usage, price: ModelPrice | None) -> Amount:
        """Compute what a usage costs.

        Args:
            usage: the tokens.
            price: the price list; ``None`` counts tokens only.
        """
        money = 0 if price is None else convert_to_nano(price.cost(usage.input_tokens, usage.output_tokens))
        return cls(money=money, tokens=usage.input_tokens + usage.output_tokens)


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may cost, for the reviewer; ``left`` is the smallest remainder of its accounts."""

    low: Amount
    """The cost of its input alone."""
    likely: Amount
    """The cost of its input, and of half of the longest answer."""
    worst: Amount
    left: int | None = None
    """Nano-dollars left before this request; ``None`` if no cap applies."""


class Cap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that may be spent: money in nano-dollars, tokens; ``None`` for no limit."""

    money: Annotated[int, msgspec.Meta(ge=0)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def allows(self, total: Amount) -> bool:
        """Return whether a sum stays within both limits.

        Args:
            total: all that would be spent.
        """
        return (self.money is None or total.money <= self.money) and (
            self.tokens is None or total.tokens <= self.tokens
        )


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be spent, by whom and when. Requests without a price count in tokens only."""

    call: Cap = Cap(money=DOLLAR)
    """By all asks of one call together."""
    server: Cap = Cap()
    """By one server, ever; servers that differ only in folder, version or variables share it."""
    day: Cap = Cap(money=10 * DOLLAR)
    """By all servers on one day (UTC)."""
    total: Cap = Cap()
    """By all servers, ever."""
    together: bool = True
    """Whether similar servers share ``server``; false for a server with a configuration of its own."""

    def __post_init__(self) -> None:
        check_options(self)
        # Not by ``Cap`` itself, of which each ask makes some.
        for cap in (self.call, self.server, self.day, self.total):
            check_options(cap)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One sum that a request is charged to: ``call:...``, ``server:...``, ``day:...``, ``total`` or ``grant:...``."""

    key: str
    cap: Cap


def input_estimate(params: CreateMessageRequestParams) -> int:
    """Estimate the number of tokens in a request, too many rather than too few."""
    total = estimate_tokens(_list_counted_texts(params)) + _TOKENS_PER_MESSAGE * (len(params.messages) + 1)
    for binary in list_binaries(params):
        is_image = binary.mime_type.startswith("image/")
        total += _TOKENS_PER_IMAGE if is_image else len(binary.data) * 3 // 4 // _BYTES_PER_SOUND_TOKEN + 1
    return total


def _list_counted_texts(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[str]:
    """Yield all texts that a vendor counts: what the model reads, and the ids that connect tool uses and results."""
    yield from (text for _, text in list_texts(asked))
    for _, block in list_blocks(asked):
        if isinstance(block, ToolUseContent):
            yield block.id
        elif isinstance(block, ToolResultContent):
            yield block.tool_use_id


def worst_case(params: CreateMessageRequestParams) -> Usage:
    """Return the most that a request can take: all of its input, and the longest answer allowed."""
    return Usage(input_tokens=input_estimate(params), output_tokens=params.max_tokens)


def estimate_usage(params: CreateMessageRequestParams, result: CreateMessageResult) -> Usage:
    """Estimate the usage where the provider did not report it."""
    output = min(estimate_tokens(_list_counted_texts(result)) + 1, params.max_tokens)
    return Usage(input_tokens=input_estimate(params), output_tokens=output)


def find_dearest(usage: Usage, prices: Iterable[ModelPrice | None]) -> Amount:
    """Compute the highest cost of a usage over several prices."""
    amounts = [Amount.of(usage, price) for price in prices]
    return max(amounts, key=lambda amount: amount.money, default=Amount.of(usage, None))


def estimate_costs(params: CreateMessageRequestParams, price: ModelPrice | None, left: int | None) -> Costs:
    """Estimate what a request may cost."""
    worst = worst_case(params)
    likely = Usage(input_tokens=worst.input_tokens, output_tokens=-(-worst.output_tokens // 2))
    return Costs(
        low=Amount.of(Usage(input_tokens=worst.input_tokens, output_tokens=0), price),
        likely=Amount.of(likely, price),
        worst=Amount.of(worst, price),
        left=left,
    )


def accounts_for(budget: Budget, origin: Origin, *, host: str, day: str) -> tuple[Account, ...]:
    """Return the accounts a request is charged to, always in the same order.

    ``host`` is the process, because ids of calls are unique only within it; a task has one account in all processes.
    ``day`` is such as ``"2026-11-21"``.
    """
    call = f"call:{host}:{origin.chain}" if origin.task is None else task_account(origin.task.name)
    return (
        Account(key=call, cap=budget.call),
        Account(key=f"day:{day}", cap=budget.day),
        *_of_server(budget, origin),
        Account(key="total", cap=budget.total),
    )


def task_account(task: str) -> str:
    """Return the key of the account of a task; ``task`` is ``OriginTask.name``."""
    return f"call:task:{task}"


def _of_server(budget: Budget, origin: Origin) -> tuple[Account, ...]:
    """Return a server's own account, and the one it shares with similar servers; the cap applies to one of them."""
    own = f"server:{origin.identity}"
    if origin.alike == origin.identity:
        return (Account(key=own, cap=budget.server),)
    caps = (Cap(), budget.server) if budget.together else (budget.server, Cap())
    return (Account(key=own, cap=caps[0]), Account(key=f"server:{origin.alike}", cap=caps[1]))


def convert_to_nano(amount: Decimal) -> int:
    """Convert dollars to nano-dollars, rounded up."""
    return int((amount * DOLLAR).to_integral_value(rounding=ROUND_CEILING))


def format_dollars(money: int, *, rounding: Literal["up", "down", "none"] = "up") -> str:
    """Format nano-dollars for people: cents from one dollar on, below that two digits, ``"$0.0042"``.

    All surfaces format money here, so that one amount reads the same on each of them.

    Args:
        money: the amount, in nano-dollars.
        rounding: ``"up"`` for what is or may be spent, ``"down"`` for what is left, ``"none"`` for a limit that a
            person set, with as many digits as needed.
    """
    step = 1 if rounding == "none" else 10 ** min(7, max(0, len(str(abs(money))) - 2))
    rounded = money // step * step if rounding == "down" else -(-money // step) * step
    whole, rest = divmod(abs(rounded), DOLLAR)
    return f"{'-' if money < 0 else ''}${whole:,}.{f'{rest:09d}'.rstrip('0').ljust(2, '0')}"


class _CharacterGroup(msgspec.Struct, frozen=True):
    """Characters that take about as many tokens, as ``token_groups.toml`` has them."""

    leads: tuple[tuple[int, int], ...]
    tokens: int


_TABLE = msgspec.toml.decode(
    Path(__file__).with_name("token_groups.toml").read_bytes(), type=dict[str, _CharacterGroup]
)
GROUPS: Mapping[str, bytes] = {
    name: bytes(code for first, last in group.leads for code in range(first, last + 1))
    for name, group in _TABLE.items()
}
_MARGIN = 110
"""Per cent, as a margin for tokenizers that are not available."""
MEASURED = 1024 * 1024
"""Bytes of one request that are counted, which takes a few milliseconds; each further byte counts as a token."""
_ASCII = tuple(name for name, leads in GROUPS.items() if max(leads) < 0x80)
_NOT_LEADS = bytes(range(0xC0))


def counts_of(text: str) -> dict[str, int]:
    """Count the characters of each group in the text, in linear time."""
    data = text.encode("utf-8", "surrogatepass")
    # Most texts are ASCII or have few other characters, and only those are counted by group.
    leads = b"" if text.isascii() else data.translate(None, _NOT_LEADS)
    found: dict[str, int] = {}
    for name, group in GROUPS.items():
        looked_at = data if name in _ASCII else leads
        count = len(looked_at) - len(looked_at.translate(None, group)) if looked_at else 0
        if count:
            found[name] = count
    return found


def estimate_tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of several texts together."""
    hundredths, rest, left = 0, 0, MEASURED
    for text in texts:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > left:
            rest += size
        else:
            left -= size
            hundredths += sum(_TABLE[name].tokens * count for name, count in counts_of(text).items())
    return -(-hundredths * _MARGIN // 10_000) + rest
