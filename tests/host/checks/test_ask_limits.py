"""Bounds for each server and each call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.errors import ConfigError
from antiphon.host import Budget, Cap, Policy, Redaction, Rule
from antiphon.host.checks.ask_limits import AskGate, LimitReached, Limits
from antiphon.host.checks.labels import LabelRule
from antiphon.host.checks.result_rules import ResultRule
from antiphon.wire.origin import Round
from tests.host.asks import origin


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def reached(gate: AskGate, ask, max_tokens: int = 0) -> str | None:
    """Say which bound refuses an ask; ``None`` if it is let in."""
    try:
        gate.enter(ask, max_tokens)
    except LimitReached as limit:
        return str(limit)
    return None


def test_a_server_asks_so_often_in_any_minute():
    """The window moves; another server has its own."""
    clock = Clock()
    gate = AskGate(Limits(per_minute=2), clock=clock)
    assert [reached(gate, origin(str(n))) for n in range(3)] == [None, None, "per_minute"]
    assert reached(gate, origin("x", command=["other"], call="call-2")) is None
    clock.now = 59.9
    assert reached(gate, origin("3")) == "per_minute"
    clock.now = 60.0
    assert reached(gate, origin("4")) is None


def test_what_is_refused_is_not_counted():
    """Or a server that asks all the time would never be let in again."""
    clock = Clock()
    gate = AskGate(Limits(per_minute=1), clock=clock)
    gate.enter(origin("1"))
    clock.now = 30.0
    assert reached(gate, origin("2")) == "per_minute"
    clock.now = 60.0
    assert reached(gate, origin("3")) is None


def test_so_many_are_open_at_once():
    """Of one server, whichever calls they belong to; one that leaves makes room."""
    gate = AskGate(Limits(concurrent=2))
    first = gate.enter(origin("1", call="a"))
    gate.enter(origin("2", call="b"))
    assert reached(gate, origin("3", call="c")) == "concurrent"
    gate.leave(first)
    assert reached(gate, origin("4", call="d")) is None


def test_a_call_asks_so_often():
    """A tool loop without end ends; the counter is the call's, not the server's."""
    gate = AskGate(Limits(per_call=3))
    for number in range(3):
        gate.leave(gate.enter(origin(str(number), call="loop")))
    assert reached(gate, origin("3", call="loop")) == "per_call"
    assert reached(gate, origin("4", call="other")) is None


def test_a_call_has_so_many_open_at_once():
    """A recursion keeps each of its asks open."""
    gate = AskGate(Limits(concurrent_per_call=2))
    assert [reached(gate, origin(str(n), call="deep")) for n in range(3)] == [None, None, "concurrent_per_call"]


def test_a_call_goes_so_many_rounds():
    """As its origin says."""
    gate = AskGate(Limits(rounds=5))
    assert reached(gate, origin("1", round=Round(n=5, max=64))) is None
    assert reached(gate, origin("2", round=Round(n=6, max=64))) == "rounds"


def test_a_request_asks_for_so_many_tokens():
    """More is refused."""
    gate = AskGate(Limits(max_tokens=100))
    assert [reached(gate, origin(), tokens) for tokens in (100, 101)] == [None, "max_tokens"]


def test_so_many_reviews_wait():
    """A person is not buried."""
    gate = AskGate(Limits(pending_reviews=1))
    admitted = gate.enter(origin())
    gate.begin_review(admitted)
    with pytest.raises(LimitReached, match="pending_reviews"):
        gate.begin_review(admitted)
    gate.end_review(admitted)
    gate.begin_review(admitted)


def test_no_bound_is_no_bound():
    """``None`` everywhere."""
    none = Limits(
        per_minute=None, concurrent=None, pending_reviews=None, per_call=None, concurrent_per_call=None, rounds=None,
        max_tokens=None,
    )  # fmt: skip
    gate = AskGate(none)
    assert {reached(gate, origin(str(n)), 10**9) for n in range(500)} == {None}


def test_what_is_remembered_is_bounded():
    """Servers and calls without end cannot fill the memory; what is open is never forgotten."""
    gate = AskGate(Limits(concurrent=None))
    for number in range(10_500):
        gate.leave(gate.enter(origin(str(number), call=f"call-{number}", command=[f"/servers/{number}"])))
    assert (len(gate._recent), len(gate._of_call), len(gate._open)) == (10_000, 10_000, 0)


def test_without_a_limit_no_ask_of_the_last_minute_is_kept():
    """A busy gateway would keep the times of hundreds of thousands."""
    gate = AskGate(Limits(per_minute=None))
    for number in range(500):
        gate.count(origin(str(number), call=f"call-{number}"))
    assert not gate._recent


def test_a_call_is_stopped():
    """Its asks, and no other's."""
    gate = AskGate(Limits())
    assert not gate.is_stopped(origin("1", call="a"))
    gate.stop(origin("1", call="a"))
    assert gate.is_stopped(origin("2", call="a"))
    assert not gate.is_stopped(origin("2", call="b"))
    assert not gate.is_stopped(origin("1", call=None))


WRONG: dict[str, Callable[[], object]] = {
    "Policy(default=) is one of deny, ask, allow, flow, not 'Deny'": lambda: Policy(default="Deny"),
    "Policy(headless=) is one of deny, allow, not 'ask'": lambda: Policy(headless="ask"),
    "Policy(rules=) cannot be used: Expected `object`, got `str` - at `$[0]`": lambda: Policy(rules=("deny",)),
    "Rule(effect=) is one of deny, ask, allow, not 'denny'": lambda: Rule(effect="denny"),
    "Rule(kind=) is one of sampling, elicitation, tool, not 'Sampling'": lambda: Rule(effect="deny", kind="Sampling"),
    "Redaction(request=) is one of allow, mask, block, not 'Block'": lambda: Redaction(request="Block"),
    "Limits(per_minute=) cannot be used: Expected `int | null`, got `str`": lambda: Limits(per_minute="3"),
    "Cap(tokens=) cannot be used: Expected `int | null`, got `float`": lambda: Budget(call=Cap(tokens=0.5)),
    "Cap(tokens=) cannot be used: Expected `int` >= 0": lambda: Budget(call=Cap(tokens=-5)),
    "Cap(money=) cannot be used: Expected `int` >= 0": lambda: Budget(day=Cap(money=-1)),
    "Limits(concurrent=) cannot be used: Expected `int` >= 0": lambda: Limits(concurrent=-1),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_option_is_refused_where_it_is_written(said: str):
    """Otherwise a misspelt default would allow what it should deny, and a misspelt kind would never match."""
    with pytest.raises(ConfigError) as error:
        WRONG[said]()
    assert str(error.value) == said


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rule(effect="deny", server="shop"),
        lambda: LabelRule(labels=(), server="shop"),
        lambda: ResultRule(effect="mask", server="shop"),
    ],
)
def test_a_name_in_place_of_an_identity_is_refused(make: Callable[[], object]):
    """A rule that denies a server by its name would deny nothing."""
    with pytest.raises(ValueError, match=r"server: the name 'shop' never matches.* antiphon policy show --server shop"):
        make()


def test_right_options_are_kept_as_they_are():
    """A list of rules does as well as a tuple, as in a file."""
    rule = Rule(effect="allow", kind="sampling", max_tokens=100)
    assert Policy(rules=[rule]).rules == [rule]
    assert Budget(call=Cap(money=5)).call.money == 5
    assert Limits(per_minute=None).per_minute is None
