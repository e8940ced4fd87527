"""Runs programs in the environment of a framework, and checks the types of its adapter there.

The frameworks exclude each other's packages, so each has an environment of its own (``tests/interop/setup.sh``).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.peers import Peers

__all__ = ["check_types", "count_passed_cases", "run_example"]

ROOT = Path(__file__).parents[2]
PATIENCE = 600
"""Seconds that a program may take; the slowest takes a minute on a quiet machine."""


def find_python(framework: str) -> Path:
    """Find the interpreter of a framework's environment."""
    return Peers.installed().root / f"adapter_{framework}" / "bin" / "python"


def run_there(framework: str, arguments: Sequence[str | Path]) -> str:
    """Run Python in the environment, with this checkout's packages; return its output, and fail with it."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [find_python(framework), *arguments]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def count_passed_cases(framework: str, module: str) -> int:
    """Run the cases of a module of this folder; return how many passed, if all did."""
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--import-mode=importlib", "--noconftest"]
    options += ["-o", "asyncio_mode=auto", "--timeout", "60", "--rootdir", str(ROOT)]
    told = run_there(framework, ["-m", "pytest", *options, Path(__file__).with_name(f"{module}.py")])
    return int(told.strip().splitlines()[-1].split(" passed")[0])


def run_example(framework: str, example: str = "") -> str:
    """Run an example in the environment of a framework, by default its own; return what it prints."""
    return run_there(framework, [ROOT / "examples" / "agents" / f"{example or framework}_agent.py"])


def check_types(framework: str, folder: Path, module: str) -> None:
    """Check a module of ``antiphon.adapters`` strictly, with the framework's own types."""
    settings = folder / "pyrightconfig.json"
    strict = {"pythonVersion": "3.11", "typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    checked = str(ROOT / "src" / "antiphon" / "adapters" / f"{module}.py")
    settings.write_text(json.dumps({**strict, "include": [checked]}))
    command = [ROOT / ".venv" / "bin" / "basedpyright", "-p", settings, "--pythonpath", find_python(framework)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
