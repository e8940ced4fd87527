"""What happens is told to OpenTelemetry if the program has set it up; otherwise nothing is, and nothing is loaded.

Owns whether anybody listens. How an operation is told is in ``operations``; what it is called is said where it happens,
by the conventions for MCP in ``engine.telemetry``, by those for GenAI in ``host.telemetry``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.telemetry.operations import Telemetry

__all__ = ["current"]


def current() -> Telemetry | None:
    """Return what operations are told to; ``None`` if the program has set up neither traces nor metrics.

    A program that has set them up has imported OpenTelemetry, so we never do it first.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from antiphon.telemetry.operations import configured

    return configured()
