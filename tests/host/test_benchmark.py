"""The program that measures the host does what it is measured by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "host.py"


def test_it_prints_a_table():
    """A line for each length of the audit, with figures, and no fault in the chain."""
    done = subprocess.run([sys.executable, PROGRAM, "20", "1000"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    heading, *rows = lines
    assert heading.startswith("| records before | median ms")
    assert len(rows) == 3
    for row in rows:
        records, median, late, rate, used, check = (float(cell.replace(",", "")) for cell in row.strip("|").split("|"))
        assert records > 0
        assert 0 < median <= late
        assert min(rate, used, check) > 0
    assert rows[-1].split("|")[1].strip() == "1,000"
