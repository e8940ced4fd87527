"""The names of many servers' tools and prompts behind one gateway.

A name consists of a word for the server and the server's own name, so that no server can take the name of another
server's tool. A word neither begins nor ends with an underscore, nor contains two in a row; so the first two
underscores in a row separate the two parts.

Owns also the globs that tell which tools pass, and the rule for URIs and templates of several servers that overlap. A
hostile server can always choose the more specific of two overlapping templates, so neither is served until the
configuration names the owner. The decision whether two may overlap takes bounded time, and errs towards refusing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import chain, combinations
from typing import Literal, get_args

from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.server.mounts import prefix_name

Style = Literal["prefix", "none"]
"""``prefix``: ``server__tool``; ``none``: the server's own name, with a prefix only if another server has an equal name
or one that looks like it."""

MAX_NAME = 64 - len("mcp__antiphon__")
"""Most characters of a name: model APIs allow 64, and hosts add a prefix for the gateway."""
MAX_WORD = 24
"""Most characters of a server's word, so that a name that is cut still has room for the separator and enough of the
tool's own name."""

_UNUSABLE = re.compile(r"[^A-Za-z0-9-]+|_{2,}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters that are not allowed in a name (2025-11-25 server/tools, Tool Names). Letters of other scripts can look
like allowed ones."""
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
_DIGITS = 8
"""Hexadecimal digits of the digest that replaces the rest of a name that is cut."""

MAX_STEPS = 20_000
"""Most steps in which the URIs of all servers are compared, 30 ms; each two servers have an equal share."""

_LEAST_STEPS = 2_000
_LONGEST = 2_000
"""Steps after which two claims are taken to overlap."""
_LAST = "\U0010ffff"
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_OF_ONE_SEGMENT = re.compile(r"[\w.,:*%]*")
_ANY, _IN_SEGMENT = "", "/?#"
"""What an expression may become: any text, or any without these characters. All other pieces have one character."""

EVERY = "*"
"""Stands for every server in place of a server's name."""
MAX_GLOBS = 1_000
"""Most globs of one list."""


class NameSettings(Struct, frozen=True, kw_only=True):
    """How names are made: the style, and the names that were given by hand."""

    style: Style = "prefix"
    prefixes: Mapping[str, str] = {}
    """The word for a server, by its configured name, if it is not that name."""
    renamed: Mapping[str, Mapping[str, str]] = {}
    """Names of tools, by server and by the server's own name. No other tool gets such a name."""

    def checked(self) -> NameSettings:
        """Return these settings, if every name can be used and none is given twice; else raise ``ConfigError``."""
        if self.style not in get_args(Style):
            raise ConfigError(f"Gateway(names=) is one of {', '.join(get_args(Style))}, not {self.style!r}")
        owners: dict[str, str] = {}
        for server, names in self.renamed.items():
            for own, name in names.items():
                whose = f"{own} of {server}"
                if not _NAME.fullmatch(name):
                    raise ConfigError(
                        f"{whose}: {name!r} cannot be used: write 1 to {MAX_NAME} letters, digits, _, . and -"
                    )
                if owners.setdefault(fold_name(name), whose) != whose:
                    raise ConfigError(f"{owners[fold_name(name)]} and {whose} are both called {name!r}")
        words: dict[str, str] = {}
        for server, word in self.prefixes.items():
            if _UNUSABLE.sub("_", word).strip("_") != word or not 0 < len(word) <= MAX_WORD:
                raise ConfigError(
                    f"the prefix {word!r} of {server} cannot be used: write 1 to {MAX_WORD} letters, digits, "
                    "hyphens and single underscores"
                )
            if words.setdefault(fold_name(word), server) != server:
                raise ConfigError(f"{words[fold_name(word)]} and {server} both have the prefix {word!r}")
        return self


@lru_cache(maxsize=32_768)
def fold_name(name: str) -> str:
    """Return a form of a name that is equal for all names that a person or a model could confuse.

    ``Read-File``, ``read_file`` and ``read.file`` look alike, and so do full-width letters.
    """
    return re.sub(r"[-_. ]+", "", unicodedata.normalize("NFKC", name).casefold())


def server_names(names: Sequence[str] | Mapping[str, object], prefixes: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the word for each server in the names of its tools: letters, digits, hyphens, single underscores.

    Words that would become equal, or look alike, are distinguished by a digest, whatever their order. ``prefixes``:
    words that were chosen for some of them.
    """
    plain = {name: prefixes.get(name) or _UNUSABLE.sub("_", name).strip("_") or "server" for name in names}
    taken = Counter(fold_name(word) for word in plain.values())
    return {
        name: word
        if name in prefixes or (taken[fold_name(word)] == 1 and len(word) <= MAX_WORD)
        else _cut_name(word, MAX_WORD, name)
        for name, word in plain.items()
    }


def expose_name(word: str, name: str) -> str:
    """Return the name of a tool or prompt behind the gateway, with its server's word, of ``server_names``.

    Characters that are not allowed are replaced, and a name that is too long is cut. The name then ends with a digest
    of the original one.
    """
    whole, plain = prefix_name(word, name), prefix_name(word, _FOREIGN.sub("_", name))
    return plain if plain == whole and len(whole) <= MAX_NAME else _cut_name(plain, MAX_NAME, whole)


def mark_name(word: str, name: str) -> str:
    """Return ``expose_name`` with a digest in any case, for a name that looks like one of another server."""
    return _cut_name(prefix_name(word, _FOREIGN.sub("_", name)), MAX_NAME, prefix_name(word, name))


def is_plain(name: str, others: Container[str]) -> bool:
    """Return whether a name is short enough without a prefix, and begins with none of the folded words ``others``."""
    before, separator, _ = name.partition("__")
    return _NAME.fullmatch(name) is not None and not (separator and fold_name(before) in others)


def _cut_name(word: str, length: int, of: str) -> str:
    digest = hashlib.sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{word[: length - _DIGITS - 1].rstrip('_')}-{digest}"


class UriClaim(Struct, frozen=True):
    """A URI or a template that a server lists."""

    server: str
    text: str
    is_template: bool

    @property
    def lead(self) -> str:
        """The text that every URI of it begins with."""
        return self.text.partition("{")[0] if self.is_template else self.text


class Overlap(Struct, frozen=True):
    """Two claims of different servers that may be about the same URI, so that the first is not served."""

    first: UriClaim
    second: UriClaim

    def __str__(self) -> str:
        """Describe the overlap in a sentence, with the remedy."""
        one, other = self.first, self.second
        return (
            f"{one.text} of {one.server} is not served, since it may overlap with {other.text} of {other.server}; name "
            f"the owner: [gateway.servers.NAME] owns = [...]"
        )


class UriOwners:
    """The owners of URIs that the configuration names.

    ``lists``: globs over URIs and templates, by the name of their server.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]] = {}) -> None:
        self._owned = {server: Filters({server: globs}) for server, globs in lists.items()}

    def has(self, claim: UriClaim) -> bool:
        """Return whether a server is named as the owner of what it claims."""
        owned = self._owned.get(claim.server)
        return owned is not None and owned.passes(claim.server, claim.text)


def find_refused_claims(claims: Sequence[UriClaim], owners: UriOwners) -> dict[UriClaim, Overlap]:
    """Return the claims that are not served, because one of another server may overlap."""
    by_server: dict[str, list[UriClaim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.lead):
        by_server.setdefault(claim.server, []).append(claim)
    pairs = list(combinations(by_server.values(), 2))
    refused: dict[UriClaim, Overlap] = {}
    for one, other in pairs:
        for mine, theirs in _find_overlaps(one, other, owners, max(_LEAST_STEPS, MAX_STEPS // len(pairs))):
            refused.setdefault(mine, Overlap(mine, theirs))
    return refused


def _find_overlaps(
    one: Sequence[UriClaim], other: Sequence[UriClaim], owners: UriOwners, steps: int
) -> Iterator[tuple[UriClaim, UriClaim]]:
    """Yield each claim of two servers that is not served, and one of the other server that it may overlap with."""
    for mine, theirs in chain(_find_near_pairs(one, other), _find_near_pairs(other, one)):
        if owners.has(mine) == owners.has(theirs):
            taken, overlap = _compare_pieces(_split_claim(mine), _split_claim(theirs))
            steps -= taken + (len(mine.text) + len(theirs.text)) // 8
            if overlap:
                yield mine, theirs
                yield theirs, mine
        steps -= 1
        if steps < 0:
            yield from ((claim, other[0]) for claim in one if not owners.has(claim))
            yield from ((claim, one[0]) for claim in other if not owners.has(claim))
            return


def _find_near_pairs(one: Sequence[UriClaim], other: Sequence[UriClaim]) -> Iterator[tuple[UriClaim, UriClaim]]:
    """Yield the pairs in which the lead of the second begins with that of the first. Both are sorted by their leads."""
    leads = [claim.lead for claim in other]
    for mine in one:
        end = bisect_left(leads, mine.lead + _LAST) if mine.is_template else bisect_right(leads, mine.lead)
        for at in range(bisect_left(leads, mine.lead), end):
            yield mine, other[at]


def _split_claim(claim: UriClaim) -> list[str]:
    """Split a claim into characters, and expressions as ``_ANY`` or ``_IN_SEGMENT``."""
    if not claim.is_template:
        return list(claim.text)
    pieces: list[str] = []
    for at, part in enumerate(_EXPRESSION.split(claim.text)):
        if at % 2:
            pieces.append(_IN_SEGMENT if _OF_ONE_SEGMENT.fullmatch(part) else _ANY)
        else:
            # A brace without its partner: nobody knows what the rest means.
            pieces += [_ANY] if "{" in part or "}" in part else part
    return pieces


def _compare_pieces(one: Sequence[str], other: Sequence[str]) -> tuple[int, bool]:
    """Return the number of steps taken, and whether some text may fit both: both are walked at the same time."""
    todo, seen = [(0, 0)], {(0, 0)}
    while todo and len(seen) < _LONGEST:
        i, j = todo.pop()
        if i == len(one) and j == len(other):
            return len(seen), True
        for state in _list_next_states(one[i : i + 1], other[j : j + 1], i, j):
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return len(seen), bool(todo)


def _list_next_states(one: Sequence[str], other: Sequence[str], i: int, j: int) -> Iterator[tuple[int, int]]:
    """Yield the states after this one. ``one``, ``other``: the next piece of each, if there is one."""
    for a in one:
        if len(a) != 1:
            yield i + 1, j
    for b in other:
        if len(b) != 1:
            yield i, j + 1
    for a, b in zip(one, other, strict=False):
        if len(a) == len(b) == 1:
            if a == b:
                yield i + 1, j + 1
        elif len(a) == 1 and a not in b:
            yield i + 1, j
        elif len(b) == 1 and b not in a:
            yield i, j + 1


class Filters:
    """The lists in force: those for every server, and those of each server. A tool must pass all of them.

    Args:
        lists: a list of globs by the configured name of a server, or ``"*"``; ``with_more`` adds further lists.

    Raises:
        ConfigError: a list or a glob is empty, or a list is too long.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]] = {}) -> None:
        self._lists: list[tuple[str, re.Pattern[str] | None, re.Pattern[str] | None]] = []
        self._add(lists)

    def with_more(self, lists: Mapping[str, Sequence[str]]) -> Filters:
        """Return filters that a tool must pass in addition: those of a profile, or of a person at the page.

        Args:
            lists: as for the class.
        """
        more = Filters()
        more._lists = list(self._lists)
        more._add(lists)
        return more

    def passes(self, server: str, tool: str) -> bool:
        """Return whether a tool is listed and can be called.

        Args:
            server: its server, by its configured name.
            tool: the server's own name of the tool.
        """
        for name, allowed, denied in self._lists:
            if name not in (EVERY, server):
                continue
            if denied is not None and denied.match(tool):
                return False
            if allowed is not None and not allowed.match(tool):
                return False
        return True

    def _add(self, lists: Mapping[str, Sequence[str]]) -> None:
        for server, globs in lists.items():
            if len(globs) > MAX_GLOBS:
                raise ConfigError(f"the tools of {server}: at most {MAX_GLOBS} globs")
            if not globs:
                raise ConfigError(f'the tools of {server}: the list is empty; write "*" for all, or "!*" for none')
            if any(not glob.removeprefix("!") for glob in globs):
                raise ConfigError(f"the tools of {server}: a glob is empty")
            denied = [glob[1:] for glob in globs if glob.startswith("!")]
            allowed = [glob for glob in globs if not glob.startswith("!")]
            self._lists.append((server, _any_of(allowed), _any_of(denied)))


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    """Return one pattern for several globs; ``None`` for none."""
    return re.compile("|".join(f"(?:{translate(glob)})" for glob in globs)) if globs else None


ALL = Filters()
"""Lets every tool pass."""
