"""What a caller's token has to allow before a feature is used, and whether it does.

Every request for a feature comes by here, over every transport. What a token allows is found out by ``auth``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, InsufficientScope
from antiphon.protocol.events import Request

__all__ = ["checked_scopes", "demand", "lacks"]

# RFC 6749, section 3.3: visible ASCII, without the quote and the backslash, which would end the header's text.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


def checked_scopes(scopes: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the scopes an author has named.

    Raises:
        ConfigError: one cannot be a scope, or they are one text.
    """
    if isinstance(scopes, str):
        # Its letters would be the scopes.
        raise ConfigError(f"{place}: scopes= is a list, as in scopes=[{scopes!r}]")
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise ConfigError(
                f"{place}: {scope!r} cannot be a scope; use letters, digits and signs, without spaces, quotes and "
                "backslashes"
            )
    return tuple(dict.fromkeys(scopes))


def demand(scopes: Iterable[str], request: Request, peer: Connection[Any]) -> None:
    """Let a request go on whose token allows what requires these scopes, and that of a local program.

    Raises:
        InsufficientScope: it does not, or nobody has checked a token; the error names all that are required.
    """
    required = tuple(scopes)
    if lacks(required, request, peer):
        raise InsufficientScope(scopes=required)


def lacks(scopes: Iterable[str], request: Request, peer: Connection[Any]) -> bool:
    """Tell whether a request has no token that allows what requires these scopes."""
    if request.caller is not None:
        return not request.caller.has(scopes)
    # 2026-07-28 basic/authorization: "Implementations using an STDIO transport SHOULD NOT follow this specification":
    # whoever has started us may do all. On a network nobody may what nobody has checked.
    return not peer.is_local and any(True for _ in scopes)
