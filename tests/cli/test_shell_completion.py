from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import Cli
from tests.cli.program import environment


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[pexpect.spawn]:
    """A bash that has installed the completion, with servers of the user and of a project."""
    own = tmp_path / "config" / "antiphon" / "servers.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": {"warehouse": {"command": "x"}, "$(touch pwned)": {"command": "x"}}}))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"zebra": {"command": "x"}}}))
    (tmp_path / "quiet.toml").write_text('[mcp_servers.yonder]\ncommand = "x"\n')
    shell = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile", "-i"],
        env=environment(
            XDG_CONFIG_HOME=str(tmp_path / "config"),
            HOME=str(tmp_path),
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            PS1="ready>",
            TERM="dumb",
        ),
        cwd=tmp_path,
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 300),
    )
    shell.expect("ready>")
    shell.sendline('bind "set enable-bracketed-paste off"; eval "$(antiphon --show-completion)"; echo scr""ipt')
    shell.expect("script\r\n")
    shell.expect("ready>")
    yield shell
    shell.close(force=True)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("antiphon logo", "antiphon logout"),
        ("antiphon audit sp", "antiphon audit spend"),
        ("antiphon tools --time", "antiphon tools --timeout"),
        ("antiphon review approve --scope se", "antiphon review approve --scope session"),
        ("antiphon tools ware", "antiphon tools warehouse"),
        ("antiphon call ze", "antiphon call zebra"),
        ("antiphon doctor ware", "antiphon doctor warehouse"),
        ("antiphon audit list --server ware", "antiphon audit list --server warehouse"),
        ("antiphon gateway --only ze", "antiphon gateway --only zebra"),
        ("antiphon tools --config quiet.toml yon", "antiphon tools --config quiet.toml yonder"),
        ("antiphon install goo", "antiphon install goose"),
        ("antiphon uninstall lm", "antiphon uninstall lm-studio"),
        ("antiphon tools qui", "antiphon tools quiet.toml"),
    ],
)
def test_bash_completes_commands_options_servers_and_hosts(bash: pexpect.spawn, typed: str, completed: str):
    """A name that fits is completed by one tab; where none does, bash completes a file."""
    bash.send(f"{typed}\t")
    bash.expect_exact(f"{completed} ")


def test_a_stranger_s_name_is_no_word_of_a_shell(bash: pexpect.spawn, tmp_path: Path):
    """A server whose name has signs of the shell is not offered, and the shell runs nothing of it."""
    bash.sendline("COMP_WORDS=(antiphon tools ''); COMP_CWORD=2; _antiphon_completion antiphon; echo ${#COMPREPLY[@]}=")
    bash.expect_exact("2=\r\n")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("/bin/bash", "complete -o nosort -F _antiphon_completion antiphon"),
        ("/usr/bin/zsh", "compdef _antiphon_completion antiphon"),
        ("/usr/bin/fish", "complete --no-files --command antiphon"),
    ],
)
def test_the_script_is_for_the_user_s_shell(shell: str, registers: str, cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """As it is printed, the shell can read it when it starts."""
    monkeypatch.setattr(os, "getppid", lambda: 0)
    monkeypatch.setenv("SHELL", shell)
    printed = cli("--show-completion")
    assert (printed.code, printed.err) == (0, "")
    assert registers in printed.out


def test_a_shell_without_completion_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """The message lists the shells that have it."""
    monkeypatch.setattr(os, "getppid", lambda: 0)
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    done = cli("--show-completion")
    assert (done.code, done.err) == (2, "antiphon: tcsh: there is completion for bash, fish, zsh only\n")
