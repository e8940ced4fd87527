"""A gateway whose questions wait in a store, as a program: ``python consent_gateway.py OPTIONS COMMAND...``.

``OPTIONS`` is a JSON object: ``store``, ``policy`` (TOML), ``within`` and ``keep`` in seconds, and perhaps ``port``, at
which it is served over HTTP to the principals that their tokens name.
"""

from __future__ import annotations

import json
import sys

from antiphon.gateway import Gateway
from antiphon.host import Host, Limits, Policy, Queue, Scripted, open_store
from antiphon.host.config.toml_files import parse_document


def main() -> None:
    """Serve until the client ends it."""
    options = json.loads(sys.argv[1])
    store = open_store(options["store"])
    policy = parse_document(options.get("policy", ""), "policy").policy or Policy()
    limits = Limits(per_minute=None, concurrent=100)
    host = Host(Scripted([]), policy=policy, reviewer=Queue(store), store=store, limits=limits, keep_content=True)
    within, keep = options.get("within", 50), options.get("keep", 3600)
    gateway = Gateway(
        {"shop": sys.argv[2:]}, host, names="none", list_timeout=60, answer_within=within, pending_for=keep
    )
    if "port" in options:
        gateway.run("http", port=options["port"], check_token=lambda token: token)
    else:
        gateway.run()


if __name__ == "__main__":
    main()
