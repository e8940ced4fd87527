"""The configured permissions: the rules in the order of evaluation, and the settings of each server.

Owns the texts. The host's ``config`` determines the settings of a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import msgspec

from antiphon.cli.output.formats import print_json, print_text
from antiphon.cli.target_text import names_of
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks.policy_rules import Effect, Policy, Rule
from antiphon.host.config import Config
from antiphon.host.config.settings import ServerSettings
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.providers import make_named_provider

_RANK: tuple[Effect, ...] = ("deny", "ask", "allow")


def show_policy(config: Config, identities: tuple[str, ...], *, as_json: bool) -> None:
    """Show the policy and the settings of one server, or the general ones and those of all configured servers."""
    if identities:
        policy = find_effective_policy(config, *identities)
        _print_policy(config, policy, {identities[0]: config.for_server(*identities)}, as_json=as_json)
        return
    entries = dict.fromkeys(entry.find_identity for entry in (*config.servers, *config.tightened_servers))
    servers = {"": config.for_server(""), **{known_as: config.for_server(known_as) for known_as in entries}}
    _print_policy(config, config.policy or Policy(), servers, as_json=as_json)


def find_effective_policy(config: Config, *identities: str) -> Policy:
    """Return the policy for a server, including its review mode."""
    # The provider is never used: the host is only made for its policy.
    return ConfiguredHost(config, {}, provider=make_named_provider("echo"), reviewer=None).policy_for(*identities)


def rank_rules(policy: Policy) -> list[Rule]:
    """Return the rules in the order of evaluation."""
    return sorted(policy.rules, key=lambda rule: _RANK.index(rule.effect))


def _describe_rule(rule: Rule) -> str:
    conditions: dict[str, object] = msgspec.structs.asdict(rule)
    effect = conditions.pop("effect")
    said = [f"{name} {_describe_value(value)}" for name, value in conditions.items() if value is not None]
    return f"{effect}: {', '.join(said)}"


def _describe_value(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _print_policy(config: Config, policy: Policy, servers: dict[str, ServerSettings], *, as_json: bool) -> None:
    names = names_of(config)
    if as_json:
        print_json(
            {
                "files": [str(file) for file in config.files],
                "policy": policy,
                "servers": [
                    {"identity": identity or "*", "target": names.get(identity), **msgspec.to_builtins(one)}
                    for identity, one in servers.items()
                ],
            }
        )
        return
    for line in _list_policy_lines(config, policy):
        print_text(line)
    for identity, settings in servers.items():
        print_text(f"\n{names.get(identity) or identity or 'every server, if nothing else is said below'}")
        for line in _describe_settings(settings):
            print_text(f"  {line}")


def _list_policy_lines(config: Config, policy: Policy) -> Iterator[str]:
    files = ", ".join(map(str, config.files))
    yield f"Configured by {files}." if files else "Nothing is configured: these are the built-in settings."
    yield "\nPolicy: a deny outranks an ask, an ask an allow."
    for rule in rank_rules(policy):
        yield f"  {_describe_rule(rule)}"
    for rule in policy.labels:
        yield f"  labels of {rule.name}: {', '.join(rule.labels) or 'none'}"
    for rule in policy.results:
        yield f"  result of {rule.name} with {', '.join(rule.found)}: {rule.effect}"
    yield f"  no rule matches: {policy.default}"
    yield f"  nobody can be asked: {policy.headless}"


def _describe_settings(settings: ServerSettings) -> Iterator[str]:
    yield f"review of requests: {settings.review}; of answers: {settings.review_response}"
    yield f"models: {'all' if settings.models is None else ', '.join(settings.models) or 'none'}"
    yield f"caps: {_describe_members(settings.caps)}"
    yield f"budget: {_describe_members(settings.budget)}"


def _format_figure(value: Decimal | int) -> str:
    return format_dollars(convert_to_nano(value), rounding="none") if isinstance(value, Decimal) else str(value)


def _describe_members(values: msgspec.Struct) -> str:
    members: dict[str, int | Decimal | None] = msgspec.structs.asdict(values)
    said = [f"{name.replace('_', ' ')} {_format_figure(value)}" for name, value in members.items() if value is not None]
    return ", ".join(said) or "none"
