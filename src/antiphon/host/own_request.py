"""Requests of the person's own: no server made them, and the answer goes to nobody but the person.

Owns the values that cross the seam between a page and the host that answers them, and who is said to ask. What happens
to such a request is in ``pipeline.sampling``, as to any.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Protocol

import msgspec

from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["PERSON", "Asker", "Offer", "OwnAnswer", "person"]

PERSON = "person:own"
"""The identity under which a person's own requests are charged and recorded."""
_TARGET = "your own request"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may answer."""

    model: str
    cost: int | None = None
    """What it costs at most, in nano-dollars; ``None`` if its price is not known."""


class OwnAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a person's own request."""

    ask: str
    """The id under which the audit has it."""
    result: CreateMessageResult
    model: str
    """The name of the model that answered, as the user calls it."""
    money: int | None = None
    """Nano-dollars; ``None`` if the price is not known."""


class Asker(Protocol):
    """A host that a person can ask."""

    async def offers(self, params: CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        """Return the models that may answer a request, the one that would be chosen first.

        Args:
            params: the request.
            identity: identity of the server that the text is from; only models that may answer it are offered.

        Raises:
            Rejected: none may; the message says why.
        """
        ...

    async def ask(
        self, params: CreateMessageRequestParams, identity: str, *, by: str | None = None, model: str | None = None
    ) -> OwnAnswer:
        """Answer a request of the person's own: priced, budgeted and recorded as such, and reviewed by nobody.

        Args:
            params: the request.
            identity: identity of the server that the text is from, as for ``offers``.
            by: who asks, for the record.
            model: one of the models offered; by default the first.

        Raises:
            InvalidParams: the request is not valid.
            Rejected: a limit, the budget or the lack of a model refuses it.
            InternalError: the provider or the store failed.
        """
        ...


def person() -> Origin:
    """Make the origin of a request of the person's own."""
    return Origin(id=token_hex(8), identity=PERSON, target=_TARGET)
