"""The table of members: every documented one of every host has a fate, and the fate is what happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.client.connection.server_files import ServerEntry, read_servers
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.installation import KNOWN, MEMBERS, translate_entry
from antiphon.gateway.names import Filters

DOCUMENTED = {
    "claude-desktop": "command args env",
    "claude-code": "type command args env url headers headersHelper oauth timeout alwaysLoad",
    "cursor": "type command args env envFile url headers auth",
    "vscode": "type command args cwd env envFile url headers dev gallery version sandboxEnabled sandbox oauth",
    "windsurf": "command args env url serverUrl headers disabled disabledTools alwaysAllow",
    "zed": "source enabled remote command args env timeout url headers oauth settings",
    "goose": "type name cmd args envs env_keys uri headers timeout enabled bundled description display_name socket "
    "available_tools",
    "codex": "command args env env_vars cwd url bearer_token bearer_token_env_var http_headers env_http_headers "
    "startup_timeout_sec startup_timeout_ms tool_timeout_sec enabled required enabled_tools disabled_tools scopes "
    "oauth oauth_resource supports_parallel_tool_calls default_tools_approval_mode tools experimental_environment name",
    "gemini": "command args env cwd url httpUrl headers tcp type timeout trust description includeTools excludeTools "
    "extension oauth authProviderType targetAudience targetServiceAccount",
    "qwen": "command args env cwd url httpUrl headers tcp type timeout trust description includeTools excludeTools "
    "extensionName oauth authProviderType targetAudience targetServiceAccount discoveryTimeoutMs scope",
    "copilot": "type command args env cwd url headers tools timeout oauthClientId oauthPublicClient filterMapping",
    "lm-studio": "command args env url headers timeout",
    "opencode": "type command environment cwd url headers enabled timeout oauth",
}
"""What the hosts' documentation and types name."""
SAMPLES: dict[str, tuple[Any, str]] = {
    "args": (["-y"], "args"),
    "env": ({"A": "1"}, "env"),
    "envs": ({"A": "1"}, "env"),
    "environment": ({"A": "1"}, "env"),
    "env_vars": (["A", {"name": "B", "source": "local"}], "env_vars"),
    "envFile": (".env", "env_file"),
    "cwd": ("/srv", "cwd"),
    "headers": ({"A": "1"}, "headers"),
    "http_headers": ({"A": "1"}, "headers"),
    "env_http_headers": ({"A": "B"}, "headers"),
    "bearer_token_env_var": ("B", "headers"),
    "command": ("other", "command"),
    "cmd": ("other", "command"),
    "url": ("https://x", "url"),
    "uri": ("https://x", "url"),
    "httpUrl": ("https://x", "url"),
    "serverUrl": ("https://x", "url"),
    "enabled_tools": (["a"], "enabled_tools"),
    "includeTools": (["a(1)"], "enabled_tools"),
    "tools": (["a"], "enabled_tools"),
    "available_tools": (["a"], "enabled_tools"),
    "disabled_tools": (["b"], "disabled_tools"),
    "excludeTools": (["b"], "disabled_tools"),
    "disabledTools": (["b"], "disabled_tools"),
    "startup_timeout_sec": (20, "start_timeout"),
    "startup_timeout_ms": (20_000, "start_timeout"),
    "discoveryTimeoutMs": (20_000, "start_timeout"),
    "timeout": (20_000, "start_timeout"),
}
"""A value of each member that is translated, and the member of our entry that it becomes."""
ROWS = [(host, name) for host, names in DOCUMENTED.items() for name in names.split()]


def moved(host: str, entry: dict[str, Any]) -> ServerEntry:
    """Move an entry, and read it as the gateway does."""
    said, _ = translate_entry(host, entry)
    return read_servers(json.dumps({"mcpServers": {"x": said}}).encode(), Path("mcp.json"))["x"]


def base(host: str) -> dict[str, Any]:
    """Return the smallest entry of a host."""
    return {"cmd": "x"} if host == "goose" else {"command": "x"}


def test_every_host_has_its_members():
    """None is without a row, and every documented member is in it."""
    assert set(MEMBERS) == set(KNOWN) == set(DOCUMENTED)
    assert [(host, name) for host, name in ROWS if name not in MEMBERS[host]] == []


@pytest.mark.parametrize(("host", "name"), ROWS)
def test_a_member_has_the_fate_of_its_row(host: str, name: str):
    """What is translated has its effect, what is kept does not move, what is refused keeps the entry where it is."""
    rule = MEMBERS[host][name]
    if rule.fate == "refused":
        with pytest.raises(ConfigError, match=f"{name}: {rule.to}"):
            translate_entry(host, {**base(host), name: "something"})
        assert moved(host, {**base(host), name: None}) == moved(host, base(host))
    elif rule.fate == "kept":
        _, kept = translate_entry(host, {**base(host), name: "something"})
        assert kept == ({name: rule.to} if rule.to else {})
        assert moved(host, {**base(host), name: "something"}) == moved(host, base(host))
    elif name in ("enabled", "disabled"):
        with pytest.raises(ConfigError, match="switched off"):
            translate_entry(host, {**base(host), name: name == "disabled"})
    else:
        value, to = SAMPLES[name]
        assert getattr(moved(host, {**base(host), name: value}), to) != getattr(moved(host, base(host)), to)


@pytest.mark.parametrize("host", KNOWN)
def test_an_entry_with_a_member_that_nobody_knows_stays(host: str):
    """It may be an order that the gateway would not obey."""
    with pytest.raises(ConfigError, match="its member 'surprise' is not known"):
        translate_entry(host, {**base(host), "surprise": False})


@pytest.mark.parametrize(
    ("host", "members", "passing"),
    [
        ("codex", {"enabled_tools": ["a", "b"], "disabled_tools": ["b"]}, "a"),
        ("codex", {"enabled_tools": []}, ""),
        ("gemini", {"includeTools": ["a", "b(x)"]}, "ab"),
        ("gemini", {"includeTools": ["a", "b"], "excludeTools": ["a"]}, "b"),
        ("copilot", {"tools": ["*"]}, "abc*"),
        ("copilot", {"tools": []}, ""),
        ("copilot", {"tools": ["c"]}, "c"),
        ("windsurf", {"disabledTools": ["*"]}, "abc"),
        ("goose", {"available_tools": []}, "abc*"),
        ("goose", {"available_tools": ["a"]}, "a"),
    ],
)
def test_the_tools_that_pass_are_those_of_the_host(host: str, members: dict[str, Any], passing: str):
    """Names are names: a star in one stands for itself."""
    globs = moved(host, {**base(host), **members}).tool_globs
    filters = Filters({"x": globs}) if globs else Filters()
    assert "".join(tool for tool in "abc*" if filters.passes("x", tool)) == passing


def test_times_are_in_seconds():
    """Whatever the host counts in."""
    assert moved("opencode", {"command": ["x"], "timeout": 5000}).start_timeout == 5
    assert moved("qwen", {"command": "x", "discoveryTimeoutMs": 2500}).start_timeout == 2.5
    assert moved("codex", {"command": "x", "startup_timeout_sec": 20}).start_timeout == 20


def test_variables_of_gemini_need_no_braces():
    """One that is not set stays as it is written, as there."""
    entry = moved("gemini", {"command": "x", "env": {"A": "$KEY", "B": "${KEY}"}})
    assert entry.env == {"A": "${KEY:-$KEY}", "B": "${KEY}"}
