"""Unfinished answers and those who watch them in a database, within transactions of the caller."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, select, update

from antiphon.host.store.base import PartialRow
from antiphon.host.store.reviews import changed
from antiphon.host.store.tables import hosts, partials

__all__ = ["drop", "keep", "kept", "sweep", "watch", "watched"]

_KEPT = select(partials).order_by(partials.c.began, partials.c.id)


def watch(connection: Connection, host: str, until: float) -> None:
    """Record until when somebody watches what a process shows."""
    connection.execute(update(hosts).where(hosts.c.id == host).values(watches=until))


def watched(connection: Connection, now: float) -> bool:
    """Tell whether anybody watches."""
    return connection.execute(select(hosts.c.id).where(hosts.c.watches > now).limit(1)).first() is not None


def keep(connection: Connection, row: PartialRow) -> None:
    """Store what has arrived of an answer. The first part counts as a change; after that, viewers poll."""
    again = update(partials).where(partials.c.id == row.id).values(msgspec.structs.asdict(row))
    if connection.execute(again).rowcount != 1:
        connection.execute(partials.insert(), msgspec.structs.asdict(row))
        changed(connection, row.id)


def drop(connection: Connection, id: str) -> None:
    """Delete what has arrived of an answer."""
    connection.execute(delete(partials).where(partials.c.id == id))


def kept(connection: Connection) -> list[PartialRow]:
    """Return what has arrived of answers, in the order they began."""
    return [PartialRow(**dict(row)) for row in connection.execute(_KEPT).mappings()]


def sweep(connection: Connection) -> None:
    """Delete what arrived for processes that are gone."""
    connection.execute(delete(partials).where(partials.c.host.not_in(select(hosts.c.id))))
