"""The policy: rules that allow an ask, deny it or leave it to a person, with the reason.

Pure: no person, no clock, no I/O. Remembered permissions are in ``grants``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.checks.ask_limits import check_options
from antiphon.host.checks.conditions import CallFacts, Situation, Unclear, read_condition
from antiphon.host.checks.labels import LabelRule, find_labels, meets_all
from antiphon.host.checks.people import MOST_PEOPLE, Demands, check_name
from antiphon.host.checks.result_rules import ResultRule
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams

Effect = Literal["deny", "ask", "allow"]
Kind = Literal["sampling", "elicitation", "tool"]
Asked = CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams
Reason = Literal["rule", "default", "no-reviewer", "definition", "unclear", "flow"]

_ORDER: tuple[Effect, ...] = ("deny", "ask", "allow")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a policy; it matches when all of its conditions hold."""

    effect: Effect
    server: str = "*"
    """Glob over the server's *identity* (``url:<sha256>``, ``command:<sha256>``), never over the name it declares. A
    deny or an ask also matches a coarser identity (``coarse:<sha256>``), so that starting the server in another folder
    does not evade it."""
    kind: Kind | None = None
    """Only sampling, only elicitation, or only tool calls (where the client has them confirmed)."""
    tools: bool | None = None
    """Only requests with tools (true) or without (false)."""
    max_tokens: int | None = None
    """Only requests for at most this many tokens."""
    over_tokens: int | None = None
    """Only requests for more than this many tokens."""
    background: bool | None = None
    """Only asks that belong to no call of ours, or nobody knows to which (true), or only the others (false)."""
    name: str | None = None
    """Only calls of tools whose name matches this glob."""
    read_only: bool | None = None
    """Only calls of tools that their server marks as read-only (true), or does not (false). The server may lie: name
    the ``server`` that you trust in this."""
    any_definition: bool | None = None
    """An allow also covers a tool whose definition its server has changed (true). Without it a person is asked."""
    when: str | None = None
    """Only calls of tools for which this condition in CEL holds: ``'tool == "transfer" && args.amount > 100'``. A
    person is asked where it is unclear whether it holds, such as without an ``amount``. Needs ``antiphon[host]``."""

    to: tuple[str, ...] | None = None
    """Of a call of a tool that is asked about: only these people may decide it, and only on a page on which they have
    signed in. ``"group:finance"``, ``"sub:SUBJECT"`` or a verified e-mail address."""
    people: Annotated[int, msgspec.Meta(ge=1, le=MOST_PEOPLE)] | None = None
    """Of a call of a tool that is asked about: how many people have to approve exactly the same."""

    def __post_init__(self) -> None:
        check_options(self)
        for name in self.to or ():
            check_name(name)
        kinds = {kind for kind, names in _ABOUT.items() if any(getattr(self, name) is not None for name in names)}
        if len(kinds | ({self.kind} if self.kind else kinds)) > 1:
            raise ValueError(f"never matches: {_KINDS}")
        if self.max_tokens is not None and self.over_tokens is not None and self.over_tokens >= self.max_tokens:
            raise ValueError("never matches: over_tokens is not below max_tokens")
        if self.demands and self.effect != "ask":
            raise ValueError('to and people are for a rule with effect = "ask"')
        if self.when is not None:
            try:
                read_condition(self.when)
            except (ValueError, ConfigError) as error:
                raise ValueError(f"when: {error}") from None

    @property
    def demands(self) -> Demands:
        """Whom the rule leaves a call to."""
        return Demands(to=(self.to,) if self.to else (), people=self.people or 1)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, and what happens when none matches.

    A deny outranks an ask, an ask outranks an allow; among rules of one effect the first that matches is named.
    """

    rules: tuple[Rule, ...] = ()
    default: Effect | Literal["flow"] = "ask"
    """``flow``: a call of a tool is asked about the first time, if its server says that it destroys something, and if
    it could send what is private by order of a stranger (see ``labels``). All that is no call of a tool is asked
    about."""
    headless: Literal["deny", "allow"] = "deny"
    """What "ask" becomes if no person can be asked."""
    labels: tuple[LabelRule, ...] = ()
    """The labels of tools; others have those that a person gave them at first use, or that their server claims."""
    results: tuple[ResultRule, ...] = ()
    """What happens to results of tools in which something is found; without such rules nobody looks at them."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def has_conditions(self) -> bool:
        """Whether a rule has a ``when``."""
        return any(rule.when is not None for rule in self.rules)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that its conditions use."""
        return frozenset[str]().union(
            *(read_condition(rule.when).names for rule in self.rules if rule.when is not None)
        )


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The effect, and the rule it comes from (``None``: no rule matched).

    The reason is ``definition`` if the rule would allow it, but not with the changed definition of its tool, and
    ``unclear`` if it cannot be found out whether the rule matches. It is ``flow`` if all three labels meet.
    """

    effect: Effect
    reason: Reason
    rule: Rule | None = None
    demands: Demands = Demands()
    """Whom all rules that match leave the call to, taken together."""

    @property
    def is_exact(self) -> bool:
        """Whether a person is to be asked about these very arguments, so that no grant covers the call."""
        return self.effect == "ask" and (self.condition is not None or self.reason == "flow" or bool(self.demands))

    @property
    def condition(self) -> str | None:
        """The condition of the rule, if it has one."""
        return None if self.rule is None else self.rule.when


ALLOW_ALL = Policy(default="allow")
"""Allows everything. For tests, demonstrations and your own servers."""


def decide(
    policy: Policy,
    params: Asked,
    origin: Origin,
    *,
    headless: bool = False,
    redefined: bool = False,
    situation: Situation | None = None,
) -> Verdict:
    """Apply the rules to one ask.

    Args:
        policy: the rules.
        params: the ask.
        origin: who asks, and why.
        headless: whether no person can be asked.
        redefined: whether the definition of the tool has changed since it was allowed.
        situation: what conditions may depend on; default now, without earlier calls.
    """
    found = _find_matches(policy, params, origin, situation) if policy.rules else ()
    verdict = _judge_ask(policy, params, origin, found, headless=headless, redefined=redefined, situation=situation)
    if not found or verdict.effect == "deny":
        return verdict
    demands = [rule.demands for rule, _ in found if rule.to is not None or rule.people is not None]
    if not demands:
        return verdict
    if headless:
        # What people have to decide is never allowed because there are none.
        return msgspec.structs.replace(verdict, effect="deny", reason="no-reviewer")
    lists = tuple(dict.fromkeys(names for each in demands for names in each.to))
    return msgspec.structs.replace(verdict, demands=Demands(to=lists, people=max(each.people for each in demands)))


def _judge_ask(
    policy: Policy,
    params: Asked,
    origin: Origin,
    found: Sequence[tuple[Rule, str]],
    *,
    headless: bool,
    redefined: bool,
    situation: Situation | None,
) -> Verdict:
    rule, unclear = found[0] if found else (None, "")
    if unclear:
        return Verdict(effect="deny" if headless else "ask", reason="unclear", rule=rule)
    if rule is not None:
        verdict = Verdict(effect=rule.effect, reason="rule", rule=rule)
    elif policy.default == "flow":
        verdict = _decide_flow(policy, params, origin, situation or Situation(), headless=headless)
    else:
        verdict = Verdict(effect=policy.default, reason="default")
    if redefined and rule is not None and rule.effect == "allow" and not any(one.any_definition for one, _ in found):
        verdict = Verdict(effect="ask", reason="definition", rule=rule)
    if verdict.reason == "definition" and headless:
        return Verdict(effect="deny", reason="definition", rule=rule)
    if verdict.effect == "ask" and headless:
        return Verdict(effect=policy.headless, reason="no-reviewer", rule=rule)
    return verdict


def _decide_flow(policy: Policy, params: Asked, origin: Origin, situation: Situation, *, headless: bool) -> Verdict:
    if not isinstance(params, CallToolRequestParams):
        return Verdict(effect="ask", reason="default")
    if meets_all(find_labels(policy.labels, params.name, origin, situation.given), situation.flowed):
        return Verdict(effect="deny" if headless else "ask", reason="flow")
    hints = None if origin.tool is None else origin.tool.annotations
    is_safe = situation.is_known and (hints is None or hints.destructive_hint is not True)
    return Verdict(effect="allow" if is_safe else "ask", reason="default")


def explain(
    policy: Policy, params: Asked, origin: Origin, *, headless: bool = False, situation: Situation | None = None
) -> list[str]:
    """Explain a decision: a line for each rule, in the order of evaluation, why it matches or not; then the decision.

    Args:
        policy: the rules.
        params: the ask.
        origin: who asks, and why.
        headless: whether no person can be asked.
        situation: what conditions may depend on; default now, without earlier calls.
    """
    facts = _gather_facts(params, origin, situation, policy.labels)
    lines: list[str] = []
    for rule in rank_rules(policy):
        differs, unclear = _compare_rule(rule, params, origin, facts)
        doubt = f"it is unclear whether this matches: {unclear}" if unclear else "matches"
        lines.append(f"{_name_rule(rule)}: {differs or doubt}")
    verdict = decide(policy, params, origin, headless=headless, situation=situation)
    source = _name_rule(verdict.rule) if verdict.rule else f"no rule matches, the default is {policy.default}"
    source += ", and all three labels meet" if verdict.reason == "flow" else ""
    nobody = verdict.reason == "no-reviewer" or (verdict.reason == "unclear" and verdict.effect == "deny")
    because = f"nobody can be asked ({source})" if nobody else source
    return [*lines, f"=> {verdict.effect}: {because}"]


def find_mismatch(rule: Rule, params: Asked, origin: Origin, situation: Situation | None = None) -> str | None:
    """Return the condition of the rule that does not hold, or ``None`` if the rule matches, or may match."""
    return _compare_rule(rule, params, origin, _gather_facts(params, origin, situation))[0]


def _find_matches(policy: Policy, params: Asked, origin: Origin, situation: Situation | None) -> list[tuple[Rule, str]]:
    """Return the rules that match, the one that decides first, each with the reason if it is unclear."""
    facts = _gather_facts(params, origin, situation, policy.labels) if policy.has_conditions else None
    compared = ((rule, *_compare_rule(rule, params, origin, facts)) for rule in rank_rules(policy))
    found = [(rule, unclear) for rule, differs, unclear in compared if differs is None]
    # A rule that is unclear counts as one that asks, so that no rule after it allows the call, and comes before others
    # that ask, so that ``headless`` does not allow the call. One with a condition comes before one without, because no
    # grant covers what it asks about.
    return sorted(
        found, key=lambda pair: (_ORDER.index("ask" if pair[1] else pair[0].effect), not pair[1], pair[0].when is None)
    )


def _gather_facts(
    params: Asked, origin: Origin, situation: Situation | None, rules: Sequence[LabelRule] = ()
) -> CallFacts | None:
    if not isinstance(params, CallToolRequestParams):
        return None
    situation = situation or Situation()
    return CallFacts(params, origin, situation, find_labels(rules, params.name, origin, situation.given))


def _compare_rule(rule: Rule, params: Asked, origin: Origin, facts: CallFacts | None) -> tuple[str | None, str]:
    """Return what does not hold, and otherwise why it is unclear whether the rule matches."""
    differs = _find_difference(rule, params, origin)
    if differs is not None or rule.when is None or facts is None:
        return differs, ""
    try:
        return (None if read_condition(rule.when).holds(facts) else "the condition does not hold"), ""
    except Unclear as unclear:
        return None, str(unclear)


def _find_difference(rule: Rule, params: Asked, origin: Origin) -> str | None:
    names = (origin.identity,) if rule.effect == "allow" else origin.identities
    if not any(fnmatchcase(name, rule.server) for name in names):
        return f"the server is {origin.identity}"
    if rule.background is not None and rule.background != (origin.call is None):
        return "the ask belongs to a call" if rule.background else "the ask belongs to no call"
    kind = _find_kind(params)
    foreign = [name for other, names in _ABOUT.items() if other != kind for name in names]
    if rule.kind not in (None, kind) or any(getattr(rule, name) is not None for name in foreign):
        return f"it is {_SAID[kind]}"
    if kind == "sampling" and isinstance(params, CreateMessageRequestParams):
        return _sampling_mismatch(rule, params)
    return _tool_mismatch(rule, params, origin) if isinstance(params, CallToolRequestParams) else None


def _find_kind(params: Asked) -> Kind:
    if isinstance(params, CreateMessageRequestParams):
        return "sampling"
    return "elicitation" if isinstance(params, ElicitRequestParams) else "tool"


def _tool_mismatch(rule: Rule, params: CallToolRequestParams, origin: Origin) -> str | None:
    if rule.name is not None and not fnmatchcase(params.name, rule.name):
        return f"the tool is {params.name!r}"
    if rule.read_only is None:
        return None
    hints = origin.tool.annotations if origin.tool is not None else None
    marked = hints is not None and hints.read_only_hint is True
    if rule.read_only != marked:
        return "the tool is marked read-only" if marked else "the tool is not marked read-only"
    return None


def _sampling_mismatch(rule: Rule, params: CreateMessageRequestParams) -> str | None:
    if rule.tools is not None and rule.tools != bool(params.tools):
        return "the request brings no tools" if rule.tools else "the request brings tools"
    is_over = rule.max_tokens is not None and params.max_tokens > rule.max_tokens
    is_under = rule.over_tokens is not None and params.max_tokens <= rule.over_tokens
    return f"the request is for {params.max_tokens} tokens" if is_over or is_under else None


_ABOUT: dict[Kind, tuple[str, ...]] = {
    "sampling": ("tools", "max_tokens", "over_tokens"),
    "tool": ("name", "read_only", "when", "to", "people"),
}
"""The conditions of a rule that only asks of one kind can meet."""
_KINDS = "; ".join(f"{', '.join(names)} are for kind = {kind}" for kind, names in _ABOUT.items())
_SAID: dict[Kind, str] = {"sampling": "sampling", "elicitation": "an elicitation", "tool": "the call of a tool"}


def rank_rules(policy: Policy) -> list[Rule]:
    """Return the rules in the order of evaluation."""
    # The sort is stable: rules of one effect stay in the user's order.
    return sorted(policy.rules, key=lambda rule: _ORDER.index(rule.effect))


def _name_rule(rule: Rule) -> str:
    conditions = {key: value for key, value in msgspec.structs.asdict(rule).items() if value is not None}
    effect = conditions.pop("effect")
    return f"{effect} ({', '.join(f'{key}={value}' for key, value in conditions.items())})"
