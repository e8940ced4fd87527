"""Long texts of a question, which the page shows piece by piece.

Only the piece that is shown is made inert: doing it for ten megabytes at once would hold the event loop for 0.3 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host.checks.risk import secret_spots
from antiphon.host.review.diff import pretty
from antiphon.host.review.parts import Turn
from antiphon.host.review.shown import Shown
from antiphon.web.render import PIECE
from antiphon.web.site import Site

__all__ = ["piece"]


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A complete text, and its ranges that look like secrets."""

    text: str
    spots: tuple[tuple[int, int], ...] = ()


def piece(site: Site, request: Request, shown: Shown | None, back: str) -> Response:
    """Show a piece of a long text; the address of the request names the text and the first character.

    Args:
        site: the parts of the page.
        request: the request.
        shown: the question that the text is part of; ``None`` if it does not exist any more.
        back: address of the page that shows the whole question.
    """
    key = request.path_params["key"]
    whole = None if shown is None else next((text for name, text in _texts(shown) if name == key), None)
    asked = request.query_params.get("from", "0")
    start = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    if whole is None or start >= len(whole.text):
        return site.html(request, "gone.html", status=404)
    end = min(start + PIECE, len(whole.text))
    return site.html(request, "text.html", whole=whole, start=start, end=end, back=back)


def _texts(shown: Shown) -> Iterator[tuple[str, Whole]]:
    """Yield each text of a question with its name in addresses."""
    yield "message", Whole(text=shown.message)
    yield "raw", Whole(text=shown.raw)
    yield "arguments", Whole(text=shown.arguments)
    yield "tool", Whole(text=shown.tool)
    if shown.params is not None:
        risks = () if shown.answer else shown.risks
        yield "system", Whole(text=shown.params.system_prompt or "", spots=secret_spots(risks, "systemPrompt"))
        for at, tool in enumerate(shown.params.tools or ()):
            yield f"tools-{at}", Whole(text=pretty(tool))
    yield from _parts("request", shown.turns)
    yield from _parts("answer", () if shown.answer is None else (shown.answer,))
    yield from _parts("rival", () if shown.rival is None else (shown.rival,))


def _parts(of: str, turns: Sequence[Turn]) -> Iterator[tuple[str, Whole]]:
    for at, turn in enumerate(turns):
        for number, part in enumerate(turn.parts):
            yield f"{of}-{at}-{number}", Whole(text=part.text, spots=part.spots)
