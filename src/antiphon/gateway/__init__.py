"""A gateway: many servers as one, with all their asks answered by one host."""

from __future__ import annotations

from antiphon.gateway.gateway import Gateway
from antiphon.gateway.upstream import Offer, SignIn, Upstream

__all__ = ["Gateway", "Offer", "SignIn", "Upstream"]
