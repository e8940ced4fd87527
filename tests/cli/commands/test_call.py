"""The record of tasks that were started: private, bounded, and never in the way."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from antiphon.cli.commands.call import MAX_STARTED, StartedTask, find_task, forget_task, read_all, remember_task
from antiphon.errors import ConfigError
from antiphon.wire.revisions import REVISIONS
from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP, at_terminal, ended

_RAISING = """from antiphon import Server

server = Server("hats")


@server.tool
def price() -> float:
    return {}["hat"]


server.run()
"""


def test_arguments_are_read_by_the_schema_of_the_tool(shop: Cli):
    """Numbers and booleans arrive as such."""
    done = shop("call", SHOP, "price", "product=42", "pieces=3", "discount=0.5", "express=yes")
    assert (done.code, done.out) == (0, "42: 3 at 0.5 off, express\n")


def test_arguments_may_be_one_object(shop: Cli):
    """Beside ``--json``, which prints the result."""
    [result] = shop("call", SHOP, "tagged", "--json", '{"tags": ["a"], "size": {"a": 2}}').objects
    assert result["structuredContent"] == {"a": 2}


def test_a_result_that_cannot_be_written_is_not_lost(shop: Cli, tmp_path: Path):
    """The tool has run, and may not be called a second time."""
    done = shop("call", SHOP, "price", "product=42", "pieces=3", "-o", str(tmp_path / "missing" / "file"))
    assert (done.code, done.out.partition(" at ")[0]) == (1, "42: 3")
    assert "missing/file: No such file or directory" in done.err


def test_a_long_argument_is_shortened_in_a_message(shop: Cli):
    """So that the message is read, and not what was typed."""
    done = shop("call", SHOP, "price", "product=42", f"pieces={'x' * 5000}")
    assert (done.code, len(done.err) < 400, "a whole number is needed" in done.err) == (2, True, True)


def test_every_kind_of_content_is_shown(shop: Cli):
    """What is no text is named."""
    assert shop("call", SHOP, "everything").out.splitlines() == [
        "text",
        "[image image/png, 3 bytes]",
        "[link to shop://list: list]",
        "noted",
    ]


def test_a_tool_that_fails_is_1(shop: Cli):
    """Its text is printed."""
    done = shop("call", SHOP, "refuse", "reason=sold out")
    assert (done.code, done.out) == (1, "sold out\n")
    assert "the tool reports a failure" in done.err


def test_a_failure_that_the_server_keeps_to_itself_is_found_with_verbose(shop: Cli, tmp_path: Path):
    """Its text is in the server's standard error, which is shown only if wanted."""
    file = tmp_path / "hats.py"
    file.write_text(_RAISING, encoding="utf-8")
    done = shop("call", str(file), "price")
    assert "price failed: KeyError" in done.out
    assert "price: the tool reports a failure; -v shows what its server writes about it" in done.err
    done = shop("call", "-v", str(file), "price")
    assert "KeyError: 'hat'" in done.err
    assert "-v shows" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prize"], "the server has no tool 'prize': did you mean 'price'?"),
        (["price", "pieces=x"], "price: pieces=x: a whole number is needed"),
        (["price", "colour=red"], "price: there is no argument 'colour'"),
        (["price", "loose"], "an argument is written key=value"),
        (["describe", "--yes", "--deny"], "contradict each other"),
        (["describe", "--provider", "oracle"], 'There is no provider "oracle"'),
    ],
)
def test_wrong_arguments_are_2(arguments: list[str], message: str, shop: Cli):
    """Before anything is called."""
    done = shop("call", SHOP, *arguments)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("revision", [one.name for one in REVISIONS])
def test_yes_answers_what_the_server_asks(revision: str, shop: Cli):
    """On every revision; log messages are told beside the data."""
    done = shop("call", SHOP, "describe", "product=tea", "--yes", "--provider", "echo", "--revision", revision)
    assert (done.code, done.out) == (0, "echo: [echo] Describe tea\n")
    assert "sampling request answered by 'echo'" in done.err
    assert '[warning] shop: {"about":"tea"}' in done.err


def test_without_a_key_nothing_stands_in_for_a_model(shop: Cli):
    """The call fails, the server learns nothing of it, and the remedies are told."""
    done = shop("call", SHOP, "describe", "product=tea", "--yes")
    assert done.code == 1
    assert "[echo]" not in done.out
    assert "describe: no model can answer it: " in done.err
    assert done.err.index("the environment has no ANTHROPIC_API_KEY") < done.err.index("configure one")
    assert "ANTHROPIC_API_KEY or OPENAI_API_KEY or GEMINI_API_KEY or GOOGLE_API_KEY" in done.err
    assert "--provider echo" in done.err
    assert "API_KEY" not in done.out


def test_deny_refuses_what_the_server_asks(shop: Cli):
    """The call fails by it."""
    done = shop("call", SHOP, "describe", "product=tea", "--deny")
    assert done.code == 1
    assert done.err.endswith(f"antiphon: {SHOP}: describe: the policy of this host refuses it (code -1)\n")
    assert "sampling request" not in done.err
    done = shop("call", SHOP, "describe", "product=tea", "--deny", "--revision", "2025-11-25")
    assert "sampling request refused: the policy of this host refuses it" in done.err
    assert shop("call", SHOP, "order", "--deny").out == "decline\n"


def test_without_a_terminal_nothing_is_answered(shop: Cli):
    """And the remedy is told."""
    done = shop("call", SHOP, "describe", "product=tea")
    assert done.code == 1
    assert "--yes answers without asking" in done.err


def test_forms_are_sent_with_their_defaults_if_those_suffice(shop: Cli):
    """``--yes`` cannot know more."""
    assert shop("call", SHOP, "wrap", "--yes").out == "accept: Wrapping(colour='red', ribbon=True)\n"
    assert shop("call", SHOP, "order", "--yes").out == "decline\n"


def test_roots_are_offered(cli: Cli):
    """By the name of the folder."""
    Path("project").mkdir()
    done = cli("call", SHOP, "folders", "--roots", "project", "--roots", "file:///elsewhere")
    assert done.out == "project file:///elsewhere\n"


def test_a_server_that_dies_in_the_middle_is_told(cli: Cli):
    """With its exit code and last words."""
    done = cli("call", SHOP, "vanish")
    assert done.code == 1
    assert "(exit code 7)" in done.err
    assert "last words" in done.err


def test_a_call_that_takes_too_long_is_given_up(shop: Cli):
    """The tool is named."""
    done = shop("call", SHOP, "linger", "--timeout", "1.5")
    assert done.code == 1
    assert "linger: tools/call was not answered within 1.5 s" in done.err


def test_a_person_approves_at_the_terminal():
    """The request is shown, then the result."""
    child = at_terminal("call", SHOP, "describe", "product=tea", "--provider", "echo", NO_COLOR="1")
    child.expect_exact("Describe tea")
    child.expect_exact("decision> ")
    child.sendline("a")
    child.expect_exact("echo: [echo] Describe tea")
    assert ended(child) == 0


def test_a_person_answers_at_the_terminal():
    """In their own words."""
    child = at_terminal("call", SHOP, "describe", "product=tea", "--provider", "manual", NO_COLOR="1")
    child.expect_exact("decision> ")
    child.sendline("w")
    child.expect_exact("single dot")
    child.sendline("A cup of calm.")
    child.sendline(".")
    child.expect_exact("human: A cup of calm.")
    assert ended(child) == 0


def test_a_person_refuses_at_the_terminal():
    """With a reason, which is told here and not there."""
    child = at_terminal("call", SHOP, "describe", "product=tea", "--provider", "echo", NO_COLOR="1")
    child.expect_exact("decision> ")
    child.sendline("r")
    child.expect_exact("reason")
    child.sendline("no tea today")
    child.expect_exact("describe: User rejected sampling request (code -1); denied: no tea today\r\n")
    assert "refused by you" not in child.before
    assert ended(child) == 1


def test_a_person_fills_in_a_form_at_the_terminal():
    """Field by field."""
    child = at_terminal("call", SHOP, "order", NO_COLOR="1")
    child.expect_exact("How many?")
    child.expect_exact("decision> ")
    child.sendline("d")
    child.expect("decline")
    assert ended(child) == 0


def test_nothing_of_a_hostile_server_reaches_the_terminal():
    """Result, log message, progress, stderr: all inert."""
    child = at_terminal("call", str(SERVERS / "hostile.py"), "tell", "--verbose", "--messages", NO_COLOR="1")
    assert ended(child) == 0
    printed = child.before or ""
    for part in ("log", "result", "stderr"):
        assert f"{part}⟦U+001B⟧[31m⟦U+001B⟧]0;owned⟦U+0007⟧⟦U+009B⟧2J⟦U+202E⟧" in printed.replace("\r\n", "")
    assert "\x1b]0;" not in printed
    assert "\x9b" not in printed
    assert "\u202e" not in printed


def test_arguments_come_from_a_file_or_through_standard_input(shop: Cli, monkeypatch: pytest.MonkeyPatch):
    """As one JSON object, beside which others may be typed."""
    Path("tea.json").write_text('{"product": "tea", "pieces": 2}', encoding="utf-8")
    assert shop("call", SHOP, "price", "@tea.json", "pieces=3").out == "tea: 3 at 0.0 off, standard\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"product": "jam", "pieces": 1}')))
    assert shop("call", SHOP, "price", "-").out == "jam: 1 at 0.0 off, standard\n"


def test_results_are_saved(shop: Cli):
    """One to a file; several to a folder, under names of ours."""
    assert shop("call", SHOP, "price", "product=tea", "pieces=1", "-o", "price.txt").out == ""
    assert Path("price.txt").read_text(encoding="utf-8") == "tea: 1 at 0.0 off, standard"
    Path("all").mkdir()
    done = shop("call", SHOP, "everything", "--output", "all")
    assert sorted(file.name for file in Path("all").iterdir()) == ["1.txt", "2.png", "3.txt"]
    assert f"{Path('all', '2.png')} written" in done.err
    assert shop("call", SHOP, "everything", "--output", "one.bin").code == 2


def test_a_tool_that_lacks_an_argument_says_what_it_takes(shop: Cli):
    """The server's words, and then the whole signature."""
    done = shop("call", SHOP, "price", "product=tea")
    assert done.code == 1
    assert "it takes product: string, pieces: integer, discount?: number, express?: boolean" in done.err
    assert "it takes" not in shop("call", SHOP, "refuse", "reason=no").err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the record in a folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "antiphon" / "tasks"


def started(number: int) -> StartedTask:
    """Make an entry."""
    return StartedTask(id=f"{number:04}-id", target="server.py", tool="work", started=float(number))


def test_a_task_is_found_by_the_beginning_of_its_id(folder: Path):
    """As long as that is the beginning of one only; its file is nobody else's business."""
    remember_task(started(1))
    remember_task(started(12))
    assert find_task("0001") == started(1)
    assert [task.id for task in read_all()] == ["0012-id", "0001-id"]
    for wrong in ("00", "0013", ""):
        with pytest.raises(ConfigError, match="antiphon tasks list"):
            find_task(wrong)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    forget_task("0001-id")
    forget_task("0001-id")
    assert len(read_all()) == 1


def test_the_oldest_is_forgotten_and_what_is_broken_is_passed_over(folder: Path):
    """However many are started, and whatever lies in the folder; a server's id is no name of a file."""
    for number in range(MAX_STARTED + 2):
        remember_task(started(number))
    assert len(read_all()) == MAX_STARTED
    assert read_all()[-1] == started(2)
    (folder / "broken.json").write_text("{", encoding="utf-8")
    remember_task(StartedTask(id="../../evil", target="t", tool="w", started=1e9))
    assert read_all()[0].id == "../../evil"
    assert {path.parent for path in folder.rglob("*")} == {folder}


def test_one_that_cannot_be_noted_again_is_still_known(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk costs no task that was noted before."""
    remember_task(started(1))

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        remember_task(started(1))
    assert read_all() == [started(1)]
    assert len(list(folder.iterdir())) == 1
