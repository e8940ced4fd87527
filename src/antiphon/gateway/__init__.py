"""One server in front of many: what they offer under one roof, and every ask of theirs answered by one host."""

from __future__ import annotations

from antiphon.gateway.gateway import Gateway
from antiphon.gateway.upstream import Offer, Upstream

__all__ = ["Gateway", "Offer", "Upstream"]
