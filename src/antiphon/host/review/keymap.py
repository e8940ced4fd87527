"""The keys of a review, defined once for the page, and the terminal's queue and questions.

Owns which key does what, in which context, and which keys decide something. The texts are in the shared
catalogues, as ``key.ACTION`` and ``describe_key.ACTION``. Each surface implements the actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.host.review.shown import Shown
from antiphon.host.review.summary import Texts

Subject = Literal["request", "response", "form", "url", "tool"]
"""The subject of a decision: a request for a completion, its answer, a form, an address to visit, a tool call."""
Place = Literal["review", "list", "panel", "anywhere"]
"""Where a key works: with a request on show, in the queue, in a form that is being filled in, or everywhere."""
Surface = Literal["page", "queue", "inline"]
"""Where the key is pressed: on the page, in the list that a terminal shows, at a question in a terminal."""


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action, and its keys: an entry of ``keymap.toml``."""

    action: str
    """Its name, as in ``key.NAME`` of the catalogues."""
    keys: tuple[str, ...]
    """The key that is shown, then its alternatives, named as ``KeyboardEvent.key`` (UI Events, 5.2), with ``Control+``
    before a chord."""
    place: Place = "anywhere"
    subjects: frozenset[Subject] = frozenset()
    """The subjects it can be used for; empty if it does not depend on the subject."""
    decides: bool = False
    """Whether it decides about the request on show, at once or after a question: it then applies to that request
    only."""
    permits: frozenset[Subject] = frozenset()
    """The subjects that it lets be sent or run: it is disabled until such a one could be read. An edited request is
    shown again first, an edited call is not."""
    surfaces: frozenset[Surface] = frozenset({"page"})


_FILE = Path(__file__).with_name("keymap.toml")
KEYMAP = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, tuple[Key, ...]])["key"]
"""In the order of display."""


def keys_on(surface: Surface) -> list[Key]:
    """List the keys of a surface, in the order of display."""
    return [key for key in KEYMAP if surface in key.surfaces]


def keys_as_set(surface: Surface, chosen: Mapping[str, str], *, letters: bool = True) -> list[Key]:
    """List the keys of a surface as a person has set them (WCAG 2.2, 2.1.4)."""
    keys = [msgspec.structs.replace(key, keys=_set_keys(key, chosen, letters)) for key in keys_on(surface)]
    return [key for key in keys if key.keys]


def _set_keys(key: Key, chosen: Mapping[str, str], letters: bool) -> tuple[str, ...]:
    names = (chosen[key.action], *key.keys[1:]) if key.action in chosen else key.keys
    return tuple(name for name in names if letters or len(name) > 1)


def key_for(action: str, surface: Surface) -> Key:
    """Return the key of an action. Raises ``KeyError``: that surface has no key for it."""
    return {key.action: key for key in keys_on(surface)}[action]


def find_subject(shown: Shown) -> Subject:
    """Return the subject of the decision."""
    match shown.kind:
        case "elicitation":
            return "form" if shown.url is None else "url"
        case "request" | "response" | "tool":
            return "response" if shown.tool_result else shown.kind


def list_offered_keys(shown: Shown, surface: Surface) -> list[Key]:
    """List the keys that can be used for what is shown; none once it is over."""
    if shown.state != "pending":
        return []
    about = find_subject(shown)
    return [key for key in keys_on(surface) if about in key.subjects and key.action not in _list_lacking(shown)]


def print_key_name(name: str) -> str:
    """Return the name of a key as printed on keyboards."""
    return name.replace("Control+", "Ctrl+").replace("Escape", "Esc").replace("ArrowDown", "↓").replace("ArrowUp", "↑")


def label_key(key: Key, words: Texts, about: Subject | None = None) -> str:
    """Return a short label for a key, for a button or the foot of a screen."""
    return _look_up(f"key.{key.action}", words, about)


def describe_key(key: Key, words: Texts, about: Subject | None = None) -> str:
    """Return a sentence about a key, for the list of all keys."""
    return _look_up(f"meaning.{key.action}", words, about)


def _look_up(name: str, words: Texts, about: Subject | None) -> str:
    special = f"{name}.{about}"
    return words(special if about is not None and words.has(special) else name)


def _list_lacking(shown: Shown) -> Iterator[str]:
    """Yield the actions that this question does not allow, although its kind has them."""
    if not shown.who.call:
        yield "stop"
    if shown.kind == "elicitation":
        return
    allowed = shown.choices
    if "approve" not in allowed:
        yield from ("approve", "alike")
    if "edit" not in allowed and not (shown.answer is not None and "answer" in allowed):
        yield "edit"
    if shown.item is None or not shown.item.models or ("regenerate" if shown.answer else "approve") not in allowed:
        yield "model"
    yield from (name for name in ("answer", "grant", "regenerate") if name not in allowed)
