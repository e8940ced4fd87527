"""Options that a program sets: a wrong value is refused where it is written, as it is in a file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.errors import ConfigError
from antiphon.host import Budget, Cap, Limits, Policy, Redaction, Rule

WRONG: dict[str, Callable[[], object]] = {
    "Policy(default=) is one of deny, ask, allow, not 'Deny'": lambda: Policy(default="Deny"),
    "Policy(headless=) is one of deny, allow, not 'ask'": lambda: Policy(headless="ask"),
    "Policy(rules=) cannot be used: Expected `object`, got `str` - at `$[0]`": lambda: Policy(rules=("deny",)),
    "Rule(effect=) is one of deny, ask, allow, not 'denny'": lambda: Rule(effect="denny"),
    "Rule(kind=) is one of sampling, elicitation, tool, embedding, not 'Sampling'": lambda: Rule(
        effect="deny", kind="Sampling"
    ),
    "Redaction(request=) is one of allow, mask, block, not 'Block'": lambda: Redaction(request="Block"),
    "Limits(per_minute=) cannot be used: Expected `int | null`, got `str`": lambda: Limits(per_minute="3"),
    "Cap(tokens=) cannot be used: Expected `int | null`, got `float`": lambda: Budget(call=Cap(tokens=0.5)),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_option_is_refused_where_it_is_written(said: str):
    """Otherwise a misspelt default would allow what it should deny, and a misspelt kind would never match."""
    with pytest.raises(ConfigError) as error:
        WRONG[said]()
    assert str(error.value) == said


def test_right_options_are_kept_as_they_are():
    """A list of rules does as well as a tuple, as in a file."""
    rule = Rule(effect="allow", kind="tool", max_tokens=100)
    assert Policy(rules=[rule]).rules == [rule]
    assert Budget(call=Cap(money=5)).call.money == 5
    assert Limits(per_minute=None).per_minute is None
