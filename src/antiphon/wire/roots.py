"""Roots: the folders in which a client lets a server work (deprecated at 2026-07-28)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from antiphon.wire.common import Meta, Wire


class Root(Wire, frozen=True, kw_only=True):
    """One folder or file, by its ``file://`` URI."""

    uri: str
    name: str | None = None
    meta: Meta | None = field(name="_meta", default=None)


class ListRootsResult(Wire, frozen=True, kw_only=True):
    """Result of ``roots/list``."""

    roots: Sequence[Root]
    meta: Meta | None = field(name="_meta", default=None)
