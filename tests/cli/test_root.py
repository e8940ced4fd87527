from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.cli.root import COMMANDS
from tests.cli.conftest import Cli
from tests.cli.program import environment, in_process


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_has_the_first_sentence_of_each_help(name: str, cli: Cli):
    """The help of antiphon comes from the table, that of a command from its docstring."""
    words = " ".join(cli(name, "--help").out.partition("\n\n")[2].split())
    assert words.startswith(COMMANDS[name][1])


NETWORK = "serve, dev and gateway take --http HOST:PORT, as in --http 127.0.0.1:8000 (or --sse, --ws)"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (
            "run shop.py",
            "antiphon serve FILE, over HTTP with --http HOST:PORT; or antiphon dev FILE while you write it",
        ),
        ("inspect shop.py", "antiphon tools TARGET; antiphon check TARGET says whether a server is right"),
        ("serve shop.py --port 8000", NETWORK),
        ("dev shop.py --port=8000", NETWORK),
        ("gateway -t http", NETWORK),
        ("tools shop.py --port 8000", NETWORK),
        ("nonsense", None),
    ],
)
def test_words_of_other_command_lines_are_explained(line: str, remedy: str | None, cli: Cli):
    """Of FastMCP's and the official SDK's, beside the usual error."""
    done = cli(*line.split())
    assert done.code == 2
    assert "No such " in done.err
    assert done.err.partition("\nHere: ")[2].rstrip("\n") == (remedy or "")


@pytest.mark.parametrize("line", [["--help"], [], ["tool"]])
def test_help_and_completion_of_names_load_nothing_heavy(line: list[str]):
    """A shell that completes a word waits for it."""
    shell = {"COMP_WORDS": "antiphon tool", "COMP_CWORD": "1", "_ANTIPHON_COMPLETE": "bash_complete"}
    program = "import sys; from antiphon.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    env = environment() | (shell if line == ["tool"] else {})
    done = subprocess.run([sys.executable, "-c", program, *line], capture_output=True, check=True, env=env, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "click" in loaded
    assert {name for name in loaded if name.startswith("antiphon.cli.commands")} == set()
    assert loaded & {"rich", "asyncio", "antiphon.client", "antiphon.host", "antiphon.server"} == set()


def test_what_a_command_has_loaded_is_searched_for_no_garbage(tmp_path: Path):
    """The program's end would search it, too."""
    file = tmp_path / "counting.py"
    file.write_text(
        "import gc, sys\nfrom antiphon import Server\nserver = Server('counting')\n"
        "print(gc.get_freeze_count(), gc.isenabled(), file=sys.stderr)\n",
        encoding="utf-8",
    )
    done = in_process("serve", str(file))
    frozen, is_enabled = done.err.split()
    assert (done.code, int(frozen) > 10_000, is_enabled) == (0, True, "True")
