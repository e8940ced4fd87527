"""How calls and requests would be decided: rule by rule, and for the cases of a file.

Owns the origin that is assumed, and the form of a case. The host's ``policy`` has the reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.arguments import read_input
from antiphon.cli.commands.policy.show import rank_rules
from antiphon.cli.error_messages import FAILED
from antiphon.cli.output.formats import print_json, print_text
from antiphon.cli.request_file import Asked, read_ask
from antiphon.cli.target_text import origin_at
from antiphon.errors import ConfigError
from antiphon.host.checks.labels import Label
from antiphon.host.checks.policy_rules import Effect, Policy, Situation, decide, explain, find_mismatch
from antiphon.machine.toml import parse_toml
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations


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
    except (msgspec.DecodeError, UnicodeDecodeError):
        case = None
    if case is not None:
        return judge_case(case if server is None else msgspec.structs.replace(case, server=server), headless=headless)
    asked, known = read_ask(path), origin_at("command:" if server is None else server)
    call = None if background else OriginCall(id="explained", method="tools/call")
    origin = msgspec.structs.replace(known, id="explained", call=call)
    return Judged(asked=asked, origin=origin, situation=Situation(now=_now()), headless=headless)


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
        now=case.at or _now(), calls=Counter(case.called), flowed=frozenset(case.flowed), is_known=True
    )
    return Judged(asked=params, origin=origin, situation=situation, headless=headless or case.headless)


def read_cases(path: Path) -> list[CallCase]:
    """Read the cases of a file: tables ``[[cases]]`` in TOML."""
    try:
        data = parse_toml(read_input(path).decode())
        cases = msgspec.convert(data, dict[str, list[CallCase]])["cases"]
        if not cases or any(case.expect is None for case in cases):
            raise ValueError("there are none, or one lacks expect")
        return cases
    except (ValueError, KeyError, RecursionError) as error:
        raise ConfigError(f"{path}: not a file of cases ([[cases]] with tool and expect): {error}") from None


def print_explanation(policy: Policy, judged: Judged, *, as_json: bool) -> int:
    """Print the explanation, and return the exit code: 1 if the request would be denied."""
    asked, origin, situation = judged.asked, judged.origin, judged.situation
    verdict = decide(policy, asked, origin, headless=judged.headless, situation=situation)
    if as_json:
        rules = [
            {"rule": rule, "mismatch": find_mismatch(rule, asked, origin, situation)} for rule in rank_rules(policy)
        ]
        print_json({**msgspec.structs.asdict(verdict), "rules": rules})
    else:
        for line in explain(policy, asked, origin, headless=judged.headless, situation=situation):
            print_text(line)
    return FAILED if verdict.effect == "deny" else 0


def tell_cases(cases: list[CallCase], policy_for: Callable[..., Policy], *, as_json: bool) -> int:
    """Decide each case, and print it with the expected decision. Returns 1 if one differs."""
    failed = 0
    for at, case in enumerate(cases, 1):
        judged = judge_case(case)
        policy = policy_for(*judged.origin.identities)
        found = decide(policy, judged.asked, judged.origin, headless=judged.headless, situation=judged.situation)
        differs = case.expect is not None and case.expect != found.effect
        failed += differs
        name = case.name or f"case {at}, {case.tool}"
        if as_json:
            print_json({"case": name, "expect": case.expect, "effect": found.effect, "rule": found.rule})
            continue
        why = f": {found.condition}" if found.condition else ""
        print_text(f"{name}: {'expected ' + str(case.expect) + ', but ' if differs else ''}{found.effect}{why}")
    if not as_json:
        print_text(f"{len(cases) - failed} of {len(cases)} as expected")
    return FAILED if failed else 0


def _now() -> datetime:
    return datetime.now().astimezone()
