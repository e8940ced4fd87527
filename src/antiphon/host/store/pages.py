"""Review pages and the browsers with access to them in a database, within transactions of the caller."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, select

from antiphon.host.store.base import BrowserRow, PageRow
from antiphon.host.store.tables import browsers, pages

__all__ = ["browsers_of", "keep", "keep_browser", "kept"]

_PAGES = select(pages).order_by(pages.c.used.desc(), pages.c.name)


def kept(connection: Connection) -> list[PageRow]:
    """Return the pages, the one served last first."""
    return [PageRow(**dict(row)) for row in connection.execute(_PAGES).mappings()]


def keep(connection: Connection, row: PageRow, most: int) -> None:
    """Store a page, and delete the oldest beyond ``most`` with their browsers."""
    _forget(connection, row.name, browsers_too=False)
    connection.execute(pages.insert(), msgspec.structs.asdict(row))
    for old in kept(connection)[most:]:
        _forget(connection, old.name, browsers_too=True)


def browsers_of(connection: Connection, page: str) -> list[BrowserRow]:
    """Return the browsers of a page, in the order of arrival."""
    chosen = select(browsers).where(browsers.c.page == page).order_by(browsers.c.number)
    return [BrowserRow(**dict(row)) for row in connection.execute(chosen).mappings()]


def keep_browser(connection: Connection, row: BrowserRow, most: int) -> None:
    """Store a browser, and delete the oldest of its page beyond ``most``."""
    connection.execute(browsers.insert(), msgspec.structs.asdict(row))
    for old in browsers_of(connection, row.page)[:-most]:
        connection.execute(delete(browsers).where(browsers.c.digest == old.digest))


def _forget(connection: Connection, name: str, *, browsers_too: bool) -> None:
    connection.execute(delete(pages).where(pages.c.name == name))
    if browsers_too:
        connection.execute(delete(browsers).where(browsers.c.page == name))
