"""Conditions in CEL: what holds for which call, what is unclear, and what is refused when it is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.host.checks.conditions import MAX_BYTES, MAX_ITEMS, CallFacts, Situation, Unclear, read_condition
from antiphon.host.checks.policy_rules import Effect, Policy, Rule, decide
from antiphon.wire.common import Implementation
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.host.asks import origin

NOON = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
TRANSFER = 'tool == "transfer" && args.amount > 100'


def nested(depth: int, inside: object = 1) -> dict[str, Any]:
    """Nest objects."""
    for _ in range(depth):
        inside = {"a": inside}
    return {"a": inside}


def found(condition: str, arguments: object, **more: Any) -> bool | None:
    """Evaluate a condition for a call; ``None`` if it is unclear. Text is taken as JSON."""
    raw = msgspec.Raw(arguments.encode("utf-8", "surrogatepass")) if isinstance(arguments, str) else arguments
    params = CallToolRequestParams.of(more.pop("tool", "transfer"), raw)
    facts = CallFacts(params, more.pop("where", origin()), Situation(now=NOON, **more))
    try:
        return read_condition(condition).holds(facts)
    except Unclear:
        return None


@pytest.mark.parametrize(
    ("condition", "arguments", "holds"),
    [
        (TRANSFER, {"amount": 101}, True),
        (TRANSFER, {"amount": 100}, False),
        (TRANSFER, {"amount": 100.5}, True),
        (TRANSFER, {"amount": -1}, False),
        (TRANSFER, {}, None),
        (TRANSFER, {"Amount": 500}, None),
        (TRANSFER, {"\u0430mount": 500}, None),  # Cyrillic
        (TRANSFER, {"amount": "500"}, None),
        (TRANSFER, {"amount": None}, None),
        (TRANSFER, {"amount": True}, None),
        (TRANSFER, {"amount": [500]}, None),
        (TRANSFER, {"amount": {"value": 500}}, None),
        (TRANSFER, {"amount": float("nan")}, None),
        (TRANSFER, '{"amount": 1e999}', None),
        (TRANSFER, '{"amount": NaN}', None),
        (TRANSFER, '{"amount": -Infinity}', None),
        (TRANSFER, {"amount": 2**63 - 1}, True),
        (TRANSFER, '{"amount": 9223372036854775808}', None),
        (TRANSFER, f'{{"amount": {"9" * 5000}}}', None),
        (TRANSFER, '{"amount": 5, "amount": 500}', None),
        (TRANSFER, '{"amount": 500, "to": {"a": 1, "a": 2}}', None),
        (TRANSFER, '{"amount": 500, "\\u0061mount": 5}', None),
        (TRANSFER, '{"amount": 500', None),
        (TRANSFER, "[500]", None),
        (TRANSFER, "null", None),
        (TRANSFER, {"amount": 500, "note": "x" * 60_000}, True),
        (TRANSFER, {"amount": 500, "note": "x" * MAX_BYTES}, None),
        (TRANSFER, {"amount": 500, "list": [0] * (MAX_ITEMS - 4)}, True),
        (TRANSFER, {"amount": 500, "list": [0] * MAX_ITEMS}, None),
        (TRANSFER, {"amount": 500, **{f"m{n}": n for n in range(MAX_ITEMS)}}, None),
        (TRANSFER, {"amount": 500, **nested(15)}, True),
        (TRANSFER, {"amount": 500, **nested(25)}, None),
        (TRANSFER, '{"amount": 500, "deep": ' + "[" * 5_000 + "]" * 5_000 + "}", None),
        (TRANSFER, '{"amount": 500, "deep": ' + '{"a":' * 3_000 + "1" + "}" * 3_000 + "}", None),
        ("has(args.amount) && args.amount > 100", {}, False),
        ("!has(args.amount) || args.amount > 100", {}, True),
        ("has(args.to.iban)", {"to": {}}, False),
        ("has(args.to.iban)", {"to": "text"}, None),
        ("has(args.to.iban)", {}, None),
        ('args["to-account"] == "1"', {"to-account": "1"}, True),
        ('"to" in args', {"to": None}, True),
        ("args.to == null", {"to": None}, True),
        ('args.to == "bob"', {"to": "b\u043eb"}, False),  # Cyrillic
        ('args.to == "bob"', {"to": "bob\u200b"}, False),
        ('args.to == "bob"', {"to": "\uff42ob"}, False),
        ('args.to == "bob"', {"to": "BOB"}, False),
        ('args.to == "bob"', {"to": "bob\x00"}, False),
        ('args.to == "é"', {"to": "e\u0301"}, False),
        ('args.to.startsWith("b")', '{"to": "\\ud800bob"}', None),
        ('args.to.endsWith("@example.com")', {"to": "a@example.com"}, True),
        ('args.to.endsWith("@example.com")', {"to": "a@example.com.evil.org"}, False),
        ('args.to.endsWith("@example.com")', {"to": ["a@example.com"]}, None),
        ('args.to.all(x, x.endsWith("@example.com"))', {"to": ["a@example.com", "b@example.com"]}, True),
        ('args.to.all(x, x.endsWith("@example.com"))', {"to": ["a@example.com", "b@evil.org"]}, False),
        ('args.to.all(x, x.endsWith("@example.com"))', {"to": ["a@example.com", 5]}, None),
        ('args.to.all(x, x.endsWith("@example.com"))', {"to": []}, True),
        ("args.to.all(x, x > 0)", {"to": [1] * 900}, True),
        ("args.to.exists_one(x, x == 3)", {"to": [1, 2, 3]}, True),
        ('args.command.matches("^git (status|log|diff)$")', {"command": "git log"}, True),
        ('args.command.matches("^git (status|log|diff)$")', {"command": "git log; rm -rf /"}, False),
        ('args.command.matches("^git (status|log|diff)$")', {"command": "git log\nrm -rf /"}, False),
        ('args.command.matches("(a+)+$")', {"command": "a" * 3_900 + "!"}, False),
        ('args.command.matches("(a+)+$")', {"command": "a" * 60_000 + "!"}, None),
        ('args.command.matches("(a|aa)+$") || true', {"command": "a" * 60_000 + "!"}, None),
        ("args.amount / args.by > 1", {"amount": 5, "by": 0}, None),
        ("args.amount + args.by > 1", {"amount": 2**63 - 1, "by": 1}, None),
        ("args.amount", {"amount": 5}, None),
        ("args.amount", {"amount": True}, True),
        ("size(args) == 0", {}, True),
        ("size(args.list) < 10", {"list": {"a": 1}}, True),
        ('type(args.list) == list && "x" in args.list', {"list": ["x"]}, True),
        ("args.list[7] == 1", {"list": [1]}, None),
        ("args.list[-1] == 1", {"list": [1]}, None),
        ("args.a.a.a == 1 || args.amount > 100", {"amount": 500}, True),
    ],
)
def test_calls_are_compared_as_they_are(condition: str, arguments: object, holds: bool | None):
    """A member that is absent, of another type, given twice or beyond the bounds makes the condition unclear."""
    assert found(condition, arguments) is holds


@pytest.mark.parametrize(
    ("condition", "more", "holds"),
    [
        ("annotations.readOnlyHint", {}, False),
        ("annotations.destructiveHint && annotations.openWorldHint", {}, True),
        ("annotations.readOnlyHint", {"annotations": ToolAnnotations(read_only_hint=True)}, True),
        ("annotations.destructiveHint", {"annotations": ToolAnnotations(destructive_hint=False)}, False),
        ('principal == ""', {}, True),
        ('principal == "anna"', {"principal": "anna"}, True),
        ('server.target == "python catalogue.py" && server.identity.startsWith("command:")', {}, True),
        ('server.name == "shop"', {"server": Implementation(name="shop", version="1")}, True),
        ('time.hour == 12 && time.minute == 30 && time.weekday == 4 && time.date == "2026-11-26"', {}, True),
        ('"read_mail" in calls && calls.read_mail == 2', {"calls": {"read_mail": 2}}, True),
        ("calls.read_mail == 2", {}, None),
    ],
)
def test_all_facts_of_a_call_can_be_named(condition: str, more: dict[str, Any], holds: bool | None):
    """The server's word on its tool, who calls, the time, and what was called before."""
    calls = more.pop("calls", {})
    tool = Tool(name="transfer", input_schema={}, annotations=more.pop("annotations", None))
    assert found(condition, {}, where=msgspec.structs.replace(origin(), tool=tool, **more), calls=calls) is holds


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("arg.amount > 1", "did you mean 'args'"),
        ("args.amount >", "not CEL"),
        ('args.to.startWith("a")', "did you mean 'startsWith'"),
        ("now.getHours() > 3", "there is no"),
        ("args.l.exists(x, args.m.exists(y, x == y))", "within another macro"),
        ("args.l.exists(x, x in args.m)", "within a macro"),
        ("args.l.all(x, x in links)", "within a macro"),
        ("args.l.exists(x, x + x == 4)", "a macro adds nothing"),
        ("args.l.map(x, x) == [1]", "there is no function map"),
        ("args.l.filter(x, x > 1) == [1]", "there is no function filter"),
        ('args.l.exists(x, x.matches("a"))', "within a macro"),
        ("args.l.matches(args.m)", "in quotes"),
        ('args.l.matches("(")', "the pattern cannot be read"),
        ('args.l.matches("\\\\w+")', "classes"),
        ('args.l.matches(r"\\d+")', "classes"),
        ('args.l.matches("((a{99}){99}){99}")', "{n}"),
        (f'args.l.matches("{"a" * 100}")', "100 characters"),
        ("+".join(["args.s"] * 20) + ' == "x"', "at most 10"),
        (" || ".join(["args.amount == 1"] * 200), "2000 characters"),
        ("(" * 500 + "true" + ")" * 500, "not CEL"),
        ('args.l == """a"""', "quotes"),
        ("__import__('os')", "there is no function"),
        ("", "not CEL"),
    ],
)
def test_what_is_refused_says_what_to_write(condition: str, remedy: str):
    """When the rule is made, not when a call comes."""
    with pytest.raises(ValueError, match="when: ") as caught:
        Rule(effect="allow", when=condition)
    assert remedy in str(caught.value)


def test_one_text_is_compiled_once():
    """Rules with the same condition share it."""
    assert read_condition(TRANSFER) is read_condition(TRANSFER)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    """The name of the extra."""
    monkeypatch.setitem(__import__("sys").modules, "cel", None)
    with pytest.raises(ValueError, match=r"pip install '\./antiphon\[host\]'"):
        Rule(effect="allow", when="args.without_the_library == 1")


@pytest.mark.parametrize("arguments", [[0] * 900, ["x" * 60] * 900, [{"a": 1}] * 400])
def test_a_condition_that_would_take_long_is_unclear(arguments: list[object]):
    """Many visits of many items are more than its budget."""
    visits = " && ".join(["args.l.all(x, x != 5)"] * 8)
    assert found(visits, {"l": arguments}) is None
    assert found(visits, {"l": arguments[:50]}) is True


@pytest.mark.parametrize(
    ("arguments", "holds"),
    [
        ({"url": "https://example.com/a"}, True),
        ({"url": "https://example.com/a?data"}, False),
        ({"url": "https://example.com/"}, False),
        ({"url": "HTTPS://example.com/a"}, False),
        ({"url": ["https://example.com/a"]}, False),
        ({"url": None}, False),
        ({}, None),
    ],
)
def test_addresses_are_compared_letter_by_letter(arguments: dict[str, object], holds: bool | None):
    """What is appended would be sent."""
    assert found("args.url in links", arguments, links=("https://example.com/a",)) is holds
    assert found("args.url in links", arguments) in (False, None)


def test_addresses_count_for_what_a_condition_costs():
    """Even if the arguments are short."""
    many = tuple(f"https://example.com/{at}/{'x' * 400}" for at in range(100))
    visits = " && ".join(["links.all(x, x != tool)"] * 16)
    assert found("args.url in links", {"url": many[99]}, links=many) is True
    assert found(visits, {}, links=many) is None
    assert found('"a" in links || tool.matches("a")', {}, links=many) is None


EFFECTS: list[Effect] = ["deny", "ask", "allow"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
FAILS = ["args.absent_member > 1", "args.amount.x.y", 'args.amount.matches("a")', "1 / 0 == 1", "args[0] == 1"]


@example(rules=[("ask", None)], arguments={}, headless=True)
@given(
    st.lists(st.tuples(st.sampled_from(EFFECTS), st.sampled_from([*FAILS, None])), min_size=1),
    st.dictionaries(st.sampled_from(["amount", "to"]), JSON),
    st.booleans(),
)
def test_a_rule_that_fails_never_allows(
    rules: list[tuple[Effect, str | None]], arguments: dict[str, object], headless: bool
):
    """Beside any other rules, for any arguments, and with a policy that allows everything else."""
    made = tuple(Rule(effect=effect, when=condition) for effect, condition in rules)
    policy = Policy(rules=(*made, Rule(effect="allow", when=FAILS[0])), default="allow", headless="allow")
    try:
        params = CallToolRequestParams.of("transfer", arguments)
    except (ValueError, TypeError, msgspec.MsgspecError):
        return
    verdict = decide(policy, params, origin(), headless=headless, situation=Situation(now=NOON))
    assert verdict.effect == "deny" or (verdict.effect == "ask" and not headless)


@given(st.dictionaries(st.sampled_from(["amount", "to"]), SCALARS | JSON), st.dictionaries(st.text(), JSON, max_size=2))
def test_no_arguments_break_a_condition(read: dict[str, object], unread: dict[str, object]):
    """It holds, does not hold or is unclear, whatever the arguments are that it reads, and those beside them."""
    try:
        raw = msgspec.json.encode(unread | read)
    except (ValueError, TypeError):
        return
    assert found('args.amount > 100 || args.to == "bob"', msgspec.Raw(raw)) in (True, False, None)


def test_an_unclear_rule_asks_about_the_arguments():
    """And says so; no grant covers such a call."""
    policy = Policy(rules=(Rule(effect="allow", when=TRANSFER),), default="deny")
    verdict = decide(policy, CallToolRequestParams.of("transfer", {}), origin())
    assert (verdict.effect, verdict.reason, verdict.is_exact) == ("ask", "unclear", True)


def test_a_condition_is_about_tools_only():
    """Even a failing one changes nothing for other asks."""
    from tests.host.asks import request

    policy = Policy(rules=(Rule(effect="allow", when=FAILS[0]),), default="deny")
    assert decide(policy, request(), origin()).effect == "deny"


def test_a_rule_is_checked_as_configuration_errors_are():
    """A wrong type is an error of its own."""
    with pytest.raises(ConfigError):
        Rule(effect="allow", when=5)  # pyright: ignore[reportArgumentType]
