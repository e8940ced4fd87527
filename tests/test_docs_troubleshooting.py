"""The messages that docs/how-to/troubleshooting.md explains are messages that the library gives."""

from __future__ import annotations

import re

import pytest

from tests.test_docs import ROOT

PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
SOURCE = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
SEEN = [row.group(1) for row in re.finditer(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)]
QUOTED = re.compile(r"`([^`]+)`|\*([^*]+)\*")
FILLED_IN = re.compile(
    r"""\.\.\. | '[^']*' | "[^"]*" | \([^)]*\) | \[.*?\]       # names, values and remarks
    | \bNAME\b | \b[\d.]+\ s\b | https?://\S+ | /\w+$            # a tool, a time, an address, its path
    | \b[A-Z]\w+Error$ | \b(?:integer|string)\b | (?<=offer\ )\S+  # a class, a type, a capability""",
    re.VERBOSE,
)


def quotations() -> list[str]:
    """List what is quoted in the first columns, but for headings, names and codes."""
    found = [one or other for seen in SEEN for one, other in QUOTED.findall(seen)]
    return [text for text in found if " " in text]


@pytest.mark.parametrize("quoted", quotations())
def test_a_message_on_the_page_is_one_of_the_library(quoted: str):
    """What is filled in differs; the words around it are in the source."""
    words = [part.strip(" :,;") for part in FILLED_IN.split(quoted)]
    assert [part for part in words if len(part) > 4 and part not in SOURCE] == []


def test_every_row_quotes_something_to_recognise():
    """The page has rows at all, and they were found."""
    assert len(SEEN) > 30
    assert len(quotations()) > 12
