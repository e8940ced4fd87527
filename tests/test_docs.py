"""README and docs are true: programs in them run, links in them lead somewhere.

A fenced block says after its language what is done with it: ``file=NAME`` saves it in the page's scratch folder,
``run`` runs it there as a program that must end well. A ``text output`` block holds exactly what the program before it
prints. Any other Python block must at least be Python, and any JSON block JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from antiphon.cli.root import COMMANDS
from tests.support.forked import Runner, open_runner

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("benchmarks/*.md")]
)
FENCE = re.compile(r"^```(?P<language>\w+)(?P<marks>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    marks: list[str]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name to save it under, if it has one."""
        return next((mark.removeprefix("file=") for mark in self.marks if mark.startswith("file=")), None)


def blocks(page: Path) -> Iterator[Block]:
    """Walk over the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(match["language"], match["marks"].split(), match["text"], line)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """Run programs without importing the library for each."""
    with open_runner() as opened:
        yield opened


def run(block: Block, folder: Path, runner: Runner) -> str:
    """Run a program from a page as its reader would, and return what it printed."""
    program = folder / (block.file or f"line_{block.line}.py")
    program.write_text(block.text, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = runner(program, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def title(page: Path) -> str:
    """Name a page in the test's name."""
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Collect the anchors that the headings of a page make."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.timeout(600)  # a page starts up to a dozen programs, one after the other
@pytest.mark.parametrize("page", [page for page in PAGES if any("run" in b.marks for b in blocks(page))], ids=title)
def test_the_programs_of_a_page_run(page: Path, tmp_path: Path, runner: Runner):
    """What a reader copies works, and prints what the page says."""
    printed = ""
    for block in blocks(page):
        if "run" in block.marks:
            printed = run(block, tmp_path, runner)
        elif block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif "output" in block.marks:
            assert printed == block.text, f"{title(page)}:{block.line}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_the_blocks_of_a_page_are_what_they_say(page: Path):
    """A block that is not run is still of its language."""
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, f"{title(page)}:{block.line}", "exec", dont_inherit=True)
        elif block.language == "json":
            json.loads(block.text)
        assert block.marks == [] or block.language in {"python", "text", "json"}, f"{title(page)}:{block.line}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_the_links_of_a_page_lead_somewhere(page: Path):
    """A relative link names a file of the repository, and an anchor a heading in it."""
    for match in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / match["path"] if match["path"] else page
        assert target.exists(), match[0]
        assert not match["anchor"] or match["anchor"] in anchors(target), match[0]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_the_commands_of_a_page_exist(page: Path):
    """What a page tells a reader to type is there: commands of ``antiphon``, targets of ``make``."""
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shell = "\n".join(block.text for block in blocks(page) if block.language == "sh")
    assert set(re.findall(r"^(?:.*&& )?make (\w+)", shell, re.MULTILINE)) <= targets
    assert set(re.findall(r"^(?:\$ |\.venv/bin/)?antiphon ([\w-]+)", shell, re.MULTILINE)) <= set(COMMANDS)


def test_both_readmes_show_the_same_programs():
    """The translation may not fall behind."""
    pages = (ROOT / "README.md", ROOT / "README.zh-CN.md")
    english, chinese = ([(b.marks, b.text) for b in blocks(page) if b.marks] for page in pages)
    assert english == chinese


def test_the_readme_keeps_its_promise_of_brevity():
    """A server in 10 lines, a host in 6, a client in as few as it takes."""
    lines = {
        b.file: len([line for line in b.text.splitlines() if line.strip()])
        for b in blocks(ROOT / "README.md")
        if b.file
    }
    assert lines["catalogue.py"] <= 10
    assert lines["host.py"] <= 6
    assert lines["shop.py"] <= 10


def test_a_fresh_clone_needs_two_commands():
    """Both READMEs name them, and what a submission must pass runs them."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    for page in ("README.md", "README.zh-CN.md"):
        shell = "\n".join(block.text for block in blocks(ROOT / page) if block.language == "sh")
        for command, line in (("make demo", "make demo"), ("make test", 'run_lane "make test" || failed=1')):
            assert re.search(rf"^{command} +# .*\d", shell, re.MULTILINE), f"{page}: {command}, and how long it takes"
            assert line in script


def test_the_demo_needs_no_tools_of_developers(tmp_path: Path):
    """In a fresh clone only what it runs on is installed; for the page, the extra of it."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for more, wanted in (([], "'.'"), (["ARGS=--web"], "'.[host]'")):
        done = subprocess.run(["make", "-n", "demo", *more], cwd=tmp_path, capture_output=True, check=True, text=True)
        [install] = [line for line in done.stdout.splitlines() if "pip install" in line]
        assert install.endswith(f"--editable {wanted}")
        assert "--quiet" not in install
