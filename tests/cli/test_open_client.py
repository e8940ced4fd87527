from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.open_client import format_log
from antiphon.wire.logging import LoggingMessageNotificationParams
from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP


def test_a_server_that_dies_is_told_with_its_last_words(cli: Cli):
    """Exit code and stderr, which is made inert."""
    done = cli("tools", str(SERVERS / "dying.py"))
    assert done.code == 1
    assert "(exit code 3)" in done.err
    assert "no ⟦U+001B⟧[31mdatabase" in done.err


def test_a_server_that_says_nothing_is_given_up(cli: Cli):
    """After the time it was given."""
    done = cli("tools", str(SERVERS / "silent.py"), "--timeout", "0.4", "--revision", "2025-11-25")
    assert done.code == 1
    assert "0.4 s" in done.err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no-such-program --really", "'no-such-program' cannot be started: there is no such program"),
        ("nothing.py", "no such file: nothing.py"),
    ],
)
def test_a_target_that_cannot_be_reached_is_wrong_usage(target: str, message: str, cli: Cli):
    """2, and what was wrong with it."""
    done = cli("tools", target)
    assert done.code == 2
    assert message in done.err


def test_an_unknown_revision_is_wrong_usage(cli: Cli):
    """The message lists those there are."""
    done = cli("tools", SHOP, "--revision", "1999-01-01")
    assert done.code == 2
    assert "2025-11-25" in done.err


def test_a_configured_server_is_reached_by_its_name(cli: Cli):
    """As other hosts write it."""
    import sys

    servers = {"mcpServers": {"ours": {"command": sys.executable, "args": [SHOP]}}}
    Path("mine.json").write_text(json.dumps(servers), encoding="utf-8")
    assert cli("prompts", "ours", "--config", "mine.json").out.startswith("sell\t")


def test_a_server_in_a_file_that_runs_none_is_reached_by_its_name(cli: Cli):
    """FILE:NAME."""
    assert cli("tools", f"{SERVERS / 'two.py'}:first").out == "one\t\tReturn one.\n"


def test_messages_are_shown_beside_the_data(cli: Cli):
    """On standard error, readably."""
    done = cli("tools", SHOP, "--messages", "--revision", "2025-11-25")
    lines = done.err.splitlines()
    assert lines[0].startswith("→ from us")
    assert lines[1].startswith("→ initialize #")
    assert any(line.startswith("← result of tools/list #") for line in lines)
    assert "→" not in done.out


def test_what_the_server_writes_to_stderr_is_shown_if_wanted(cli: Cli):
    """Made inert."""
    hostile = str(SERVERS / "hostile.py")
    assert "stderr: stderr⟦U+001B⟧[31m" in cli("call", hostile, "tell", "--verbose").err
    assert "stderr" not in cli("call", hostile, "tell").err


def test_a_log_message_is_a_line():
    """Data that is no text is JSON."""
    params = LoggingMessageNotificationParams(level="warning", data={"a": 1}, logger="db")
    assert format_log(params) == '[warning] db: {"a":1}'
    assert format_log(LoggingMessageNotificationParams(level="info", data="hi")) == "[info] hi"


def test_a_file_that_runs_no_server_is_told_the_remedy(cli: Cli, tmp_path: Path):
    """The newcomer's first mistake; of a command it is asked whether it is a server."""
    (tmp_path / "only.py").write_text("from antiphon import Server\nserver = Server('x')\n", encoding="utf-8")
    done = cli("tools", "only.py")
    assert done.code == 1
    assert "with server.run() at its end; or name the object, as in FILE.py:server" in done.err
    assert "is it a server that speaks over standard input and output?" in cli("tools", "true").err


def test_an_address_is_named_once(cli: Cli):
    """With the reason in plain words."""
    done = cli("tools", "http://127.0.0.1:9/mcp")
    assert done.err.startswith("antiphon: cannot reach http://127.0.0.1:9/mcp: Connection refused")


def test_a_file_of_servers_that_is_not_there_is_named(cli: Cli):
    """Also where the target is no name that would be looked up in it."""
    done = cli("tools", SHOP, "--config", "none.json")
    assert (done.code, done.err) == (2, "antiphon: none.json: No such file or directory\n")
