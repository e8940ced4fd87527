"""How each revision states its differences from the next newer one, and changes that several of them share.

The differences themselves are in the modules of the revisions; ``lowering`` makes functions from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import NotInRevision
from antiphon.wire.common import Wire
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult

Change = Callable[[Any, str], Any]
"""Converts a value to what the named revision can carry, or raises ``NotInRevision``."""


class Difference(Struct, frozen=True, kw_only=True):
    """What one revision cannot carry of what the next newer one can."""

    lacks: Mapping[type[Wire], tuple[str, ...]] = {}
    """Attributes that only describe: they are left out."""
    refuses: Mapping[type[Wire], str] = {}
    """Types that do not exist, with their name for error messages: leaving them out would change the meaning."""
    changes: Mapping[type[Wire], Change] = {}
    """All other conversions."""


def not_in(thing: str, revision: str) -> NotInRevision:
    """Make the error for what a revision cannot carry."""
    return NotInRevision(f"{thing} cannot be sent: protocol revision {revision} has no such thing")


def without_structure(result: CallToolResult) -> CallToolResult:
    """Leave out structured content; if the result has nothing else, convert it to text so that it is not lost."""
    content = result.content or [TextContent(text=encode_value(result.structured_content).decode())]
    return replace(result, structured_content=None, content=content)
