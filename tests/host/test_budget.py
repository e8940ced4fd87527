"""What a request may cost: whole numbers, rounded up, estimated high."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.budget import (
    DOLLAR,
    GROUPS,
    MEASURED,
    Amount,
    Budget,
    Cap,
    accounts_for,
    counts_of,
    estimate_costs,
    estimate_tokens,
    estimate_usage,
    find_dearest,
    format_dollars,
    input_estimate,
    worst_case,
)
from antiphon.host.model_catalogue import ModelPrice
from antiphon.host.providers.base import Usage
from antiphon.wire.content import AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import SamplingMessage, text_answer
from tests.host.asks import origin, request

SMALL = ModelPrice(input=Decimal("0.000001"), output=Decimal("0.000001"))
DEAR = ModelPrice(input=Decimal(3), output=Decimal(15))
COUNTS = st.integers(0, 10**9)

COUNTED: dict[str, int] = json.loads((Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8"))
"""Texts, and the most that nine tokenizers count (``benchmarks/tokens.py`` names them)."""


def test_a_price_is_exact():
    """Three dollars per million tokens in, fifteen out."""
    assert DEAR.cost(1_000_000, 1_000_000) == Decimal(18)
    assert Amount.of(Usage(input_tokens=1_000_000, output_tokens=0), DEAR) == Amount(money=3 * DOLLAR, tokens=1_000_000)


def test_what_is_less_than_a_unit_counts_as_one():
    """Many small requests are not free."""
    assert Amount.of(Usage(input_tokens=1, output_tokens=0), SMALL).money == 1
    assert Amount.of(Usage(), SMALL).money == 0


@given(COUNTS, COUNTS, st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_worst_case_is_never_exceeded(tokens: int, most: int, price_in: int, price_out: int):
    """Less used is never dearer: what is settled fits into what was held."""
    price = ModelPrice(input=Decimal(price_in) / 1_000_000, output=Decimal(price_out) / 1_000_000)
    used = Usage(input_tokens=tokens, output_tokens=most // 2)
    assert Amount.of(used, price).money <= Amount.of(Usage(input_tokens=tokens, output_tokens=most), price).money


def test_what_has_no_price_counts_in_tokens():
    """Money stays at nothing."""
    assert Amount.of(Usage(input_tokens=5, output_tokens=7), None) == Amount(tokens=12)


def test_the_dearest_of_those_that_may_answer_is_held():
    """A fallback may cost more than the one chosen."""
    usage = Usage(input_tokens=1_000, output_tokens=0)
    assert find_dearest(usage, [SMALL, DEAR, None]) == Amount.of(usage, DEAR)
    assert find_dearest(usage, []) == Amount(tokens=1_000)


FRAME = 16
"""What is estimated for roles and separators of one message."""


def test_everything_that_is_sent_is_estimated():
    """Texts by their script, and a few tokens for the frame; ids too: they are as long as a server makes them."""
    assert input_estimate(request("a" * 300)) == estimate_tokens(["a" * 300]) + FRAME
    used = ToolUseContent(id="i" * 24_000, name="search", input={"words": "hat"})
    result = ToolResultContent(tool_use_id="i" * 24_000, content=[TextContent(text="none")])
    messages = [SamplingMessage(role="assistant", content=used), SamplingMessage(role="user", content=result)]
    assert input_estimate(request(messages=messages)) > 2 * 24_000 * 0.4


def test_pictures_and_sound_are_estimated():
    """A picture counts as vendors scale it, sound by its length."""
    picture = SamplingMessage(role="user", content=ImageContent(data="AAAA", mime_type="image/png"))
    sound = SamplingMessage(role="user", content=AudioContent(data="A" * 4_000, mime_type="audio/wav"))
    assert input_estimate(request(messages=[picture])) == 2_000 + 16
    assert input_estimate(request(messages=[sound])) == 31 + 16


def test_the_worst_case_is_all_that_was_asked_for():
    """The whole input, and an answer as long as it may be."""
    params = request("a" * 300, max_tokens=70)
    usage = worst_case(params)
    assert (usage.input_tokens, usage.output_tokens) == (input_estimate(params), 70)


def test_an_answer_is_estimated_no_longer_than_it_may_be():
    """Where the provider does not say."""
    params = request("a" * 300, max_tokens=70)
    assert estimate_usage(params, text_answer("b" * 30, "m")).output_tokens == estimate_tokens(["b" * 30]) + 1
    assert estimate_usage(params, text_answer("b" * 3_000, "m")).output_tokens == 70


def test_costs_are_shown_low_likely_and_worst():
    """And what is left."""
    params = request("a" * 300, max_tokens=100)
    costs, asked = estimate_costs(params, DEAR, 5), input_estimate(params)
    assert costs.low.money < costs.likely.money < costs.worst.money
    assert (costs.low.tokens, costs.likely.tokens, costs.worst.tokens) == (asked, asked + 50, asked + 100)
    assert costs.left == 5


def test_a_request_counts_towards_four_accounts():
    """Its call, the day, the server, all; a call is the process's own."""
    keys = [account.key for account in accounts_for(Budget(), origin(), host="h", day="2026-11-21")]
    assert keys == ["call:h:call-1", "day:2026-11-21", f"server:{origin().identity}", "total"]
    background = accounts_for(Budget(), origin("7", call=None), host="h", day="2026-11-21")
    assert background[0].key == "call:h:ask:7"


@pytest.mark.parametrize(
    ("money", "rounding", "said"),
    [
        (0, "up", "$0.00"),
        (1, "up", "$0.000000001"),
        (123, "up", "$0.00000013"),
        (185_250, "up", "$0.00019"),
        (185_250, "down", "$0.00018"),
        (185_250, "none", "$0.00018525"),
        (4_200_000, "none", "$0.0042"),
        (9_999_999, "up", "$0.01"),
        (10_000_000, "up", "$0.01"),
        (999_999_999, "up", "$1.00"),
        (DOLLAR, "down", "$1.00"),
        (12_345_600_000, "up", "$12.35"),
        (12_345_600_000, "down", "$12.34"),
        (1_234_567_891_234, "up", "$1,234.57"),
        (-DOLLAR, "none", "-$1.00"),
        (-500_000_000, "down", "-$0.50"),
        (-4_234_567, "down", "-$0.0043"),
    ],
)
def test_money_is_written_for_people(money: int, rounding: Literal["up", "down", "none"], said: str):
    """What may be spent is never made less than it is, what is left never more, and a limit is exact."""
    assert format_dollars(money, rounding=rounding) == said


@pytest.mark.parametrize(("together", "capped"), [(True, "coarse:1"), (False, "own")])
def test_servers_alike_share_an_account(together: bool, capped: str):
    """Its cap bounds them together, or each alone where it is configured by itself; it is charged in both cases."""
    asked = Origin(id="1", identity="own", target="shop", coarser=("coarse:1", "command:1"))
    budget = Budget(server=Cap(money=7), together=together)
    accounts = {each.key: each.cap.money for each in accounts_for(budget, asked, host="h", day="d")}
    assert {key for key in accounts if key.startswith("server:")} == {"server:own", "server:coarse:1"}
    assert [key for key, money in accounts.items() if money == 7] == [f"server:{capped}"]


@pytest.mark.parametrize("text", COUNTED)
def test_no_text_is_estimated_too_low(text: str):
    """Nor three times too high."""
    assert COUNTED[text] <= estimate_tokens([text]) <= 3 * COUNTED[text]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_every_character_is_counted_once(text: str):
    """Whatever it is."""
    assert sum(counts_of(text).values()) == len(text)


def test_half_a_character_is_counted():
    """Half a surrogate pair cannot be sent, but it can be received."""
    assert estimate_tokens(["\ud800"]) > 0


def test_every_first_byte_belongs_to_one_group():
    """Of all that UTF-8 has."""
    leads = b"".join(GROUPS.values())
    assert sorted(leads) == [*range(0x80), *range(0xC2, 0xF5)]


def test_texts_are_estimated_together():
    """In any order, and nothing is nothing."""
    assert estimate_tokens([]) == estimate_tokens([""]) == 0
    assert estimate_tokens(["毛", "a"]) == estimate_tokens(["a", "毛"]) == estimate_tokens(["a毛"])


@pytest.mark.parametrize("char", ["a", "毛", "🧥"])
def test_what_is_not_looked_at_counts_as_much_as_it_can_be(char: str):
    """A byte of it is a token: no tokenizer counts more."""
    long = char * (MEASURED // len(char.encode()))
    known = estimate_tokens([long])
    assert estimate_tokens([long, char * 1_000]) == known + 1_000 * len(char.encode())
