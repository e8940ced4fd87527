from __future__ import annotations

import subprocess

import pytest

from antiphon.cli.root import COMMANDS
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, environment


@pytest.mark.parametrize(
    "words", [["review"], ["audit"], ["policy"], ["policy", "grants"], ["policy", "blocks"], ["tasks"]]
)
def test_a_group_has_help_of_its_own(words: list[str], cli: Cli):
    """With its commands, and which of them is the usual one."""
    done = cli(*words, "--help")
    assert done.code == 0
    assert "Without a command: " in " ".join(done.out.split())
    assert "..." not in done.out.partition("Commands:")[2]


@pytest.mark.parametrize("name", ["list", "show", "approve", "deny", "regenerate", "edit", "answer"])
def test_each_command_of_a_group_has_help(name: str, cli: Cli):
    """With its options."""
    done = cli("review", name, "-h")
    assert done.code == 0
    assert f"antiphon review {name}" in done.out


def test_options_without_a_command_are_those_of_the_usual_one(cli: Cli):
    """And are not lost where another one is named too late."""
    assert cli("review", "--store", "nowhere.db").err == "antiphon: nowhere.db: there is no such store\n"
    done = cli("review", "--json", "show", "1")
    assert (done.code, "unexpected extra argument" in done.err) == (2, True)


def test_the_help_keeps_the_order(cli: Cli):
    """Commands with commands of their own are not put last."""
    listed = [line.split()[0] for line in cli("--help").out.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert listed == [*COMMANDS]


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("antiphon au", ["audit"]),
        ("antiphon audit sp", ["spend"]),
        ("antiphon audit ", ["list", "show", "verify", "anchor", "export", "spend"]),
        ("antiphon call --pro", ["--provider"]),
        ("antiphon models ex", ["explain"]),
    ],
)
def test_a_shell_completes_commands_and_options(line: str, completed: list[str]):
    """Those of a command that has commands, too; what is usual is not put in before anything is named."""
    shell = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_ANTIPHON_COMPLETE": "bash_complete"}
    done = subprocess.run(COMMAND, capture_output=True, check=True, env=environment() | shell, text=True, timeout=60)
    assert [word.removeprefix("plain,") for word in done.stdout.split()] == completed
