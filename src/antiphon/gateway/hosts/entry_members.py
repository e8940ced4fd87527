"""The members of an entry, of every host: translated for the gateway, kept for the host, or a reason to stay there.

Sources, read in November 2026: the documentation of each host, and the types with which the open ones read their file.
A member in none of the rows may be an order that the gateway would ignore, so an entry with one stays at its host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
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


def _translate_members(*names: str, **renamed: str) -> dict[str, MemberRule]:
    same = {name: MemberRule(fate="translated", to=name) for name in names}
    return same | {name: MemberRule(fate="translated", to=to) for name, to in renamed.items()}


def _keep_members(reason: str, *names: str) -> dict[str, MemberRule]:
    return {name: MemberRule(fate="kept", to=reason) for name in names}


def _refuse_members(reason: str, *names: str) -> dict[str, MemberRule]:
    return {name: MemberRule(fate="refused", to=reason) for name in names}


_ASKS = "the gateway asks by its own rules"
_WAITS = "the host waits for the gateway as its own entry says"
_SIGNS_IN = "its host signs in in a way of its own"
_EVERY = {
    **_translate_members("command", "args", "env", "cwd", "url", "headers", enabled="", disabled=""),
    **_keep_members("", "type", "name", "description"),
}
_GEMINI = {
    **_translate_members("includeTools", "excludeTools", httpUrl="url"),
    **_keep_members(_WAITS, "timeout"),
    **_keep_members(_ASKS, "trust"),
    **_keep_members("", "extension", "extensionName"),
    **_refuse_members(_SIGNS_IN, "oauth", "authProviderType", "targetAudience", "targetServiceAccount"),
    **_refuse_members("is a transport of its host", "tcp"),
}
MEMBERS: Mapping[str, Mapping[str, MemberRule]] = {
    "claude-desktop": _EVERY,
    "claude-code": {
        **_EVERY,
        **_keep_members(_WAITS, "timeout"),
        **_keep_members("is about the host's own search for tools", "alwaysLoad"),
        **_refuse_members("its host runs a program that makes the headers", "headersHelper"),
        **_refuse_members(_SIGNS_IN, "oauth"),
    },
    "cursor": {**_EVERY, **_translate_members("envFile"), **_refuse_members(_SIGNS_IN, "auth")},
    "vscode": {
        **_EVERY,
        **_translate_members("envFile"),
        **_keep_members("is for developing the server", "dev"),
        **_keep_members("", "gallery", "version"),
        **_refuse_members("its host runs it in a sandbox", "sandboxEnabled", "sandbox"),
        **_refuse_members(_SIGNS_IN, "oauth"),
    },
    "windsurf": {
        **_EVERY,
        **_translate_members("disabledTools", serverUrl="url"),
        **_keep_members(_ASKS, "alwaysAllow"),
        **_keep_members("", "registry"),
    },
    "zed": {
        **_EVERY,
        **_keep_members("", "source"),
        **_keep_members(_WAITS, "timeout"),
        **_refuse_members("its host runs it on another machine", "remote"),
        **_refuse_members("belongs to an extension of its host", "settings"),
        **_refuse_members(_SIGNS_IN, "oauth"),
    },
    "goose": {
        **_EVERY,
        **_translate_members(cmd="command", uri="url", envs="env", available_tools="enabled_tools"),
        **_keep_members(_WAITS, "timeout"),
        **_keep_members("", "display_name", "bundled"),
        **_refuse_members("its host keeps the values in its keyring", "env_keys"),
        **_refuse_members("is a transport of its host", "socket"),
    },
    "codex": {
        **_EVERY,
        **_translate_members("env_vars", "http_headers", "env_http_headers", "bearer_token_env_var"),
        **_translate_members("startup_timeout_sec", "startup_timeout_ms", "enabled_tools", "disabled_tools"),
        **_keep_members(_WAITS, "tool_timeout_sec", "required", "supports_parallel_tool_calls"),
        **_keep_members(_ASKS, "default_tools_approval_mode", "tools"),
        **_refuse_members(_SIGNS_IN, "scopes", "oauth", "oauth_resource", "bearer_token"),
        **_refuse_members("its host runs it in another environment", "experimental_environment", "environment_id"),
    },
    "gemini": {**_EVERY, **_GEMINI},
    "qwen": {**_EVERY, **_GEMINI, **_translate_members("discoveryTimeoutMs"), **_keep_members("", "scope")},
    "copilot": {
        **_EVERY,
        **_translate_members("tools"),
        **_keep_members(_WAITS, "timeout"),
        **_keep_members("", "source", "isDefaultServer"),
        **_refuse_members("its host filters its results", "filterMapping"),
        **_refuse_members(_SIGNS_IN, "oauthClientId", "oauthPublicClient", "oauthGrantType", "auth", "oidc"),
    },
    "lm-studio": {**_EVERY, **_keep_members(_WAITS, "timeout")},
    "opencode": {
        **_EVERY,
        **_translate_members(environment="env"),
        "timeout": MemberRule(fate="translated", to="start_timeout", factor=0.001),
        **_refuse_members(_SIGNS_IN, "oauth"),
    },
}
"""What becomes of each documented member, by host."""


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
