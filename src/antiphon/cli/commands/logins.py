"""``antiphon logins``: where this user is signed in. Never a token."""

from __future__ import annotations

from antiphon.cli.logins import until, usual_logins
from antiphon.cli.open_client import run
from antiphon.cli.options import For, Json
from antiphon.cli.output.formats import print_json, print_list

__all__ = ["command"]


def command(*, principal: For = None, as_json: Json = False) -> int:
    """List where you are signed in."""
    return run(_logins(principal, as_json=as_json))


async def _logins(principal: str | None, *, as_json: bool) -> None:
    found = sorted((await usual_logins(principal).read()).logins, key=lambda one: one.server)
    if as_json:
        for one in found:
            print_json(
                {
                    "server": one.server,
                    "issuer": one.metadata.issuer,
                    "client": one.identity.client_id,
                    "scopes": list(one.scopes),
                    "expiresAt": one.expires_at,
                    "renewable": one.refresh_token is not None,
                    "bound": one.key is not None,
                }
            )
        return
    print_list(
        found,
        {
            "server": lambda one: one.server,
            "signed in at": lambda one: one.metadata.issuer,
            "as client": lambda one: one.identity.client_id,
            "scopes": lambda one: " ".join(one.scopes) or "none named",
            "lasts": until,
        },
        as_json=False,
        nothing="You are signed in nowhere.",
    )
