"""Options that features of several kinds share: annotations given as a mapping, and scopes of the caller's token.

Unknown annotations are refused at the decorator. Every request for a feature is checked for its scopes, over every
transport; ``auth`` determines the scopes of a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, InsufficientScope
from antiphon.json_schema.mismatch import suggest
from antiphon.protocol.events import Request
from antiphon.wire.common import Annotations
from antiphon.wire.tools import ToolAnnotations

__all__ = ["checked_scopes", "demand", "lacks", "read_annotations"]

# RFC 6749, section 3.3: visible ASCII without quote and backslash, which would end the text in the header.
_SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]{1,256}"


def checked_scopes(scopes: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the scopes of a feature, validated.

    Raises:
        ConfigError: one is not a valid scope, or a single text was given.
    """
    if isinstance(scopes, str):
        # A text would be taken for a list of its letters.
        raise ConfigError(f"{place}: scopes= is a list, as in scopes=[{scopes!r}]")
    for scope in scopes:
        if not re.fullmatch(_SCOPE, scope):
            raise ConfigError(
                f"{place}: {scope!r} cannot be a scope; use letters, digits and signs, without spaces, quotes and "
                "backslashes"
            )
    return tuple(dict.fromkeys(scopes))


def demand(scopes: Iterable[str], request: Request, peer: Connection[Any]) -> None:
    """Check that the token of a request has these scopes; a local program needs none.

    Raises:
        InsufficientScope: scopes are missing, or no token was verified; the error names all that are required.
    """
    required = tuple(scopes)
    if lacks(required, request, peer):
        raise InsufficientScope(scopes=required)


def lacks(scopes: Iterable[str], request: Request, peer: Connection[Any]) -> bool:
    """Tell whether a request lacks a token with these scopes."""
    if request.caller is not None:
        return not request.caller.has(scopes)
    # 2026-07-28 basic/authorization: "Implementations using an STDIO transport SHOULD NOT follow this
    # specification": the program that started us may do everything. Over a network an unverified request may do
    # nothing.
    return not peer.is_local and any(True for _ in scopes)


A = TypeVar("A", Annotations, ToolAnnotations)


def read_annotations(given: Any, kind: type[A], place: str) -> A:
    """Return annotations as a value of their class; a mapping has the names of its members, or those on the wire.

    Raises ``ConfigError``, which begins with ``place``, for an unknown name or a wrong type.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: annotations= takes {kind.__name__}(...), not {given!r}")
    names = {name: field.encode_name for field in structs.fields(kind) for name in (field.name, field.encode_name)}
    members = cast("Mapping[str, Any]", given)
    for name in members:
        if name not in names:
            raise ConfigError(f'{place}: annotations= has no "{name}"{suggest(name, names)}')
    try:
        return msgspec.convert({names[name]: value for name, value in members.items()}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: annotations= has a wrong value: {error}") from None
