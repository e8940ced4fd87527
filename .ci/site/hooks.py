"""What the site needs beyond the pages of docs/: a home, a page for each public name, one navigation, texts for models.

MkDocs calls the functions that begin with ``on_`` while it builds. Nothing is written into docs/.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tests.support.public_surface import PLACES, public

ROOT = Path(__file__).resolve().parents[2]
HOMES = {"README.md": "index.md", "README.zh-CN.md": "zh/index.md"}
"""Pages at the root of the repository that become pages of the site."""
PAGES = {
    **HOMES,
    "docs/index.md": "documentation.md",
    **{name: f"project/{name}" for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md")},
    **{name: f"project/{name}" for name in ("GOVERNANCE.md", "CODE_OF_CONDUCT.md")},
    "examples/README.md": "examples/index.md",
}
"""Where a page of the repository stands on the site; a page of docs/ stands where its folder says."""
LEFT_OUT = {"docs/reference/api.md": "reference/antiphon/index.md"}
"""Pages that the site has in another form: the public names, with their types and members."""

LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()(?!https?:|mailto:|#)([^)#\s]*)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^( *)```(\w+) (.*)$", re.MULTILINE)
INSIDE = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)


def find_target(source: str) -> str | None:
    """Return the place on the site of a file of the repository; ``None``: the site does not have it."""
    if place := {**PAGES, **LEFT_OUT}.get(source):
        return place
    return source.removeprefix("docs/") if source.startswith("docs/") and (ROOT / source).is_file() else None


def rewrite_links(text: str, source: str, target: str, repository: str) -> str:
    """Turn links between files of the repository into links between pages of the site, or to the repository."""

    def rewrite_link(match: re.Match[str]) -> str:
        opening, link, rest = match.groups()
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if place := find_target(linked):
            rest = ")" if linked in LEFT_OUT else rest
            return f"{opening}{posixpath.relpath(place, posixpath.dirname(target) or '.')}{rest}"
        return f"{opening}{repository}/blob/main/{linked}{rest}"

    parts, end = [], 0
    for fence in INSIDE.finditer(text):
        parts += [LINK.sub(rewrite_link, text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, LINK.sub(rewrite_link, text[end:])])


def render_page(source: str, target: str, repository: str) -> str:
    """Read a page of the repository as the site shows it: with its links, and fences without our words for tests."""
    text = rewrite_links((ROOT / source).read_text(encoding="utf-8"), source, target, repository)
    return FENCE.sub(r"\1```\2", text)


def list_names() -> dict[str, list[str]]:
    """Group the public names by the module that users import them from."""
    names = sorted(public())
    return {place: [name for name in names if name.rpartition(".")[0] == place] for place in PLACES}


def write_reference(place: str, names: list[str]) -> dict[str, str]:
    """Write the pages of a public module: one that lists its names, and one for each name with types and members."""
    listed = "\n".join(f"* [`{name.rpartition('.')[2]}`]({name}.md)" for name in names)
    pages = {f"reference/{place}/index.md": f"# {place}\n\n{listed}\n"}
    return pages | {f"reference/{place}/{name}.md": f"# {name.rpartition('.')[2]}\n\n::: {name}\n" for name in names}


def on_files(files: Files, config: Any) -> Files:
    """Put in the pages from outside of docs/, and those of the reference; all others get their links rewritten."""
    repository = config["extra"]["repository"]
    for file in list(files):
        if file.src_uri.endswith(".md"):
            files.remove(file)
    sources = dict(PAGES)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        source = path.relative_to(ROOT).as_posix()
        if source not in LEFT_OUT:
            sources.setdefault(source, source.removeprefix("docs/"))
    texts = {target: render_page(source, target, repository) for source, target in sources.items()}
    for place, names in list_names().items():
        texts |= write_reference(place, names)
    for target, text in texts.items():
        files.append(File.generated(config, target, content=text))
    return files


def list_entries(section: str) -> list[dict[str, str]]:
    """List the pages that a section of docs/index.md links to, in its order."""
    found = re.findall(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)", section)
    entries: list[dict[str, str]] = []
    for title, link in found:
        place = find_target(posixpath.normpath(posixpath.join("docs", link)))
        if place and place not in [page for entry in entries for page in entry.values()]:
            entries.append({title.strip("`").capitalize() if title.islower() else title.strip("`"): place})
    return entries


def on_config(config: Any) -> Any:
    """Make the navigation from docs/index.md: its headings, and under each the pages that it links to."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    api = {"Python, with types": [{place: f"reference/{place}/index.md"} for place in PLACES]}
    config["nav"] = [
        {"Home": "index.md"},
        *({name: list_entries(sections[name])} for name in ("Tutorial", "How to", "Cookbook", "Topics")),
        {"Reference": [*list_entries(sections["Reference"]), api]},
        {"Design": list_entries(sections["Design"])},
        {"Taking part": list_entries(sections["Taking part"])},
        {"简体中文": "zh/index.md"},
    ]
    return config


def on_post_build(config: Any) -> None:
    """Write llms.txt, the list of pages, and llms-full.txt, their texts: what a model reads instead of the site."""
    site = Path(config["site_dir"])
    base = (config["site_url"] or "").rstrip("/")
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    texts: list[str] = []
    for section in config["nav"]:
        for name, entries in section.items():
            if isinstance(entries, str):
                continue
            lines += [f"## {name}", ""]
            for entry in entries:
                for title, place in entry.items():
                    if isinstance(place, str):
                        lines.append(f"- [{title}]({base}/{place.removesuffix('.md')}/)")
                        source = next((key for key, value in PAGES.items() if value == place), f"docs/{place}")
                        if (ROOT / source).is_file():
                            texts.append(render_page(source, place, config["extra"]["repository"]))
            lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(texts), encoding="utf-8")


def on_post_page(output: str, **_: Any) -> str:
    """Leave out the indentation of the HTML and the marks of brackets and commas: a sixth of a large page.

    The text of ``<pre>`` stays as it is.
    """
    output = re.sub(r'<span class="p">([^<]*)</span>', r"\1", output)
    parts = re.split(r"(<pre.*?</pre>)", output, flags=re.DOTALL)
    return "".join(part if part.startswith("<pre") else re.sub(r"\s*\n\s*", "\n", part) for part in parts)
