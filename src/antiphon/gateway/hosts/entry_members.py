"""The members of an entry, of every host: translated for the gateway, kept for the host, or a reason to stay there.

The table is ``entry_members.toml``. A member in none of its rows may be an order that the gateway would ignore, so an
entry with one stays at its host.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from antiphon.client.connection.server_files import is_switched_off
from antiphon.errors import ConfigError

_ASKED = re.compile(r"\$\{(?:input|command|file):|\{file:")
_BARE_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")


class MemberRule(Struct, frozen=True, kw_only=True):
    """What becomes of one member of an entry."""

    fate: Literal["translated", "kept", "refused"]
    """``translated``: the gateway does the same. ``kept``: it concerns the host only, or permits calls that the gateway
    asks about anyway; it comes back with ``uninstall``. ``refused``: the gateway cannot do the same, so that the entry
    stays at its host unless the member is empty."""
    to: str = ""
    """The member that it becomes; otherwise the reason, for people, if they should hear of it."""
    factor: float = 1
    """What a number is multiplied by."""


def _read_members() -> dict[str, dict[str, MemberRule]]:
    """Return what becomes of each documented member, by host (``entry_members.toml``)."""
    table = tomllib.loads(Path(__file__).with_name("entry_members.toml").read_text("utf-8"))
    shared, members = table.pop("shared"), dict[str, dict[str, MemberRule]]()
    for host, said in table.items():
        members[host] = {}
        for part in [shared[name] for name in ("every", *said.pop("with", ()))] + [said]:
            for name, to in part.get("translated", {}).items():
                target: dict[str, Any] = {"to": to} if isinstance(to, str) else to
                members[host][name] = MemberRule(fate="translated", **target)
            for fate in ("kept", "refused"):
                for reason, names in part.get(fate, {}).items():
                    members[host] |= {name: MemberRule(fate=fate, to=reason) for name in names}
    return members


MEMBERS: Mapping[str, Mapping[str, MemberRule]] = _read_members()


RULES = {
    "claude-code": (".claude/settings.json", "permissions"),
    "gemini": (None, "mcp"),
    "qwen": (None, "mcp"),
    "opencode": (None, "tools"),
}
"""Where hosts have rules about servers beside the entries: the file, unless it is the same, and the section in it."""


def find_rule(host: str, name: str, rules: Mapping[str, Any]) -> str | None:
    """Return a rule that forbids a server or some of its tools; behind the gateway it would not hold."""
    if host == "opencode":
        return next(
            (glob for glob, may in rules.items() if may is False and fnmatchcase(f"{name}_", glob[: len(name) + 1])),
            None,
        )
    prefix = f"mcp__{re.sub(r'[^a-zA-Z0-9_-]', '_', name)}"
    denied = [str(rule) for rule in rules.get("deny") or () if f"{rule}__".startswith(f"{prefix}__")]
    if name in (rules.get("excluded") or ()):
        denied.append("mcp.excluded")
    if name not in rules.get("allowed", [name]):
        denied.append("mcp.allowed")
    return denied[0] if denied else None


def translate_entry(host: str, entry: object) -> tuple[dict[str, Any], dict[str, str]]:
    """Return an entry in the form that the gateway reads, and the members that do not move, each with the reason.

    Raises ``ConfigError``, whose message is the reason, if the entry has to stay at the host.
    """
    rules = MEMBERS[host]
    said = cast("dict[str, Any]", json.loads(json.dumps(entry, default=str)) if isinstance(entry, Mapping) else {})
    translated = {rule.to for name in said if (rule := rules.get(name)) is not None and rule.fate == "translated"}
    if translated.isdisjoint(("command", "url")):
        raise ConfigError("not a server that can be started or reached")
    if is_switched_off(said):
        raise ConfigError("switched off")
    if _ASKED.search(json.dumps(said)):
        raise ConfigError("its host asks for values")
    moved: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name, value in said.items():
        rule = rules.get(name)
        if rule is None:
            raise ConfigError(f"its member {name!r} is not known")
        is_empty = value is None or value is False or value in ("", [], {})
        if rule.fate == "refused" and not is_empty:
            raise ConfigError(f"{name}: {rule.to}")
        if rule.fate == "kept" and rule.to and not is_empty:
            kept[name] = rule.to
        # An empty list of Goose stands for all tools, those of the others for none.
        if rule.fate == "translated" and rule.to and not (name == "available_tools" and is_empty):
            moved[rule.to] = value * rule.factor if isinstance(value, float | int) and rule.factor != 1 else value
    if host in ("gemini", "qwen"):
        # They also write a variable without braces, and leave the text as it is where it is not set.
        moved = json.loads(_BARE_VARIABLE.sub(r"${\1:-$\1}", json.dumps(moved)))
    return moved, kept
