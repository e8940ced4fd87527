"""Rules: which one decides, and why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.checks.policy_rules import ALLOW_ALL, Policy, Rule, decide, explain, find_mismatch
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.host.asks import origin, request

TOOLS = [Tool(name="f", input_schema={})]
FORM = ElicitRequestParams.form("Who?", {"type": "object", "properties": {}})
CALL = CallToolRequestParams.of("order", {"pieces": 1})
EFFECTS = st.sampled_from(["deny", "ask", "allow"])


def test_without_rules_a_person_is_asked():
    """Nothing is allowed by itself."""
    verdict = decide(Policy(), request(), origin())
    assert (verdict.effect, verdict.reason, verdict.rule) == ("ask", "default", None)


def test_without_a_person_the_answer_is_no():
    """Headless, asking becomes denying, and the reason says why."""
    verdict = decide(Policy(), request(), origin(), headless=True)
    assert (verdict.effect, verdict.reason) == ("deny", "no-reviewer")


def test_headless_can_be_allowed():
    """An operator may decide otherwise."""
    assert decide(Policy(headless="allow"), request(), origin(), headless=True).effect == "allow"


@given(st.lists(EFFECTS, min_size=1))
def test_deny_outranks_ask_outranks_allow(effects: list[str]):
    """In whatever order the rules are written."""
    policy = Policy(rules=tuple(Rule(effect=effect) for effect in effects))
    strongest = next(effect for effect in ("deny", "ask", "allow") if effect in effects)
    assert decide(policy, request(), origin()).effect == strongest


def test_the_first_of_the_matching_rules_is_named():
    """Within one effect, order counts."""
    first, second = Rule(effect="allow", max_tokens=500), Rule(effect="allow")
    assert decide(Policy(rules=(first, second)), request(), origin()).rule is first


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (Rule(effect="deny", server="command:*"), True),
        (Rule(effect="deny", server="url:*"), False),
        (Rule(effect="deny", server=origin().identity), True),
        (Rule(effect="deny", tools=True), False),
        (Rule(effect="deny", tools=False), True),
        (Rule(effect="deny", max_tokens=100), True),
        (Rule(effect="deny", max_tokens=99), False),
        (Rule(effect="deny", over_tokens=99), True),
        (Rule(effect="deny", over_tokens=100), False),
        (Rule(effect="deny", background=True), False),
        (Rule(effect="deny", background=False), True),
        (Rule(effect="deny", kind="elicitation"), False),
        (Rule(effect="deny", kind="sampling"), True),
    ],
)
def test_a_rule_matches_when_all_its_conditions_hold(rule: Rule, matches: bool):
    """Each condition by itself."""
    assert (decide(Policy(rules=(rule,)), request(), origin()).effect == "deny") == matches


@pytest.mark.parametrize(
    "conditions",
    [
        {"kind": "sampling", "name": "delete_*"},
        {"kind": "elicitation", "max_tokens": 5},
        {"kind": "tool", "tools": True},
        {"name": "pay", "over_tokens": 5},
        {"max_tokens": 5, "over_tokens": 5},
    ],
)
def test_a_rule_that_can_never_match_is_refused(conditions: dict[str, Any]):
    """Its author would believe that something is denied."""
    with pytest.raises(ValueError, match="never matches"):
        Rule(effect="deny", **conditions)


def test_tools_and_background_are_seen():
    """The other half of the two conditions."""
    policy = Policy(rules=(Rule(effect="deny", tools=True), Rule(effect="deny", background=True)))
    assert decide(policy, request(tools=TOOLS), origin()).effect == "deny"
    assert decide(policy, request(), origin(call=None)).effect == "deny"
    assert decide(policy, request(), origin()).effect == "ask"


def test_rules_about_sampling_leave_elicitation_alone():
    """A limit on tokens says nothing about a form."""
    policy = Policy(
        rules=(
            Rule(effect="deny", over_tokens=1),
            Rule(effect="deny", kind="sampling"),
            Rule(effect="deny", tools=True),
        )
    )
    assert decide(policy, FORM, origin()).effect == "ask"
    assert decide(Policy(rules=(Rule(effect="deny"),)), FORM, origin()).effect == "deny"


def test_the_name_a_server_gives_itself_does_not_count():
    """Two servers of one name are two servers: only the identity is compared."""
    mine, theirs = origin(), origin(command=["python", "evil.py"])
    policy = Policy(rules=(Rule(effect="allow", server=mine.identity),))
    assert decide(policy, request(), mine).effect == "allow"
    assert decide(policy, request(), theirs).effect == "ask"


def test_explain_names_every_rule_and_the_decision():
    """One line per rule, in the order they are weighed, then the verdict."""
    policy = Policy(rules=(Rule(effect="allow"), Rule(effect="deny", over_tokens=1000)))
    lines = explain(policy, request(), origin())
    assert lines == [
        "deny (server=*, over_tokens=1000): the request is for 100 tokens",
        "allow (server=*): matches",
        "=> allow: allow (server=*)",
    ]
    assert explain(Policy(), request(), origin(), headless=True)[-1].startswith("=> deny: nobody can be asked")


def test_a_policy_can_be_read_from_plain_data():
    """Configuration is data; a misspelt condition is an error, not a rule that matches everything."""
    policy = msgspec.convert({"rules": [{"effect": "deny", "tools": True}], "default": "allow"}, Policy)
    assert decide(policy, request(), origin()).effect == "allow"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"rules": [{"effect": "allow", "tool": True}]}, Policy)


def test_allow_all_allows():
    """What it says."""
    assert decide(ALLOW_ALL, request(), origin(call=None), headless=True).effect == "allow"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Rule(effect="allow"), None),
        (Rule(effect="allow", kind="tool"), None),
        (Rule(effect="allow", kind="tool", name="or*"), None),
        (Rule(effect="allow", name="look"), "the tool is 'order'"),
        (Rule(effect="allow", read_only=False), None),
        (Rule(effect="allow", read_only=True), "the tool is not marked read-only"),
        (Rule(effect="allow", kind="sampling"), "it is the call of a tool"),
        (Rule(effect="allow", max_tokens=5), "it is the call of a tool"),
    ],
)
def test_calls_of_tools_have_rules_of_their_own(rule: Rule, why: str | None):
    """By the name of the tool, and by what its server says of it."""
    assert find_mismatch(rule, CALL, origin()) == why


def test_a_mark_counts_where_a_rule_says_so():
    """It is the server's word."""
    marked = Tool(name="order", input_schema={}, annotations=ToolAnnotations(read_only_hint=True))
    asked = msgspec.structs.replace(origin(), tool=marked)
    assert find_mismatch(Rule(effect="allow", read_only=True), CALL, asked) is None
    assert find_mismatch(Rule(effect="allow", read_only=False), CALL, asked) == "the tool is marked read-only"


def test_rules_about_tools_leave_the_rest_alone():
    """A name is no name of sampling."""
    assert find_mismatch(Rule(effect="deny", name="*"), request(), origin()) == "it is sampling"
    assert find_mismatch(Rule(effect="deny", read_only=False), FORM, origin()) == "it is an elicitation"


def test_a_denial_goes_by_coarser_identities_and_a_permission_does_not():
    """A change of folder escapes no rule that denies or asks, and inherits none that allows."""
    moved = origin(coarser=("coarse:1", "command:old"))
    for effect, default in (("deny", "allow"), ("ask", "allow"), ("allow", "deny")):
        for name in moved.coarser:
            policy = Policy(rules=(Rule(effect=effect, server=name),), default=default)
            assert decide(policy, request(), moved).effect == ("deny" if effect == "allow" else effect), (effect, name)
