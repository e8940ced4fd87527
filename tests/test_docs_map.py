"""Every page of the docs is found from the index, in the section of its kind, and nothing is stray."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_docs import LINK, PAGES, ROOT, title

DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "cookbook": "Cookbook",
    "topics": "Topics",
    "reference": "Reference",
    "design": "Design",
}


def linked(text: str, page: Path) -> set[Path]:
    """Collect the files of the repository to which a page links."""
    return {(page.parent / match["path"]).resolve() for match in LINK.finditer(text) if match["path"]}


def section(heading: str) -> str:
    """Return the part of the index below a heading."""
    parts = re.split(r"^## (.*)$", INDEX.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return parts[parts.index(heading) + 1]


@pytest.mark.parametrize("folder", sorted({page.relative_to(DOCS).parts[0] for page in DOCS.glob("*/*.md")}))
def test_the_index_leads_to_every_page_of_a_folder(folder: str):
    """A new page is found where its kind is looked for; topics that are tables, in the reference."""
    kinds = (SECTIONS[folder], "Reference") if folder == "topics" else (SECTIONS[folder],)
    found = {path for kind in kinds for path in linked(section(kind), INDEX)}
    assert set((DOCS / folder).rglob("*.md")) - found == set()


def test_the_index_has_the_kinds_of_pages_in_the_usual_order():
    """Learn, do, understand, look up."""
    headings = re.findall(r"^## (.*)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS.values()] == [*SECTIONS.values()]


def test_the_readmes_lead_to_the_index():
    """Whoever comes from outside starts there."""
    for name in ("README.md", "README.zh-CN.md"):
        page = ROOT / name
        assert INDEX in linked(page.read_text(encoding="utf-8"), page), name


def test_no_page_is_an_orphan():
    """From the README every page can be reached by links alone."""
    found, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in found:
            found.add(page)
            left += [path for path in linked(page.read_text(encoding="utf-8"), page) if path.suffix == ".md"]
    assert [title(page) for page in PAGES if page not in found] == []


def test_every_picture_is_shown_somewhere():
    """A picture that no page shows is taken, kept and never seen."""
    shown = {path for page in PAGES for path in linked(page.read_text(encoding="utf-8"), page)}
    assert set((DOCS / "images").iterdir()) - shown == set()
