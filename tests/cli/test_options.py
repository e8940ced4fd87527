from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli import options
from antiphon.cli.options import Reach, user_name
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS
from tests.cli.conftest import Cli
from tests.cli.program import SHOP


@pytest.mark.parametrize("name", ["tools", "call", "resources", "read", "prompts", "prompt", "doctor"])
def test_commands_share_their_options(name: str, cli: Cli):
    """Spelled alike everywhere."""
    printed = cli(name, "--help").out
    for option in ("--json", "--config", "--revision", "--timeout", "--header", "--messages", "--verbose"):
        assert option in printed


@pytest.mark.parametrize("words", ["call", "read", "prompt", "tasks follow", "gateway", "model-api"])
def test_whatever_a_server_asks_in_is_answered_by_the_same_options(words: str, cli: Cli):
    """Reading a resource asks as a tool does."""
    printed = cli(*words.split(), "--help").out
    for option in ("--yes", "--deny", "--provider", "--model", "--store", "--review"):
        assert option in printed


def test_the_help_names_the_revisions(cli: Cli):
    """All there are."""
    printed = cli("tools", "--help").out
    assert all(revision.name in printed for revision in REVISIONS)


def test_headers_are_read_as_they_are_sent():
    """The value may have colons, and spaces around it do not count."""
    assert Reach(header=["A:b", "Authorization: Bearer x:y "]).headers == {"A": "b", "Authorization": "Bearer x:y"}
    assert Reach().headers is None


@pytest.mark.parametrize("text", ["secret", "a b: c", ": x", "A: b\r\nC: d"])
def test_what_is_no_header_is_refused_and_not_repeated(text: str):
    """It may be a token that was typed in the wrong place."""
    with pytest.raises(ConfigError, match="written 'NAME: VALUE'") as error:
        _ = Reach(header=[text]).headers
    assert "secret" not in str(error.value)


def test_a_header_for_a_command_line_is_wrong_usage(cli: Cli):
    """It has nowhere to go."""
    done = cli("tools", SHOP, "--header", "A: b")
    assert (done.code, done.out) == (2, "")
    assert "headers, ssl, proxy and auth are for a URL" in done.err


def test_a_process_may_have_no_name(monkeypatch: pytest.MonkeyPatch):
    """In a container, say."""
    assert user_name()

    def fail() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr(options.getpass, "getuser", fail)
    assert user_name() is None


@pytest.mark.parametrize("words", [("check", SHOP, "--yes"), ("call", SHOP, "price"), ("demo", "--yes")])
def test_what_is_no_number_is_refused(words: tuple[str, ...], cli: Cli):
    """It is neither below nor above anything: a deadline of it never came."""
    option = "--interval" if words[0] == "demo" else "--timeout"
    done = cli(*words, option, "nan")
    assert (done.code, "'nan' is not a number" in done.err) == (2, True)


def test_settings_that_would_not_apply_are_refused(cli: Cli, tmp_path: Path):
    """A file of another name is a list of servers for some commands, and the built-in settings were shown."""
    file = tmp_path / "rules.conf"
    file.write_text('[policy]\ndefault = "deny"\n', encoding="utf-8")
    done = cli("policy", "show", "--config", str(file))
    assert (done.code, "does not end in .toml, so its settings would not apply" in done.err) == (2, True)
