"""The names of many servers' tools and prompts behind one gateway.

A name consists of a word for the server and the server's own name, so that no server can take the name of another
server's tool. A word neither begins nor ends with an underscore, nor contains two in a row; so the first two
underscores in a row separate the two parts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Literal, get_args

from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.server.mounts import prefixed

__all__ = ["MAX_NAME", "MAX_WORD", "Given", "Style", "exposed", "is_plain", "look", "marked", "server_names"]

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


class Given(Struct, frozen=True, kw_only=True):
    """How names are made: the style, and the names that were given by hand."""

    style: Style = "prefix"
    prefixes: Mapping[str, str] = {}
    """The word for a server, by its configured name, if it is not that name."""
    renamed: Mapping[str, Mapping[str, str]] = {}
    """Names of tools, by server and by the server's own name. No other tool gets such a name."""

    def checked(self) -> Given:
        """Return these settings, if every name can be used and none is given twice.

        Raises:
            ConfigError: there is no such style; a name cannot be used, or two servers have it; the message names it and
                the servers.
        """
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
                if owners.setdefault(look(name), whose) != whose:
                    raise ConfigError(f"{owners[look(name)]} and {whose} are both called {name!r}")
        words: dict[str, str] = {}
        for server, word in self.prefixes.items():
            if _UNUSABLE.sub("_", word).strip("_") != word or not 0 < len(word) <= MAX_WORD:
                raise ConfigError(
                    f"the prefix {word!r} of {server} cannot be used: write 1 to {MAX_WORD} letters, digits, "
                    "hyphens and single underscores"
                )
            if words.setdefault(look(word), server) != server:
                raise ConfigError(f"{words[look(word)]} and {server} both have the prefix {word!r}")
        return self


@lru_cache(maxsize=32_768)
def look(name: str) -> str:
    """Return a form of a name that is equal for all names that a person or a model could confuse.

    ``Read-File``, ``read_file`` and ``read.file`` look alike, and so do full-width letters.
    """
    return re.sub(r"[-_. ]+", "", unicodedata.normalize("NFKC", name).casefold())


def server_names(names: Sequence[str] | Mapping[str, object], prefixes: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the word for each server in the names of its tools: letters, digits, hyphens, single underscores.

    Words that would become equal, or look alike, are distinguished by a digest, whatever their order.

    Args:
        names: as configured.
        prefixes: words that were chosen for some of them.
    """
    plain = {name: prefixes.get(name) or _UNUSABLE.sub("_", name).strip("_") or "server" for name in names}
    taken = Counter(look(word) for word in plain.values())
    return {
        name: word
        if name in prefixes or (taken[look(word)] == 1 and len(word) <= MAX_WORD)
        else _cut(word, MAX_WORD, name)
        for name, word in plain.items()
    }


def exposed(word: str, name: str) -> str:
    """Return the name of a tool or prompt behind the gateway, with its server's word.

    Characters that are not allowed are replaced, and a name that is too long is cut. The name then ends with a digest
    of the original one.

    Args:
        word: the server's word, of ``server_names``.
        name: the server's own name for it.
    """
    whole, plain = prefixed(word, name), prefixed(word, _FOREIGN.sub("_", name))
    return plain if plain == whole and len(whole) <= MAX_NAME else _cut(plain, MAX_NAME, whole)


def marked(word: str, name: str) -> str:
    """Return ``exposed`` with a digest in any case, for a name that looks like one of another server."""
    return _cut(prefixed(word, _FOREIGN.sub("_", name)), MAX_NAME, prefixed(word, name))


def is_plain(name: str, others: Container[str]) -> bool:
    """Tell whether a name can be shown without a prefix: it is short enough, and begins with no other server's word.

    Args:
        name: the server's own name for it.
        others: the words of the other servers, as ``look`` returns them.
    """
    before, separator, _ = name.partition("__")
    return _NAME.fullmatch(name) is not None and not (separator and look(before) in others)


def _cut(word: str, length: int, of: str) -> str:
    digest = hashlib.sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{word[: length - _DIGITS - 1].rstrip('_')}-{digest}"
