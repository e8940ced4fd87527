"""The rules of a check, and the one evaluator that applies them to whatever was seen of a server.

The rules are data: ``rules/10-opening.toml`` says what each member means. A rule is an error only where the
specification says MUST.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from antiphon.check.value_tests import TESTS, JsonPath, list_texts, read_list, read_object, walk_schemas
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.json_schema.validator import join_path
from antiphon.wire.envelope import encode_value
from antiphon.wire.revisions import REVISIONS, Revision, find_revision

MAX_SEEN = 400
"""Most characters that a finding shows of a message: a few lines of a terminal."""
Severity = Literal["error", "advice"]


class CheckRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server is checked for; ``rules/10-opening.toml`` says what each member means."""

    id: str
    severity: Severity = "error"
    title: str
    why: str
    mend: str
    section: str = ""
    on: tuple[str, ...] = ()
    at: tuple[str, ...] = ("",)
    fits: dict[str, Any] | bool | None = None
    test: str = ""
    since: str = ""
    until: str = ""


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is tried on a server, or (``rules/90-trials.toml``) on a client; ``rules/10-opening.toml`` says the rest."""

    name: str
    method: str = "ping"
    params: Mapping[str, Any] = {}
    id: str | int | None = None
    place: str = ""
    needs: str = ""
    pad: int = 0
    raw: str = ""
    headers: Mapping[str, str] = {}
    is_bare: bool = False
    is_fresh: bool = False
    may_fail: bool = False
    since: str = ""
    until: str = ""
    speaks: tuple[str, ...] = tuple(one.name for one in REVISIONS if not one.modern)
    sends: tuple[tuple[str, str, int, str], ...] = ()
    asks: tuple[Probe, ...] = ()
    result: Mapping[str, Any] = {}
    replies: int = 1
    copies: int = 1
    cursor: str = ""
    pages: int = 1
    deed: Literal["", "cut", "lost", "redirect"] = ""


class PlayedClient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host as it was measured; ``rules/80-clients.toml`` says what each member means."""

    name: str
    title: str
    measured: str
    revisions: tuple[str, ...]
    declares: Mapping[str, Any]
    info: Mapping[str, Any]


class Finding(Struct, frozen=True, kw_only=True):
    """One place where a server breaks a rule; its texts are bounded, inert, and without secrets.

    Args:
        rule: the rule that is broken.
        place: a method and the member of its message, or a stream.
        seen: what was there, with a bounded piece of the message.
        revisions: the revisions on which it was seen; empty if none was spoken.
    """

    rule: CheckRule
    place: str
    seen: str
    revisions: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The address of the section that says so; ``advice`` where the specification does not."""
        if not self.rule.section:
            return "advice"
        return "/".join(["https://modelcontextprotocol.io/specification", *self.revisions[:1], self.rule.section])


class RuleFile(Struct):
    """The tables of all files in ``rules``."""

    rules: dict[str, CheckRule]
    clients: dict[str, PlayedClient]
    probe: tuple[Probe, ...]
    http: tuple[Probe, ...]
    trial: tuple[Probe, ...]
    results: dict[str, dict[str, Any]]


@cache
def read_rules() -> RuleFile:
    """Read the tables of all files in ``rules``, once."""
    files = sorted((Path(__file__).parent / "rules").glob("*.toml"))
    found = tomllib.loads("\n".join(path.read_text(encoding="utf-8") for path in files))
    found["rules"] = {name: {"id": name, **rule} for name, rule in found["rules"].items()}
    found["clients"] = {name: {"name": name, **client} for name, client in found["clients"].items()}
    for trial in found["trial"]:
        trial["asks"] = [ask for ask in found["ask"] if ask["name"] in trial.get("asks", ())]
    return msgspec.convert(found, RuleFile)


def list_probes(kind: Literal["probe", "http"], revision: Revision) -> list[Probe]:
    """Return the probes for a revision, in their order."""
    return [one for one in getattr(read_rules(), kind) if _covers(one, revision)]


def _covers(one: CheckRule | Probe, revision: Revision | None) -> bool:
    if revision is None:  # what is seen before one is spoken
        return not one.since and not one.until
    first, last = find_revision(one.since), find_revision(one.until)
    return (first is None or revision.order >= first.order) and (last is None or revision.order <= last.order)


def find_faults(kind: str, value: object, revision: Revision | None = None) -> Iterator[tuple[str, str, object]]:
    """Apply all rules of a kind to a value as it came; yield each broken rule, the place, and what is there."""
    for rule in read_rules().rules.values():
        for at in rule.at if kind in rule.on and _covers(rule, revision) else ():
            for path, each in _select_values(value, at):
                # Five faults of one value tell as much as a thousand.
                for inner, seen in islice(_examine_value(rule, each), 5):
                    yield rule.id, join_path([*path, *inner]), seen


def _examine_value(rule: CheckRule, value: object) -> Iterator[tuple[JsonPath, object]]:
    if rule.test:
        yield from TESTS[rule.test](value)
        return
    # A number or a nesting that no validator reads says nothing here: the bounds of messages are examined elsewhere.
    with suppress(ValueError, OverflowError):
        for error in _compile_rule(rule.id).iter_errors(value):
            part, text = cast("object", error.instance), str(error.message)
            # What is shown is bounded and made inert once, where it becomes a finding.
            whole = encode_value(part)[: 8 * MAX_SEEN].decode(errors="replace")
            yield tuple(error.instance_path), f"{text}: {whole}" if "required" in text else part


@cache
def _compile_rule(rule: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(cast("Any", read_rules().rules[rule].fits))


def _select_values(value: object, at: str) -> Iterator[tuple[JsonPath, Any]]:
    found: list[tuple[JsonPath, Any]] = [((), value)]
    for step in at.split(".") if at else ():
        found = [(path + more, inner) for path, each in found for more, inner in _take_step(each, step)]
    yield from found


def _take_step(value: object, step: str) -> Iterator[tuple[JsonPath, Any]]:
    if step == "$":
        yield from list_texts(value)
    elif step == "**":
        yield from walk_schemas(value)
    else:
        yield from (((at,), each) for at, each in enumerate(read_list(value)) if step == "*")
        members = read_object(value)
        yield from (((name,), members[name]) for name in (members if step == "*" else (step,)) if name in members)


def excerpt_of(value: object) -> str:
    """Return a value as one line of bounded text without secrets, in which all characters are visible."""
    if not isinstance(value, str):
        value = (value if isinstance(value, bytes) else encode_value(value))[: 8 * MAX_SEEN].decode(errors="replace")
    text = inert_line(mask_text(re.sub(r"[ \t\r\n]+", " ", value[: 4 * MAX_SEEN])))
    return text if len(text) <= MAX_SEEN else f"{text[:MAX_SEEN]} ..."
