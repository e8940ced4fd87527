"""Questions as they wait in a queue, for the tests of what is shown of them."""

from __future__ import annotations

import msgspec

from antiphon.host import ElicitItem, ReviewItem
from antiphon.host.review.question import Question
from antiphon.host.review.summary import Row
from antiphon.wire.elicitation import ElicitRequestParams
from tests.host.asks import CHOICES, origin, request


def question(params=None, *, id: str = "q", group: str = "g", result=None, **more) -> Question:
    """Make a question about a request."""
    params = params or request()
    item = ReviewItem(
        origin=more.pop("who", origin()),
        params=params,
        received=params,
        provider="echo",
        choices=CHOICES,
        result=result,
    )
    return Question(
        id=id,
        kind="response" if result else "request",
        group=group,
        identity=more.pop("identity", item.origin.identity),
        created=1.0,
        expires=None,
        state="pending",
        waited_for=True,
        item=item,
        **more,
    )


def form(params: ElicitRequestParams) -> Question:
    """Make a question about a form."""
    return msgspec.structs.replace(question(), kind="elicitation", item=ElicitItem(origin=origin(), params=params))


def waiting(
    id: str, created: float, *, expires: float | None = None, warnings: int = 0, worst: int | None = None
) -> Row:
    """Make a row of the queue."""
    return Row(
        id=id,
        kind="request",
        tool="",
        summary=f"the words of {id}",
        warnings=warnings,
        created=created,
        expires=expires,
        worst=worst,
    )
