"""The table of ``docs/topics/consent-checks.md``."""

from __future__ import annotations

from tests.interop.peers import HERE

PAGE = HERE.parent.parent / "docs" / "topics" / "consent-checks.md"


def read_table(column: str) -> dict[str, str]:
    """Return the cells of a column by the number of the check."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    start = next(at for at, row in enumerate(rows) if row[0] == "number")
    at = rows[start].index(column)
    return {row[0]: row[at] for row in rows[start + 1 :]}


def read_measured(column: str) -> dict[str, str]:
    """Return the cells of a column that say what was measured."""
    return {number: cell for number, cell in read_table(column).items() if cell in ("yes", "no", "part")}
