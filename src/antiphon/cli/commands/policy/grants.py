"""Grants and blocked servers: listing and withdrawing them.

Owns the display. The host's ``grants`` defines what they cover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from antiphon.cli.arguments import find_by_prefix
from antiphon.cli.error_messages import Failed
from antiphon.cli.output.formats import print_json, print_list, print_text
from antiphon.cli.quantities import format_time
from antiphon.host.budget import format_dollars
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.given_grants import Given, Grants
from antiphon.host.store import Store
from antiphon.host.store.base import BlockRow


async def list_grants(store: Store, names: Mapping[str, str], *, as_json: bool) -> None:
    """List the grants in force. ``names``: those of servers, by identity."""
    given = await Grants(store).all()
    spent = {balance.key: balance.spent.money for balance in await store.balances("grant:")}
    if as_json:
        for one in given:
            print_json({**msgspec.to_builtins(one), "spent": spent.get(f"grant:{one.id}", 0)})
        return
    columns: dict[str, Callable[[Given], str]] = {
        "grant": lambda one: one.id,
        "given": lambda one: format_time(one.given),
        "server": lambda one: names.get(one.grant.identity, one.grant.identity),
        "for": _describe_purpose,
        "scope": lambda one: one.grant.scope,
        "used": lambda one: _describe_bound(str(one.used), one.grant.terms.uses),
        "spent": lambda one: _describe_spent(spent.get(f"grant:{one.id}", 0), one.grant.terms.money),
        "until": lambda one: format_time(one.grant.terms.until),
        "models": _describe_models,
    }
    print_list(given, columns, as_json=False, nothing="Nothing is allowed beforehand by a person.")


def _describe_models(given: Given) -> str:
    """List the models it was given for, and how far they reach."""
    grant = given.grant
    if grant.asks_again:
        return "local models only; for others you are asked again"
    return "" if grant.tool is not None else inert_line(", ".join((*grant.models, *(grant.reaches or ()))))


async def revoke_grants(store: Store, ids: Sequence[str]) -> None:
    """Withdraw grants, so that a person is asked about the next request."""
    grants = Grants(store)
    known = [given.id for given in await grants.all()]
    for id in [find_by_prefix(id, known, f"there is no grant {id}") for id in ids]:
        if not await grants.revoke(id):
            raise Failed(f"there is no grant {id} any more")
        print_text(f"{id}: revoked, the next request asks again")


async def list_blocks(store: Store, *, as_json: bool) -> None:
    """List the servers that are blocked."""
    columns: dict[str, Callable[[BlockRow], str]] = {
        "server": lambda row: row.identity,
        "target": lambda row: mask_text(row.target),
        "since": lambda row: format_time(row.since),
        "by": lambda row: row.by or "",
    }
    print_list(await store.blocks(), columns, as_json=as_json, nothing="No server is blocked.")


async def lift_block(store: Store, identity: str) -> None:
    """Unblock a server."""
    known = [row.identity for row in await store.blocks()]
    one = find_by_prefix(identity, known, f"no server is blocked as {identity}")
    if not await store.unblock(one):
        raise Failed(f"{one}: is not blocked any more")
    print_text(f"{one}: may ask again")


def _describe_purpose(given: Given) -> str:
    grant = given.grant
    if grant.when is not None:
        return f"the tool {grant.tool}, when {grant.when}"
    return f"the tool {grant.tool}" if grant.tool is not None else f"up to {grant.max_tokens} tokens"


def _describe_bound(used: str, most: int | None) -> str:
    return used if most is None else f"{used} of {most}"


def _describe_spent(spent: int, most: int | None) -> str:
    # Only a grant with a limit on money has an account.
    return "" if most is None else f"{format_dollars(spent)} of {format_dollars(most, rounding='none')}"
