"""A gateway: many servers as one, whose asks one host answers."""

from __future__ import annotations

from antiphon.gateway.filters import Filters
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.server_proxy import Proxy
from antiphon.gateway.terms import RunOptions, SignIn
from antiphon.host.review.behind_gateway import ShownServer, ShownTool

__all__ = ["Filters", "Gateway", "Proxy", "RunOptions", "ShownServer", "ShownTool", "SignIn"]
