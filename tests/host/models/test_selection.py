"""The parts of choosing a model; how they go together is in ``test_select``."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.budget import input_estimate
from antiphon.host.model_catalogue import Model, ModelPrice
from antiphon.host.models.models import cost_score, priorities_of, tier_score, weigh_scores
from antiphon.host.models.selection import FAMILIES, complete_model, family_of, follow_hints, match_hint, needs_of
from antiphon.wire.content import AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import ModelPreferences, SamplingMessage
from antiphon.wire.tools import Tool
from tests.host.asks import request, says

PICTURE = ImageContent.of(b"picture", "image/png")
SOUND = AudioContent.of(b"sound" * 1000, "audio/wav")


def user(*blocks) -> SamplingMessage:
    """Make a message of these blocks."""
    return SamplingMessage(role="user", content=list(blocks))


# --- needs -----------------------------------------------------------------------------------------------------------


def test_a_text_needs_nothing_but_room():
    """And as many tokens for the answer as were asked for."""
    needs = needs_of(request("Hello", max_tokens=50))
    assert (needs.inputs, needs.tools, needs.max_tokens) == ((), False, 50)


def test_pictures_and_sound_are_needs():
    """Also within the result of a tool."""
    result = ToolResultContent(tool_use_id="1", content=[PICTURE])
    assert needs_of(request(messages=[user(result)])).inputs == ("image",)
    assert needs_of(request(messages=[user(SOUND, PICTURE)])).inputs == ("image", "audio")


def test_tools_are_a_need():
    """Also those that were used before."""
    assert needs_of(request(tools=[Tool(name="a", input_schema={})])).tools
    use = SamplingMessage(role="assistant", content=ToolUseContent(id="1", name="a", input={}))
    assert needs_of(request(messages=[says("Hi"), use])).tools
    assert needs_of(request(messages=[user(ToolResultContent(tool_use_id="1", content=[]))])).tools


def test_the_tokens_are_those_of_the_budget():
    """So that what fits into one fits into the other."""
    params = request("word " * 400, messages=[user(TextContent(text="See"), PICTURE, SOUND)])
    assert needs_of(params).input_tokens == input_estimate(params) > 2000


# --- facts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet"),
        ("claude-3-5-haiku-latest", "claude-haiku"),
        ("anthropic/claude-opus-4-1", "claude-opus"),
        ("GPT-5-mini", "gpt-mini"),
        ("gpt-4.1-nano", "gpt-nano"),
        ("gpt-4o", "gpt"),
        ("o4-mini", "o-mini"),
        ("o3", "o"),
        ("gemini-2.5-flash-lite", "gemini-flash-lite"),
        ("gemini-2.5-pro", "gemini-pro"),
        ("gpt-oss:20b", "gpt-oss"),
        ("llama3.2:3b", "llama"),
    ],
)
def test_a_model_is_of_a_family(name: str, family: str):
    """By its name."""
    found = family_of(name)
    assert found
    assert found.name == family


def test_a_model_of_no_family():
    """Is of none."""
    assert family_of("my-finetune") is None


def test_families_have_names_of_their_own():
    """And each can be found: none is hidden by one before it."""
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_what_is_public_is_filled_in():
    """From the table of families and from genai-prices."""
    found = complete_model(Model(name="m", provider="openai", model="gpt-5-mini"))
    assert (found.family, found.speed, found.inputs, found.tools) == ("gpt-mini", 4, ("text", "image"), True)
    assert found.price == ModelPrice(input=Decimal("0.25"), output=Decimal(2))
    assert found.context == 400_000


def test_what_the_user_says_stands():
    """Whatever the tables say."""
    own = ModelPrice(input=Decimal(9), output=Decimal(9))
    said = Model(
        name="m",
        provider="openai",
        model="gpt-5-mini",
        family="mine",
        price=own,
        context=7,
        inputs=("text",),
        tools=False,
        speed=1,
        intelligence=1,
    )
    assert complete_model(said) == said


def test_a_long_request_has_its_own_rate():
    """Steps of a price come along."""
    price = complete_model(Model(name="m", provider="google", model="gemini-2.5-pro")).price
    assert price
    assert price.cost(300_000, 0) > 3 * price.cost(100_000, 0)


@pytest.mark.parametrize(
    "model",
    [
        Model(name="m", provider="openai", model="gpt-999-unheard-of"),
        Model(name="m", provider="nobody", model="gpt-5-mini"),
        Model(name="m", provider="openai-compatible", model="gpt-5-mini", base_url="http://127.0.0.1:1/v1"),
        Model(name="m", provider="openai", model="gpt-5-mini", base_url="http://127.0.0.1:1/v1"),
    ],
    ids=["model", "provider", "home", "address"],
)
def test_an_unknown_price_is_unknown(model: Model):
    """Never nothing: a price of one service is not that of another at an address of its own."""
    assert complete_model(model).price is None


def test_an_open_model_says_little():
    """What it takes depends on who serves it."""
    found = complete_model(Model(name="m", provider="openai-compatible", model="llama3.2:3b"))
    assert (found.inputs, found.tools, found.context) == (None, None, None)


def test_the_echo_is_free():
    """And takes everything."""
    price = complete_model(Model(name="echo", provider="echo", model="echo")).price
    assert price
    assert price.cost(1000, 1000) == 0


# --- hints -----------------------------------------------------------------------------------------------------------

SONNET = Model(name="best", provider="p", model="claude-sonnet-4-5", aliases=("Claude",), family="claude-sonnet")


@pytest.mark.parametrize(
    ("hint", "level"),
    [
        ("best", "exact"),
        ("Claude-Sonnet-4-5 ", "exact"),
        ("claude", "alias"),
        ("claude-sonnet", "family"),
        ("claude-3-5-sonnet", "family"),
        ("sonnet", "substring"),
        ("4-5", "substring"),
        ("opus", None),
        ("", None),
        (" ", None),
    ],
)
def test_a_hint_matches_at_a_level(hint: str, level: str | None):
    """The best that fits; case and blanks around it do not matter."""
    assert match_hint(hint, SONNET) == level


def test_only_the_best_level_is_kept():
    """Of the first hint that matches anything."""
    other = Model(name="claude", provider="p", model="x")
    followed = follow_hints(["nothing", "claude"], [SONNET, other])
    assert (followed.models, followed.hint, followed.match) == ([other], "claude", "exact")


def test_hints_that_match_nothing_leave_everything():
    """They are wishes."""
    assert follow_hints(["nothing"], [SONNET]).models == [SONNET]


# --- scores ----------------------------------------------------------------------------------------------------------


def test_the_scale_of_cost_is_anchored():
    """$1 is 0, $0.00001 is 1, and every factor of ten a fifth."""
    scores = [cost_score(Decimal(10) ** power) for power in range(-6, 2)]
    assert scores == [1, 1, Fraction(4, 5), Fraction(3, 5), Fraction(2, 5), Fraction(1, 5), 0, 0]
    assert (cost_score(Decimal(0)), cost_score(None)) == (1, 0)


@given(st.decimals(0, 2), st.decimals(0, 2))
def test_what_costs_more_never_scores_more(one: Decimal, other: Decimal):
    """However close they are."""
    assert (one <= other) <= (cost_score(one) >= cost_score(other))


def test_tiers_are_scores():
    """In quarters; an unknown one is the lowest."""
    assert [tier_score(tier) for tier in (None, 1, 3, 5)] == [0, 0, Fraction(1, 2), 1]


def test_scores_are_weighed_exactly():
    """One third stays one third."""
    priorities = priorities_of(ModelPreferences(cost_priority=1, speed_priority=1, intelligence_priority=1))
    assert weigh_scores(priorities, (Fraction(1), Fraction(0), Fraction(0))) / sum(priorities) == Fraction(1, 3)
    assert priorities_of(None) == (0, 0, 0)
