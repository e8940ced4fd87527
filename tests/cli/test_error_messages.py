from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.output.formats import Failed, explain_error, find_json_mistake, prefix_errors, report_error
from antiphon.errors import AntiphonError, ConfigError, ConnectionClosed, Rejected
from tests.cli.conftest import Cli
from tests.cli.program import SHOP


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("no such file"), 2, "no such file"),
        (AntiphonError("it failed"), 1, "it failed"),
        (Failed("wrong", 2), 2, "wrong"),
        (
            ConnectionClosed("ended", exit_code=3, stderr="a\x1b["),
            1,
            "ended (exit code 3)\n  --- stderr of the server ---\n  a⟦",
        ),
        (FileNotFoundError(2, "No such file", "x"), 1, "x: No such file"),
        (ValueError("odd"), 1, "unexpected ValueError: odd (ANTIPHON_DEBUG=1 shows where)"),
    ],
)
def test_an_error_is_one_message_and_a_code(
    error: Exception, code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    """2 for what was typed or configured wrongly, 1 for the rest."""
    assert report_error(error) == code
    assert capsys.readouterr().err.startswith(f"antiphon: {message}")


def test_places_are_named_from_the_outside_in():
    """The target, then what was done there."""
    with (
        pytest.raises(Failed, match=r"^server: tool: wrong$") as caught,
        prefix_errors("server"),
        prefix_errors("tool"),
    ):
        raise ConfigError("wrong")
    assert caught.value.code == 2


def test_other_errors_keep_their_type():
    """They are not ours."""
    with pytest.raises(ValueError, match=r"^odd$"), prefix_errors("server"):
        raise ValueError("odd")


def test_notes_are_told():
    """A person's reason for a refusal is one."""
    error = Rejected("refused")
    error.add_note("denied: too long")
    assert explain_error(error) == "refused (code -1); denied: too long"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{\n "a": x}', "line 2, column 7: Expecting value"),
        (b"\xff", "byte 0: not UTF-8"),
        (b"[" * 100_000, "too deep"),
        (b"9" * 5_000, "a number is too long"),
        (b"{}", None),
    ],
)
def test_a_mistake_in_json_has_a_line_and_a_column(data: bytes, said: str | None):
    """As an editor shows them."""
    assert find_json_mistake(data) == said


def test_files_of_json_name_line_and_column(cli: Cli):
    """Those of arguments, and those of requests."""
    Path("bad.json").write_text('{\n "product": hat}', encoding="utf-8")
    for words in (
        ("call", SHOP, "price", "@bad.json"),
        ("models", "explain", "bad.json"),
        ("policy", "explain", "bad.json"),
    ):
        done = cli(*words)
        assert done.code == 2
        assert "line 2, column 13: Expecting value" in done.err, done.err


def test_a_configuration_that_is_named_is_there(cli: Cli):
    """Also for a command that asks nothing of it."""
    done = cli("tools", SHOP, "--config", "none.toml")
    assert (done.code, done.out) == (2, "")
    assert "none.toml: No such file" in done.err
