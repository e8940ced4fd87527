"""Why a request would be allowed, asked about or denied, rule by rule.

Owns the origin that is assumed. The host's ``policy`` has the reasons.
"""

from __future__ import annotations

import msgspec

from antiphon.cli.commands.policy.show import ranked
from antiphon.cli.failures import FAILED
from antiphon.cli.output.formats import print_json, print_text
from antiphon.cli.request_file import Asked
from antiphon.host.checks.policy import Policy, decide, explain, mismatch
from antiphon.wire.origin import Origin, OriginCall

__all__ = ["origin_of", "tell"]


def origin_of(known: Origin, *, background: bool) -> Origin:
    """Make the origin: an ask of this server, during a call or in the background."""
    call = None if background else OriginCall(id="explained", method="tools/call")
    return msgspec.structs.replace(known, id="explained", call=call)


def tell(policy: Policy, asked: Asked, origin: Origin, *, headless: bool, as_json: bool) -> int:
    """Print the explanation, and return the exit code: 1 if the request would be denied."""
    verdict = decide(policy, asked, origin, headless=headless)
    if as_json:
        rules = [{"rule": rule, "mismatch": mismatch(rule, asked, origin)} for rule in ranked(policy)]
        print_json({**msgspec.structs.asdict(verdict), "rules": rules})
    else:
        for line in explain(policy, asked, origin, headless=headless):
            print_text(line)
    return FAILED if verdict.effect == "deny" else 0
