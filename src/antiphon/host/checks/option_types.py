"""Options that a program sets, checked as strictly as those that a file sets.

Owns the check of their types. A type checker sees the same mistakes, but not everybody runs one, and here they are not
harmless: a misspelt default would allow what it should deny, and a rule with a misspelt kind would never match.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import msgspec

from antiphon.errors import ConfigError

__all__ = ["check_options", "words_in"]


def check_options(options: msgspec.Struct) -> None:
    """Check that each member has a value of its type; a class calls this from ``__post_init__``.

    Raises:
        ConfigError: one has not; the message names it, and the words that it may be.
    """
    kind = type(options)
    for name, type_ in _members(kind):
        value = getattr(options, name)
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            words = ", ".join(words_in(type_))
            problem = f"is one of {words}, not {value!r}" if words else f"cannot be used: {error}"
            raise ConfigError(f"{kind.__name__}({name}=) {problem}") from None


def words_in(kind: object) -> Iterator[str]:
    """Yield the words and numbers of a ``Literal``, anywhere in a type."""
    for inner in get_args(kind):
        yield from (str(inner),) if isinstance(inner, str | int) else words_in(inner)


@cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind))
