"""A gateway: many servers as one, whose asks one host answers."""

from __future__ import annotations

from antiphon.gateway.filters import Filters
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.offer import Offer
from antiphon.gateway.server_proxy import Proxy
from antiphon.gateway.terms import RunOptions, SignIn
from antiphon.gateway.upstream import Upstream

__all__ = ["Filters", "Gateway", "Offer", "Proxy", "RunOptions", "SignIn", "Upstream"]
