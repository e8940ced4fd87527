"""The programs of README and docs pass a type checker in its standard mode: an editor marks nothing in what is copied.

Files that belong to one page are checked together, as its reader has them in one folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.test_docs import PAGES, ROOT, blocks, title


def save_programs(folder: Path) -> list[Path]:
    """Save the programs of each page that has some in a folder of its own; return these folders."""
    saved = []
    for page in PAGES:
        of_page = folder / title(page).replace("/", "-").removesuffix(".md")
        for block in blocks(page):
            if block.language == "python" and block.marks:
                of_page.mkdir(exist_ok=True)
                (of_page / (block.file or f"line_{block.line}.py")).write_text(block.text, encoding="utf-8")
        saved += [of_page] if of_page.exists() else []
    return saved


def test_programs_of_pages_pass_the_type_checker(tmp_path: Path):
    """Their own functions may lack annotations, as those of a reader do."""
    folders = save_programs(tmp_path)
    assert len(folders) > 40
    config = {
        "include": [each.name for each in folders],
        "executionEnvironments": [{"root": each.name} for each in folders],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    checker = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--level", "error"]
    done = subprocess.run(
        [*checker, "-p", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout.replace(f"{tmp_path}/", "")
