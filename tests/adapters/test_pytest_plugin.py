"""``pytest --check-server``: each server is a test, which fails with the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.check.faults import main; main('no fault')\n"
OTHERS = ("anyio", "asyncio", "cacheprovider", "hypothesispytest", "randomly", "timeout", "xdist", "xdist.looponfail")
"""Plugins that are installed here; to load them takes as long as pytest itself."""
WRONG = "print('this is no message', flush=True)\n"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with our plugin, as it finds it by its entry point."""
    without = [word for name in OTHERS for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", *without, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=80, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a server that is right, and one that is not."""
    (tmp_path / "right.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    return tmp_path


def test_a_right_server_passes_beside_other_tests(folder: Path):
    """Also with a tool that may be called."""
    (folder / "test_own.py").write_text("def test_own():\n    pass\n", encoding="utf-8")
    ran = run_pytest(folder, "--check-server", "right.py", "--check-call", 'count={"text": "abc"}')
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_a_wrong_server_fails_with_the_report_and_the_others_go_on(folder: Path):
    """Nobody has to know how the report was made."""
    ran = run_pytest(folder, "--check-server", "wrong.py", "--check-server", "right.py")
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout
    assert "antiphon check wrong.py" in ran.stdout
    assert "[rpc.rubbish]" in ran.stdout
    assert "checkup.py" not in ran.stdout


def test_a_call_that_is_not_there_fails_in_one_line(folder: Path):
    """The error names what is to be written."""
    ran = run_pytest(folder, "--check-server", "right.py", "--check-call", "count={")
    assert ran.returncode == 1
    assert "calls are written NAME" in ran.stdout
    assert "checkup.py" not in ran.stdout


def test_without_the_option_nothing_of_the_check_is_loaded(folder: Path):
    """Every run of pytest loads the plugin."""
    told = "import sys\n\ndef test_own():\n    assert not {m for m in sys.modules if m.startswith('antiphon.c')}\n"
    (folder / "test_own.py").write_text(told, encoding="utf-8")
    assert run_pytest(folder).returncode == 0
