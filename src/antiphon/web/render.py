"""Templates to HTML. Every value that a template prints is made inert and escaped, here and nowhere else.

Owns the template environment. Only ``Markup``, made by this module and by templates, is exempt; and the filter ``raw``
(escaped, but not inert), for values of fields that are sent back, where a mark would be a change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks.risk import has_spots, list_spots
from antiphon.host.checks.visible import inert_line, make_inert
from antiphon.host.review.decisions import arguments_of
from antiphon.host.review.diff import format_json, make_editable, split_changed_words
from antiphon.host.review.review import USUAL
from antiphon.host.review.summary import cut_name

_HERE = Path(__file__).resolve().parent
STATIC = _HERE / "static"
"""Files that are served unchanged."""


_IMPORT = re.compile(r'^import [^"]*"(.+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)
_LEFT_OUT = re.compile(r"^export |^ *//.*\n| */\*[^*]*\*/\n?", re.MULTILINE)
_STYLES = {
    "page.css": "look/look page",
    "rest.css": "look/records look/answers look/entrance",
    "fonts.css": "look/fonts",
}


def _join_file(path: Path, known: set[Path]) -> str:
    """Join a script with its imports, each once. No two may declare the same name at their top."""
    text = "" if path in known else path.read_text(encoding="utf-8")
    known.add(path)
    before = [_join_file((path.parent / name).resolve(), known) for name in _IMPORT.findall(text)]
    return "".join(before) + _IMPORT.sub("", text)


def _join_files() -> dict[str, str]:
    """Join what a page loads, by name, without comments. The first script hands what it exports to the rest."""
    known = set[Path]()
    found = {name: _join_file(STATIC / name, known) for name in ("page.js", "rest.js")}
    names = f"{{ {', '.join(_EXPORT.findall(found['page.js']))} }}"
    found["page.js"] += f"globalThis.antiphon = {names};\n"
    found["rest.js"] = f"const {names} = globalThis.antiphon;\n{found['rest.js']}"
    found["doorway.js"] = _join_file(STATIC / "doorway.js", set())
    for name, parts in _STYLES.items():
        found[name] = "".join((STATIC / f"{part}.css").read_text(encoding="utf-8") for part in parts.split())
    return {name: _LEFT_OUT.sub("", text) for name, text in found.items()}


JOINED = _join_files()
"""A script and a style sheet for the first view, and the rest of each: every request costs a round trip."""
JOINED_AT = f"/static/{hashlib.sha256(''.join(JOINED.values()).encode()).hexdigest()[:16]}"
"""Their folder. It has another name as soon as any of them changes, so a browser keeps them for good."""
_TAGS = {
    f'<link rel="stylesheet" href="{JOINED_AT}/page.css">': f"<style>{JOINED['page.css']}</style>",
    f'<script type="module" src="{JOINED_AT}/page.js"></script>': f'<script type="module">{JOINED["page.js"]}</script>',
    f'<link rel="stylesheet" href="{JOINED_AT}/rest.css">\n': "",
    f'<script type="module" src="{JOINED_AT}/rest.js"></script>': "",
}
"""Tags of a page that name its files, and what may stand in their place."""
_MARKS = re.compile("(\u27e6[^\u27e7]*\u27e7)")
"""Our marks. A server's own brackets of this kind are marked themselves, so that it cannot imitate one."""
LONG = 4_000
"""Characters from which a text is shown in a box of its own that scrolls, with its size."""
PIECE = 50_000
"""Characters of a text that are drawn at once; a link leads to the rest."""


@cache
def make_environment() -> Environment:
    """Make the environment of the page's templates, which all pages of a process share."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    writing: dict[str, Callable[[Any], object]] = {
        "line": lambda value: escape(inert_line(str(value))),
        # A name of a stranger's on one line, cut as on every surface.
        "name": lambda value: escape(inert_line(cut_name(str(value)))),
        "marked": _mark_invisible,
        "editable": lambda value: escape(make_editable(value)),
        "raw": escape,
        "json": format_json,
        "when": lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "iso": lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
        # The number of characters that are not in the page, and texts as they stand in a field that can be edited.
        "unloaded": lambda texts: sum(max(0, len(text) - PIECE) for text in texts),
        "typed": lambda texts: [make_editable(text) for text in texts],
    }
    pointing: dict[str, Any] = {"list_spots": list_spots, "has_spots": has_spots, "beside": split_changed_words}
    pointing["arguments"] = arguments_of
    cast("dict[str, Any]", made.globals).update(icon=_ICON.format, usual=USUAL, joined=JOINED_AT)
    pointing |= {"money": format_dollars, "exact": partial(format_dollars, rounding="none"), "nano": convert_to_nano}
    made.filters.update(writing | pointing)
    return made


def load_first_view() -> None:
    """Compile the templates of the first view, which takes 0.3 s, before anybody waits for it."""
    made = make_environment()
    for name in made.list_templates(filter_func=lambda name: name.startswith(("base.", "queue.", "parts/", "rail/"))):
        made.get_template(name)


def inline_files(page: str) -> str:
    """Return a page with its script and its style sheet in itself: a slow link then costs one round trip, not two."""
    for named, inlined in _TAGS.items():
        page = page.replace(named, inlined, 1)
    return page


def _make_visible(value: object) -> object:
    """Make what a template prints inert; autoescaping follows."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return make_inert(value)
    return "" if value is None else value


_ICON = Markup('<svg class="icon" aria-hidden="true"><use href="#i-{}"/></svg>')
"""An icon of the page's own set; texts beside it say the same."""
_RISKY = Markup('<mark class="risky">{}</mark>')
_BEFORE, _BEHIND = Markup('<mark class="risky">'), Markup("</mark>")


def _mark_invisible(
    value: str, spots: Sequence[tuple[int, int]] = (), first: int = 0, last: int | None = None
) -> Markup:
    """Render a text in which marks of invisible characters are highlighted, so that a person can step through them.

    ``spots`` are highlighted as well: ranges in order, each with its first character and the one after its last; of two
    that overlap, the first counts. Only the characters from ``first`` up to ``last`` are rendered.
    """
    last = len(value) if last is None else min(last, len(value))
    shown, at = Markup(""), first
    inside = ((max(start, first), min(end, last)) for start, end in spots if end <= len(value))
    for start, end in inside:
        if at <= start < end:
            shown += _set_apart(value[at:start]) + _RISKY.format(make_inert(value[start:end]))
            at = end
    return shown + _set_apart(value[at:last])


def _set_apart(value: str) -> Markup:
    # One join for all marks: there may be thousands, and formatting each by itself takes ten times as long.
    pieces = enumerate(_MARKS.split(make_inert(value)))
    return Markup("").join(each for at, piece in pieces for each in ((_BEFORE, piece, _BEHIND) if at % 2 else (piece,)))
