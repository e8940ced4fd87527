"""The policy: rules that allow an ask, deny it or leave it to a person, with the reason.

Pure: no person, no clock, no I/O. Remembered permissions are in ``grants``.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from antiphon.host.checks.option_types import check_options
from antiphon.host.providers.embeddings import EmbeddingParams
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["ALLOW_ALL", "Asked", "Effect", "Kind", "Policy", "Rule", "Verdict", "decide", "explain"]

Effect = Literal["deny", "ask", "allow"]
Kind = Literal["sampling", "elicitation", "tool", "embedding"]
Asked = CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams
Reason = Literal["rule", "default", "no-reviewer", "definition"]

_ORDER: tuple[Effect, ...] = ("deny", "ask", "allow")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a policy; it matches when all of its conditions hold."""

    effect: Effect
    server: str = "*"
    """Glob over the server's *identity* (``url:<sha256>``, ``command:<sha256>``), never over the name it declares. A
    deny or an ask also matches a coarser identity (``coarse:<sha256>``), so that starting the server in another folder
    does not evade it."""
    kind: Kind | None = None
    """Only sampling, only elicitation, only tool calls (where the client has them confirmed), or only embeddings."""
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

    def __post_init__(self) -> None:
        check_options(self)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, and what happens when none matches.

    A deny outranks an ask, an ask outranks an allow; among rules of one effect the first that matches is named. Nobody
    is asked about embeddings unless a rule says so: a program wants hundreds of them, and no person can read a vector.
    """

    rules: tuple[Rule, ...] = ()
    default: Effect = "ask"
    headless: Literal["deny", "allow"] = "deny"
    """What "ask" becomes if no person can be asked."""

    def __post_init__(self) -> None:
        check_options(self)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The effect, and the rule it comes from (``None``: no rule matched).

    The reason is ``definition`` if the rule would allow it, but not with the changed definition of its tool.
    """

    effect: Effect
    reason: Reason
    rule: Rule | None = None


ALLOW_ALL = Policy(default="allow")
"""Allows everything. For tests, demonstrations and your own servers."""


def decide(
    policy: Policy, params: Asked, origin: Origin, *, headless: bool = False, redefined: bool = False
) -> Verdict:
    """Apply the rules to one ask.

    Args:
        policy: the rules.
        params: the ask.
        origin: who asks, and why.
        headless: whether no person can be asked.
        redefined: whether the definition of the tool has changed since it was allowed.
    """
    matching = [rule for rule in _ranked(policy) if mismatch(rule, params, origin) is None] if policy.rules else ()
    rule = matching[0] if matching else None
    verdict = Verdict(effect=rule.effect if rule else policy.default, reason="rule" if rule else "default", rule=rule)
    if rule is None and policy.default == "ask" and isinstance(params, EmbeddingParams):
        return Verdict(effect="allow", reason="default")
    if redefined and rule is not None and rule.effect == "allow" and not any(one.any_definition for one in matching):
        verdict = Verdict(effect="ask", reason="definition", rule=rule)
    if verdict.effect == "ask" and headless:
        return Verdict(effect=policy.headless, reason="no-reviewer", rule=rule)
    return verdict


def explain(policy: Policy, params: Asked, origin: Origin, *, headless: bool = False) -> list[str]:
    """Explain a decision: a line for each rule, in the order of evaluation, why it matches or not; then the decision.

    Args:
        policy: the rules.
        params: the ask.
        origin: who asks, and why.
        headless: whether no person can be asked.
    """
    lines = [f"{_name(rule)}: {mismatch(rule, params, origin) or 'matches'}" for rule in _ranked(policy)]
    verdict = decide(policy, params, origin, headless=headless)
    source = _name(verdict.rule) if verdict.rule else f"no rule matches, the default is {policy.default}"
    because = f"nobody can be asked ({source})" if verdict.reason == "no-reviewer" else source
    return [*lines, f"=> {verdict.effect}: {because}"]


def mismatch(rule: Rule, params: Asked, origin: Origin) -> str | None:
    """Return the condition of the rule that does not hold, or ``None`` if the rule matches."""
    names = (origin.identity,) if rule.effect == "allow" else origin.identities
    if not any(fnmatchcase(name, rule.server) for name in names):
        return f"the server is {origin.identity}"
    if rule.background is not None and rule.background != (origin.call is None):
        return "the ask belongs to a call" if rule.background else "the ask belongs to no call"
    kind = _kind(params)
    if rule.kind not in (None, kind) or any(about(rule) for other, about in _ABOUT.items() if other != kind):
        return f"it is {_SAID[kind]}"
    if kind == "sampling" and isinstance(params, CreateMessageRequestParams):
        return _sampling_mismatch(rule, params)
    return _tool_mismatch(rule, params, origin) if isinstance(params, CallToolRequestParams) else None


def _kind(params: Asked) -> Kind:
    if isinstance(params, EmbeddingParams):
        return "embedding"
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
    if rule.max_tokens is not None and params.max_tokens > rule.max_tokens:
        return f"the request is for {params.max_tokens} tokens"
    if rule.over_tokens is not None and params.max_tokens <= rule.over_tokens:
        return f"the request is for {params.max_tokens} tokens"
    return None


def _is_about_sampling(rule: Rule) -> bool:
    return any(condition is not None for condition in (rule.tools, rule.max_tokens, rule.over_tokens))


def _is_about_tools(rule: Rule) -> bool:
    return rule.name is not None or rule.read_only is not None


_ABOUT: dict[Kind, Callable[[Rule], bool]] = {"sampling": _is_about_sampling, "tool": _is_about_tools}
_SAID: dict[Kind, str] = {
    "sampling": "sampling",
    "elicitation": "an elicitation",
    "tool": "the call of a tool",
    "embedding": "a request for embeddings",
}


def _ranked(policy: Policy) -> list[Rule]:
    # The sort is stable: rules of one effect stay in the user's order.
    return sorted(policy.rules, key=lambda rule: _ORDER.index(rule.effect))


def _name(rule: Rule | None) -> str:
    if rule is None:
        return "no rule"
    conditions = {key: value for key, value in msgspec.structs.asdict(rule).items() if value is not None}
    effect = conditions.pop("effect")
    return f"{effect} ({', '.join(f'{key}={value}' for key, value in conditions.items())})"
