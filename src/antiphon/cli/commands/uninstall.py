"""``antiphon uninstall``: give a host its own file back."""

from __future__ import annotations

from antiphon.cli.commands.install import File, HostName, find_installation
from antiphon.host.checks.visible import inert
from antiphon.host.config.trust import Trust

__all__ = ["command"]


def command(host: HostName, *, file: File = None) -> int:
    """Give a host its own servers back.

    The file becomes what it was, to the byte. If it was changed since, only the gateway's entry is taken out.
    """
    place = find_installation(host, file)
    done = place.uninstall()
    Trust().end_move(place.path)
    how = "as it was before" if done.exactly else "changed since: our entry taken out, all else left"
    print(f"{place.path}: {how}.")
    if done.edited is not None:
        print(f"What was changed in the gateway's list of servers is kept in {done.edited}.")
    if done.restored:
        print(inert(f"The host's own again: {', '.join(done.restored)}."))
    return 0
