"""Telemetry: reports to OpenTelemetry if the program has configured it; otherwise nothing is loaded or reported.

Owns whether anything is reported. ``operations`` makes spans and metrics; ``engine.request_telemetry`` names
them by the conventions for MCP, ``host.host_telemetry`` by those for GenAI.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.telemetry.operations import Telemetry


def find_current_telemetry() -> Telemetry | None:
    """Return the program's telemetry, ``None`` if it configured none; OpenTelemetry is never imported first."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from antiphon.telemetry.operations import find_configured

    return find_configured()
