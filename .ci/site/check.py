"""Check the built site: ``python .ci/site/check.py build/site``. Prints each finding, and fails if there is one.

Each page is at most 100 kB of HTML, loads nothing from elsewhere, and links to what exists, anchors included.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST = 100_000
"""Bytes of HTML of a page."""
LARGER = {
    "reference/cli/index.html": 125_000,
    **{f"reference/{place}/{place}.Client/index.html": 110_000 for place in ("antiphon", "antiphon.client")},
    **{f"reference/{place}/{place}.Store/index.html": 110_000 for place in ("antiphon.host", "antiphon.host.store")},
}
"""Pages that people search by their text: all commands, and the two largest classes."""
LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("iframe", "src")}
LINKS_ONLY = {"canonical", "next", "prev", "edit", "alternate"}


class Page(HTMLParser):
    """Collects what a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.headings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        values = {name: value or "" for name, value in attrs}
        self.headings += tag == "h1"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif values.get("rel") not in LINKS_ONLY:
            self.loads += [values[name] for name in values if (tag, name) in LOADING]


def list_findings(site: Path) -> list[str]:
    """List what is wrong with the pages of a site."""
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    pages = {path.resolve(): Page(text) for path, text in texts.items()}
    findings: list[str] = []
    for path, text in texts.items():
        size, name = len(text.encode()), path.relative_to(site).as_posix()
        if size > LARGER.get(name, LARGEST):
            findings.append(f"{name}: {size:,} bytes")
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        findings += [f"{where}: loads {url}" for url in page.loads if urlsplit(url).netloc]
        if page.headings != 1 and where.name != "404.html":
            findings.append(f"{where}: {page.headings} headings of the first level")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or where.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                findings.append(f"{where}: no page at {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                findings.append(f"{where}: no anchor at {link}")
    return sorted(set(findings))


if __name__ == "__main__":
    found = list_findings(Path(sys.argv[1]))
    print(*found, sep="\n")
    print(f"{len(found)} findings")
    sys.exit(bool(found))
