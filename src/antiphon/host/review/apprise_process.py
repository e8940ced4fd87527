"""What runs in the process that sends one notice, so that it can be killed.

Addresses have secrets, and Apprise logs and quotes them: none of that gets out of the process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

DELIVERED, UNKNOWN, FAILED = 0, 3, 4
"""Exit codes; 1 is an exception."""


def main() -> None:
    """Send one notice: address, title and body are a JSON array at standard input. Ends the process."""
    url, title, body = json.load(sys.stdin)
    from apprise import Apprise

    service: Any = Apprise()
    if not service.add(url):
        sys.exit(UNKNOWN)
    sent = service.notify(body=body, title=title, body_format="text")
    sys.exit(DELIVERED if sent else FAILED)
