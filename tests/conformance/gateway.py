"""The gateway in front of the everything server, as the suite needs it: ``python gateway.py --port PORT URL``.

Names stay as they are, since the suite calls tools by theirs, and asks are relayed, since the suite answers them.
"""

from __future__ import annotations

import argparse

from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("url")
    given = parser.parse_args()
    host = Host(Scripted([]), policy=Policy(default="allow"))
    Gateway({"everything": given.url}, host, names="none", asks="relay", list_timeout=60).run("http", port=given.port)


if __name__ == "__main__":
    main()
