"""``antiphon policy``: show and explain what is allowed; list and withdraw what people allowed or blocked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec

from antiphon.cli.arguments import Asked, find_by_prefix, read_ask, read_input, read_text
from antiphon.cli.config_files import names_of, origin_at
from antiphon.cli.host_options import read_configuration
from antiphon.cli.options import CommandGroup, ConfigFile, Json, complete_server, user_name
from antiphon.cli.output.formats import FAILED, Failed, format_time, print_json, print_list, print_text
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.errors import ConfigError
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks import policy_rules
from antiphon.host.checks.conditions import Situation
from antiphon.host.checks.labels import Label
from antiphon.host.checks.policy_rules import Effect, Policy, Rule, decide, find_mismatch
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.config import Config
from antiphon.host.config.settings import ServerSettings
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.providers import make_named_provider
from antiphon.host.review.given_grants import Given, Grants
from antiphon.host.review.queue import Queue
from antiphon.host.store.base import BlockRow
from antiphon.machine.files import parse_toml
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations


def _describe_purpose(given: Given) -> str:
    grant = given.grant
    if grant.when is not None:
        return f"the tool {grant.tool}, when {grant.when}"
    return f"the tool {grant.tool}" if grant.tool is not None else f"up to {grant.max_tokens} tokens"


class CallCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a tool in a file, and the decision that is expected."""

    tool: str
    arguments: dict[str, Any] = {}
    annotations: ToolAnnotations | None = None
    """What its server says of the tool."""
    server: str = "command:"
    """A target as for antiphon call, or an identity."""
    principal: str | None = None
    called: tuple[str, ...] = ()
    """Tools that were called before; a name may stand several times."""
    flowed: tuple[Label, ...] = ()
    """The labels of what the session has read."""
    links: tuple[str, ...] = ()
    """The web addresses that it has read."""
    at: datetime | None = None
    """The time; default now."""
    headless: bool = False
    """Whether no person can be asked."""
    expect: Effect | None = None
    name: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """An ask with everything that the decision about it depends on."""

    asked: Asked
    origin: Origin
    situation: Situation
    headless: bool = False


def judge_request(path: Path, server: str | None, *, background: bool, headless: bool) -> Judged:
    """Read a request, or a call of a tool as a case has it, and assume an ask of this server."""
    try:
        case = msgspec.json.decode(read_input(path), type=CallCase) if str(path) != "-" else None
    except (msgspec.DecodeError, RecursionError):
        case = None
    if case is not None:
        return judge_case(case if server is None else msgspec.structs.replace(case, server=server), headless=headless)
    asked, known = read_ask(path), origin_at("command:" if server is None else server)
    call = None if background else OriginCall(id="explained", method="tools/call")
    origin = msgspec.structs.replace(known, id="explained", call=call)
    return Judged(asked=asked, origin=origin, situation=Situation(), headless=headless)


def judge_case(case: CallCase, *, headless: bool = False) -> Judged:
    """Make the call of a case."""
    params = CallToolRequestParams.of(case.tool, case.arguments)
    origin = msgspec.structs.replace(
        origin_at(case.server),
        id="explained",
        call=OriginCall(id="explained", method="tools/call", name=case.tool, arguments=case.arguments),
        tool=Tool(name=case.tool, input_schema={}, annotations=case.annotations),
        principal=case.principal,
    )
    # A person has allowed the tool before, and left its labels as its server claims them.
    situation = Situation(
        now=case.at or datetime.now().astimezone(),
        calls=Counter(case.called),
        flowed=frozenset(case.flowed),
        links=case.links,
        is_known=True,
    )
    return Judged(asked=params, origin=origin, situation=situation, headless=headless or case.headless)


def read_cases(path: Path) -> list[CallCase]:
    """Read the cases of a file: tables ``[[cases]]`` in TOML."""
    try:
        cases = msgspec.convert(parse_toml(read_text(path)).get("cases", ()), list[CallCase])
        if not cases or any(case.expect is None for case in cases):
            raise ValueError("there are none, or one lacks expect")
        return cases
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not a file of cases ([[cases]] with tool and expect): {error}") from None


def find_effective_policy(config: Config, *identities: str) -> Policy:
    """Return the policy for a server, including its review mode."""
    # The provider is never used: the host is only made for its policy.
    return ConfiguredHost(config, {}, provider=make_named_provider("echo"), reviewer=None).policy_for(*identities)


def _describe_rule(rule: Rule) -> str:
    conditions: dict[str, object] = msgspec.structs.asdict(rule)
    effect = conditions.pop("effect")
    words = {True: "yes", False: "no"}
    shown = {name: words[value] if isinstance(value, bool) else value for name, value in conditions.items()}
    said = [f"{name} {value}" for name, value in shown.items() if value is not None]
    return f"{effect}: {', '.join(said)}"


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
        print_text(f"  review of requests: {settings.review}; of answers: {settings.review_response}")
        print_text(f"  models: {'all' if settings.models is None else ', '.join(settings.models) or 'none'}")
        print_text(f"  caps: {_describe_members(settings.caps)}")
        print_text(f"  budget: {_describe_members(settings.budget)}")


def _list_policy_lines(config: Config, policy: Policy) -> Iterator[str]:
    files = ", ".join(map(str, config.files))
    yield f"Configured by {files}." if files else "Nothing is configured: these are the built-in settings."
    yield "\nPolicy: a deny outranks an ask, an ask an allow."
    for rule in policy_rules.rank_rules(policy):
        yield f"  {_describe_rule(rule)}"
    for rule in policy.labels:
        yield f"  labels of {rule.name}: {', '.join(rule.labels) or 'none'}"
    for rule in policy.results:
        yield f"  result of {rule.name} with {', '.join(rule.found)}: {rule.effect}"
    yield f"  no rule matches: {policy.default}"
    yield f"  nobody can be asked: {policy.headless}"


def _describe_members(values: msgspec.Struct) -> str:
    members: dict[str, int | Decimal | None] = msgspec.structs.asdict(values)
    figures = {
        name: format_dollars(convert_to_nano(value), rounding="none") if isinstance(value, Decimal) else value
        for name, value in members.items()
    }
    said = [f"{name.replace('_', ' ')} {figure}" for name, figure in figures.items() if figure is not None]
    return ", ".join(said) or "none"


commands = CommandGroup(usual="show", help="See what servers may ask, and why.\n\nWithout a command: show.")
grants = CommandGroup(help="List and revoke what you allowed for more than once. Without a command: list.")
blocks = CommandGroup(help="List servers you blocked, and let them ask again. Without a command: list.")

Server = Annotated[
    str | None, "--server TARGET: The server: a target as for antiphon call, or an identity.", complete_server
]


@commands.command("show")
def show_(*, server: Server = None, as_json: Json = False, config: ConfigFile = None) -> None:
    """Show the rules and what holds for each server; the usual command."""
    settings = read_configuration(config, os.environ)
    if server is not None:
        identities = origin_at(server).identities
        policy = find_effective_policy(settings, *identities)
        _print_policy(settings, policy, {identities[0]: settings.for_server(*identities)}, as_json=as_json)
        return
    entries = dict.fromkeys(entry.find_identity for entry in (*settings.servers, *settings.tightened_servers))
    servers = {"": settings.for_server(""), **{known_as: settings.for_server(known_as) for known_as in entries}}
    _print_policy(settings, settings.policy or Policy(), servers, as_json=as_json)


@commands.command()
def explain(
    request: Path,
    *,
    server: Server = None,
    background: bool = False,
    headless: bool = False,
    as_json: Json = False,
    config: ConfigFile = None,
) -> int:
    """Show, rule by rule, how a request would be decided. Nothing is sent anywhere.

    Exit code 1 if it would be denied.

    Usage:
        REQUEST.json: A file with the params of sampling/createMessage, or with a whole message of
            sampling/createMessage, elicitation/create or tools/call; - for standard input. Or a call as antiphon policy
            test has it: {"tool": "transfer", "arguments": {"amount": 500}}.
        --background: Judge it as a request that belongs to no call of yours.
        --headless: Judge it as if no person could be asked.
    """
    judged = judge_request(request, server, background=background, headless=headless)
    policy = find_effective_policy(read_configuration(config, os.environ), *judged.origin.identities)
    asked, origin, situation = judged.asked, judged.origin, judged.situation
    verdict = decide(policy, asked, origin, headless=judged.headless, situation=situation)
    if as_json:
        rules = [
            {"rule": rule, "mismatch": find_mismatch(rule, asked, origin, situation)}
            for rule in policy_rules.rank_rules(policy)
        ]
        print_json({**msgspec.structs.asdict(verdict), "rules": rules})
    else:
        for line in policy_rules.explain(policy, asked, origin, headless=judged.headless, situation=situation):
            print_text(line)
    return FAILED if verdict.effect == "deny" else 0


@commands.command("test")
def compare(cases: Path, *, as_json: Json = False, config: ConfigFile = None) -> int:
    """Decide calls of tools from a file, and compare with what is expected. Nothing is sent anywhere.

    Exit code 1 if one is decided otherwise.

    Usage:
        CASES.toml: Tables [[cases]]: tool and expect (allow, ask or deny); also arguments, annotations, server,
            principal, called (names of tools), at (a time), headless and name.
    """
    settings = read_configuration(config, os.environ)
    read, failed = read_cases(cases), 0
    for at, case in enumerate(read, 1):
        judged = judge_case(case)
        policy = find_effective_policy(settings, *judged.origin.identities)
        found = decide(policy, judged.asked, judged.origin, headless=judged.headless, situation=judged.situation)
        differs = case.expect != found.effect
        failed += differs
        name = case.name or f"case {at}, {case.tool}"
        if as_json:
            print_json({"case": name, "expect": case.expect, "effect": found.effect, "rule": found.rule})
            continue
        why = f": {found.condition}" if found.condition else ""
        print_text(f"{name}: {f'expected {case.expect}, but ' if differs else ''}{found.effect}{why}")
    if not as_json:
        print_text(f"{len(read) - failed} of {len(read)} as expected")
    return FAILED if failed else 0


commands.add_command(grants, "grants")
commands.add_command(blocks, "blocks")


@grants.command("list")
async def list_given(*, as_json: Json = False, where: StoreOptions) -> None:
    """List your grants and their use; the usual command."""
    names = names_of(where.settings)
    async with open_chosen_store(where) as store:
        given = await Grants(store).all()
        spent = {balance.key: balance.spent.money for balance in await store.balances("grant:")}
    columns: dict[str, Callable[[Given], str]] = {
        "grant": lambda one: one.id,
        "given": lambda one: format_time(one.given),
        "server": lambda one: names.get(one.grant.identity, one.grant.identity),
        "for": _describe_purpose,
        "scope": lambda one: one.grant.scope,
        "used": lambda one: f"{one.used} of {most}" if (most := one.grant.terms.uses) is not None else str(one.used),
        # Only a grant with a limit on money has an account.
        "spent": lambda one: (
            f"{format_dollars(spent.get(f'grant:{one.id}', 0))} of {format_dollars(most, rounding='none')}"
            if (most := one.grant.terms.money) is not None
            else ""
        ),
        "until": lambda one: format_time(one.grant.terms.until),
        "models": lambda one: (
            inert_line(", ".join((*one.grant.models, *one.grant.reaches))) if one.grant.tool is None else ""
        ),
    }
    print_list(
        given,
        columns,
        as_json=as_json,
        nothing="Nothing is allowed beforehand by a person.",
        encode=lambda one: {**msgspec.to_builtins(one), "spent": spent.get(f"grant:{one.id}", 0)},
    )


@grants.command("revoke")
async def revoke_(ids: list[str], *, where: StoreOptions) -> None:
    """Revoke grants: you are asked again at the next request.

    Usage:
        ID...: IDs of grants, or as much of their beginnings as is unambiguous.
    """
    async with open_chosen_store(where) as store:
        given = Grants(store)
        known = [one.id for one in await given.all()]
        for id in [find_by_prefix(id, known, f"there is no grant {id}") for id in ids]:
            if not await given.revoke(id, by=user_name()):
                raise Failed(f"there is no grant {id} any more")
            print_text(f"{id}: revoked, the next request asks again")


@blocks.command("list")
async def list_blocked(*, as_json: Json = False, where: StoreOptions) -> None:
    """List the servers you blocked; the usual command."""
    columns: dict[str, Callable[[BlockRow], str]] = {
        "server": lambda row: row.identity,
        "target": lambda row: mask_text(row.target),
        "since": lambda row: format_time(row.since),
        "by": lambda row: row.by or "",
    }
    async with open_chosen_store(where) as store:
        print_list(await store.blocks(), columns, as_json=as_json, nothing="No server is blocked.")


@blocks.command("lift")
async def lift_(server: str, *, where: StoreOptions) -> None:
    """Let a server ask again.

    Usage:
        SERVER: The server's identity, or as much of its beginning as is unambiguous.
    """
    async with open_chosen_store(where) as store:
        known = [row.identity for row in await store.blocks()]
        one = find_by_prefix(server, known, f"no server is blocked as {server}")
        if not await Queue(store).unblock(one, by=user_name()):
            raise Failed(f"{one}: is not blocked any more")
        print_text(f"{one}: may ask again")
