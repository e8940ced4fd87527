"""``antiphon logout``: forget the login to a server, and have it revoked where it was obtained."""

from __future__ import annotations

from antiphon.auth.client.store import Document, Login
from antiphon.auth.client.token_endpoint import revoke
from antiphon.cli.failures import Failed
from antiphon.cli.logins import server_of, usual_logins
from antiphon.cli.open_client import run
from antiphon.cli.options import Config, For, TargetText
from antiphon.cli.output.formats import print_text
from antiphon.cli.targets import address_of, resolve_target
from antiphon.errors import Unauthorized

__all__ = ["command"]


def command(target: TargetText, *, principal: For = None, config: Config = None) -> int:
    """Forget the login to a server, and have its tokens revoked."""
    address = address_of(resolve_target(target, config))
    if address is None:
        raise Failed(f"{target}: is started on this machine: there is no login to it")
    return run(_logout(server_of(address), principal))


async def _logout(server: str, principal: str | None) -> int:
    def forget(kept: Document) -> list[Login]:
        gone = [one for one in kept.logins if one.server == server]
        for login in gone:
            kept.drop(login.server, login.label)
            if not any(other.metadata.issuer == login.metadata.issuer for other in kept.logins):
                # No other login uses this registration; deleting it also helps if the server has lost
                # it.
                kept.unregister(login.metadata.issuer)
        return gone

    gone = await usual_logins(principal).change(forget)
    if not gone:
        raise Failed(f"{server}: there is no login to it")
    for login in gone:
        told = "its tokens were revoked"
        try:
            if not await revoke(login):
                told = f"{login.metadata.issuer} revokes no tokens: they end by themselves"
        except Unauthorized as error:
            told = f"its tokens could not be revoked ({error.message})"
        print_text(f"Logged out of {server}; {told}")
    return 0
