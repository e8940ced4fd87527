"""A gateway in front of one server, as a program: ``python gateway.py COMMAND...``.

Names stay as they are and asks are relayed, so that nothing but the gateway's own name tells it from the server.
"""

from __future__ import annotations

import sys

from antiphon.gateway import Gateway
from antiphon.host import Host, Limits, Policy, Scripted


def main() -> None:
    """Serve stdio until the client ends it."""
    host = Host(Scripted([]), policy=Policy(default="allow"), limits=Limits(per_minute=None))
    Gateway({"behind": sys.argv[1:]}, host, names="none", asks="relay", list_timeout=60).run()


if __name__ == "__main__":
    main()
