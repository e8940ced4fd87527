"""Unfinished answers for the browsers that watch.

Owns when the event stream of a page reports them: as they grow, and once more when none is left.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from antiphon.host.review.partials import LOOK, Partial, partials_in
from antiphon.web.site import Site

__all__ = ["GrowingAnswers"]


class GrowingAnswers:
    """What one stream has reported of growing answers."""

    def __init__(self, site: Site, request: Request) -> None:
        self._site = site
        self._request = request
        self._told: list[Partial] = []

    def next_look(self, otherwise: float) -> float:
        """Return the seconds until the next read: few while any of them grows."""
        return LOOK if self._told else otherwise

    async def news(self) -> str:
        """Read, and return an event for the page's script; empty if nothing has changed."""
        partials = await partials_in(self._site.store)
        if partials == self._told:
            return ""
        self._told = partials
        html = self._site.part(self._request, "parts/partials.html", partials=partials)
        return f"event: partials\ndata: {msgspec.json.encode({'html': html}).decode()}\n\n"
