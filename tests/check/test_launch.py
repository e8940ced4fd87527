"""What can be seen of a server without starting it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.check.findings import load_rules
from antiphon.check.launch import find_launch_faults

KEY = "ghp_" + "a1B2" * 9
PINNED = ("npx", "-y", "notes@1.2.3")
DIGEST = "notes@sha256:" + "0" * 64


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs of the usual names into a folder that nobody else can write."""
    folder = tmp_path / "bin"
    folder.mkdir(mode=0o755)
    for name in ("npx", "uvx", "pipx", "docker", "sh", "bash", "sudo", "python", "node", "server"):
        file = folder / name
        file.write_text("#!/bin/sh\n", encoding="utf-8")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    return folder


def list_rules(target: str | Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> list[str]:
    """List the rules of the findings, without their subject."""
    return [finding.rule.removeprefix("launch.") for finding in find_launch_faults(target, env=env, cwd=cwd)]


COMMANDS: dict[str, tuple[str, ...]] = {
    "unpinned npx": ("unpinned", "npx", "-y", "notes"),
    "latest": ("unpinned", "npx", "-y", "notes@latest"),
    "unpinned uvx": ("unpinned", "uvx", "notes"),
    "unpinned pipx": ("unpinned", "pipx", "run", "notes"),
    "image by tag": ("unpinned", "docker", "run", "-i", "notes:1"),
    "shell": ("shell", "bash", "-c", "server --all"),
    "login shell": ("shell", "bash", "-lc", "server"),
    "code of Python": ("inline_code", "python", "-c", "print()"),
    "code of Node": ("inline_code", "node", "-e", "x()"),
    "secret": ("secret_argument", "server", f"--token={KEY}"),
    "secret by its option": ("secret_argument", "server", "--api-key", "q8Zr41xx"),
    "superuser": ("superuser", "sudo", "server"),
    "registry": ("registry", *PINNED[:2], "--registry=https://packages.example.com", PINNED[2]),
    "plain address": ("plain_http", "server", "http://example.com/mcp"),
    "plain address in an option": ("plain_http", "server", "url=http://example.com/mcp"),
    "privileged": ("privileged", "docker", "run", "--privileged", DIGEST),
    "network of the machine": ("privileged", "docker", "run", "--network", "host", DIGEST),
    "socket": ("wide_mount", "docker", "run", "-v", "/var/run/docker.sock:/var/run/docker.sock", DIGEST),
    "home": ("wide_mount", "docker", "run", "--volume=~:/data", DIGEST),
    "missing": ("missing", "no-such-program"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=[*COMMANDS])
def test_an_unsafe_command_has_its_finding(programs: Path, command: tuple[str, ...]):
    """A command with one fault has one finding, without any secret in it."""
    rule, *words = command
    expected = ["unpinned", rule] if rule == "registry" else [rule]
    findings = list(find_launch_faults(words, cwd=str(programs)))
    assert [finding.rule.removeprefix("launch.") for finding in findings] == expected, findings
    assert not any(KEY in finding.seen or "q8Zr41xx" in finding.seen for finding in findings)


def test_a_piped_download_is_found(programs: Path):
    """A shell that runs a download has both findings."""
    assert programs.is_dir()
    assert list_rules(["sh", "-c", "curl -s https://example.com/i.sh | sh"]) == ["shell", "piped_download"]
    assert list_rules(["bash", "-c", "bash <(curl https://example.com/i.sh)"]) == ["shell", "piped_download"]


@pytest.mark.parametrize(
    "words",
    [
        PINNED,
        ("uvx", "notes==1.2.3"),
        ("docker", "run", "-i", "--rm", "-v", "/srv/notes:/data:ro", DIGEST),
        ("server", "--token", "${TOKEN}", "--verbose"),
        ("server", "--token-file", "/run/token"),
        ("server", "http://127.0.0.1:8000/mcp", "https://example.com"),
        ("python", "-m", "notes"),
        ("bash", "start.sh"),
        (sys.executable, "-m", "notes"),
    ],
    ids=str,
)
def test_a_safe_command_has_no_finding(programs: Path, words: tuple[str, ...]):
    """An exact version, a placeholder and an address of this machine are no fault."""
    assert list_rules(words, cwd=str(programs)) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("API_TOKEN", "q8Zr41xx", "secret_variable"),
        ("SETTINGS", KEY, "secret_variable"),
        ("LD_PRELOAD", "/lib/x.so", "hooking_variable"),
        ("NODE_OPTIONS", "--require x", "hooking_variable"),
        ("NODE_TLS_REJECT_UNAUTHORIZED", "0", "unchecked_tls"),
        ("HTTPS_PROXY", "http://proxy.example.com", "rerouting_variable"),
        ("OPENAI_BASE_URL", "https://example.com", "rerouting_variable"),
    ],
)
def test_an_unsafe_variable_is_found(programs: Path, name: str, value: str, rule: str):
    """A variable that is unsafe has one finding at its name, without a secret in it."""
    findings = list(find_launch_faults(["server"], env={"LANG": "C", name: value}, cwd=str(programs)))
    assert [finding.rule for finding in findings] == [f"launch.{rule}"]
    assert findings[0].place == f"launch: env.{name}"
    assert not findings[0].seen.endswith(("q8Zr41xx", KEY))


@pytest.mark.parametrize("value", ["${TOKEN}", "<your token>", "", "YOUR_TOKEN"])
def test_a_placeholder_is_no_secret(programs: Path, value: str):
    """A variable that only names a secret is no fault."""
    assert list_rules(["server"], {"API_TOKEN": value}, str(programs)) == []


def test_the_access_to_a_program_is_found(programs: Path):
    """A program that others can change or exchange, or that lies in a temporary folder, is found."""
    file = programs / "server"
    file.chmod(0o757)
    assert list_rules(["server"]) == ["writable"]
    file.chmod(0o755)
    programs.chmod(0o777)
    assert list_rules(["server"]) == ["writable"]
    programs.chmod(0o1777)
    assert list_rules(["server"]) == []


def test_a_script_that_others_can_change_is_found(programs: Path):
    """The file of a script counts as its interpreter does."""
    script = programs / "notes.py"
    script.write_text("", encoding="utf-8")
    script.chmod(0o646)
    findings = list(find_launch_faults(["python", "notes.py"], cwd=str(programs)))
    assert [(finding.rule, finding.place) for finding in findings] == [("launch.writable", f"launch: {script}")]


def test_a_program_in_a_temporary_folder_is_found(programs: Path, monkeypatch: pytest.MonkeyPatch):
    """A program below the folder for temporary files may vanish."""
    monkeypatch.setattr(tempfile, "tempdir", str(programs.parent))
    assert list_rules(["server"]) == ["temporary"]


def test_a_program_of_another_user_is_found(programs: Path, monkeypatch: pytest.MonkeyPatch):
    """A program that neither this user nor the superuser owns is found."""
    if (programs / "server").stat().st_uid == 0:
        os.chown(programs / "server", 12345, -1)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert list_rules(["server"]) == ["foreign_file"]


def test_a_relative_program_is_found(programs: Path):
    """A program named relative to a folder is another one elsewhere."""
    assert list_rules(["./server"], cwd=str(programs)) == ["relative"]


@pytest.mark.parametrize(
    ("url", "rules"),
    [
        ("https://example.com/mcp", []),
        ("http://localhost:8000/mcp", []),
        ("http://[::1]:8000/mcp", []),
        ("http://example.com/mcp", ["plain_http"]),
        ("ws://example.com/mcp", ["plain_http"]),
        ("https://me:q8Zr41xx@example.com/mcp", ["secret_in_url"]),
        ("https://example.com/mcp?api_key=q8Zr41xx", ["secret_in_url"]),
        ("https://ex\u0430mple.com/mcp", ["lookalike_host"]),
        ("https://xn--exmple-cua.com/mcp", ["lookalike_host"]),
        ("example.com/mcp", ["address"]),
        ("file:///etc/passwd", ["address"]),
        ("https://[", ["address"]),
    ],
)
def test_an_address_is_judged_by_its_text(url: str, rules: list[str]):
    """What is unsafe about an address is found without reaching it, and no secret is repeated."""
    findings = list(find_launch_faults(url))
    assert [finding.rule.removeprefix("launch.") for finding in findings] == rules
    assert "q8Zr41xx" not in "".join(finding.seen for finding in findings)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(max_size=20), max_size=5), st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=3)
)
def test_any_command_line_can_be_checked(words: list[str], env: dict[str, str]):
    """No text in a command line or its environment makes the check fail."""
    for finding in find_launch_faults(words, env=env):
        assert finding.rule in load_rules()


@given(st.text(max_size=40))
def test_any_address_can_be_checked(url: str):
    """No text in place of an address makes the check fail."""
    assert all(finding.rule in load_rules() for finding in find_launch_faults(url))
