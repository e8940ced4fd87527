"""Grants, blocked servers and allowed definitions of tools in a database, within transactions of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from sqlalchemy import ColumnElement, Connection, Text, and_, bindparam, delete, or_, select, update

from antiphon.host.store.base import BlockRow, DefinitionRow, GrantRow, Standing
from antiphon.host.store.tables import blocks, definitions, grants
from antiphon.sql.prepared import Prepared

MAX_LISTED = 10_000
"""Most grants, blocks, accounts and reservations that one read returns. Without a grant a person is asked; one block is
enough to refuse."""


def _match_valid() -> ColumnElement[bool]:
    unused = or_(grants.c.max_uses.is_(None), grants.c.used < grants.c.max_uses)
    return and_(unused, or_(grants.c.until.is_(None), grants.c.until > bindparam("now")))


_ALL = select(grants).where(_match_valid()).order_by(grants.c.given, grants.c.id).limit(bindparam("most"))
_OF = _ALL.where(grants.c.identity == bindparam("server"))
_DEFINED = Prepared(
    select(*(definitions.c[name] for name in DefinitionRow.__struct_fields__)).where(
        definitions.c.identity == bindparam("server"), definitions.c.tool == bindparam("name")
    )
)
_BLOCKS = select(*(blocks.c[name] for name in BlockRow.__struct_fields__)).order_by(blocks.c.since, blocks.c.identity)
_USE = update(grants).where(grants.c.id == bindparam("grant"), _match_valid()).values(used=grants.c.used + 1)


def add_grant(connection: Connection, row: GrantRow) -> None:
    """Store a grant; adding the same one again restarts its count."""
    revoke_grant(connection, row.id)
    connection.execute(grants.insert(), msgspec.structs.asdict(row))


def in_force(connection: Connection, now: float, identity: str | None = None) -> list[GrantRow]:
    """Return the grants in force, of one server or of all."""
    bounds = {"now": now, "most": MAX_LISTED, **({} if identity is None else {"server": identity})}
    return [GrantRow(**dict(row)) for row in connection.execute(_ALL if identity is None else _OF, bounds).mappings()]


def use_grant(connection: Connection, id: str, now: float) -> bool:
    """Count one use. Returns whether the grant is in force."""
    return connection.execute(_USE, {"grant": id, "now": now}).rowcount == 1


def revoke_grant(connection: Connection, grant: str) -> bool:
    """Delete a grant. Returns whether there was one."""
    return connection.execute(delete(grants).where(grants.c.id == grant)).rowcount == 1


def block_server(connection: Connection, row: BlockRow) -> None:
    """Block a server; a block of this server alone can become one that covers similar servers."""
    # A similar server may be blocked already; this row is then still needed when that block is lifted.
    same = blocks.c.identity == row.identity
    if not connection.execute(select(blocks.c.identity).where(same)).first():
        connection.execute(blocks.insert(), msgspec.structs.asdict(row))
    elif row.coarse is not None:
        connection.execute(update(blocks).where(same, blocks.c.coarse.is_(None)).values(coarse=row.coarse))


def unblock_server(connection: Connection, identity: str) -> bool:
    """Unblock a server. Returns whether it was blocked."""
    return connection.execute(delete(blocks).where(blocks.c.identity == identity)).rowcount == 1


def list_blocks(connection: Connection, *identities: str) -> list[BlockRow]:
    """Return all blocks, or those that cover a server with one of these identities."""
    given = {f"identity{at}": one for at, one in enumerate(identities)}
    rows = _prepare_covering(len(identities)).rows(connection, {"most": MAX_LISTED, **given})
    return [BlockRow(**dict(zip(BlockRow.__struct_fields__, row, strict=True))) for row in rows]


@cache
def _prepare_covering(count: int) -> Prepared:
    """Make the statement for so many identities, of which a server has a few; it runs before every call."""
    names = [bindparam(f"identity{at}", type_=Text()) for at in range(count)]
    chosen = _BLOCKS.limit(bindparam("most"))
    return Prepared(chosen.where(or_(blocks.c.identity.in_(names), blocks.c.coarse.in_(names))) if names else chosen)


def define_tool(connection: Connection, row: DefinitionRow) -> None:
    """Store the definition of a tool in place of an earlier one. Whether it is off stays as it is."""
    said = msgspec.structs.asdict(row)
    del said["off"]
    _keep_definition(connection, row.identity, row.tool, said, said)


def switch_tool(connection: Connection, identity: str, tool: str, *, off: float | None, by: str | None = None) -> None:
    """Switch a tool off, or on again; what was allowed of it stays as it is."""
    row = DefinitionRow(identity=identity, tool=tool, digest="", body="", allowed=0.0, by=by, off=off)
    _keep_definition(connection, identity, tool, {"off": off}, msgspec.structs.asdict(row))


def _keep_definition(
    connection: Connection, identity: str, tool: str, changes: Mapping[str, object], row: Mapping[str, object]
) -> None:
    same = and_(definitions.c.identity == identity, definitions.c.tool == tool)
    if connection.execute(update(definitions).where(same).values(**changes)).rowcount == 0:
        connection.execute(definitions.insert(), row)


def find_standing(connection: Connection, identities: Sequence[str], tool: str) -> Standing:
    """Return whether a server is blocked, and the definition of a tool of it as it was last allowed."""
    blocking = list_blocks(connection, *identities)
    rows = _DEFINED.rows(connection, {"server": identities[0], "name": tool})
    found = [DefinitionRow(**dict(zip(DefinitionRow.__struct_fields__, row, strict=True))) for row in rows]
    return Standing(blocked=bool(blocking), definition=found[0] if found else None)


def list_definitions(connection: Connection) -> list[DefinitionRow]:
    """Return the definitions that were allowed, of all servers."""
    chosen = select(definitions).order_by(definitions.c.identity, definitions.c.tool).limit(MAX_LISTED)
    return [DefinitionRow(**dict(row)) for row in connection.execute(chosen).mappings()]
