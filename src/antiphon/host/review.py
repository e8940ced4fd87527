"""What a person is shown, and what a person can decide: the seam between the pipeline and whoever reviews.

Owns the values that cross it and the digest that ties a decision to what was shown. It shows nothing itself.
"""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol

import msgspec

from antiphon.host.risk import Risk
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "Answer",
    "Approve",
    "Choice",
    "Decision",
    "Deny",
    "Edit",
    "ElicitItem",
    "NoReviewer",
    "ReviewItem",
    "Reviewer",
    "Scope",
    "digest",
]

Choice = Literal["approve", "edit", "deny", "answer", "grant"]
Scope = Literal["once", "call", "session"]


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """One sampling request that waits for a person."""

    origin: Origin
    params: CreateMessageRequestParams
    """Exactly what will be sent to the provider."""
    received: CreateMessageRequestParams
    """What the server sent; differs from ``params`` where the host dropped or lowered something."""
    provider: str
    """Who will answer if this is approved."""
    choices: frozenset[Choice]
    """What may be decided. Without ``"approve"`` only a person can answer."""
    risks: tuple[Risk, ...] = ()
    result: CreateMessageResult | None = None
    """The answer under review, or ``None`` while the request is."""
    expires_in: float | None = None
    """Seconds until nobody waits any more."""


class ElicitItem(msgspec.Struct, frozen=True, kw_only=True):
    """One elicitation that waits for a person."""

    origin: Origin
    params: ElicitRequestParams
    risks: tuple[Risk, ...] = ()
    expires_in: float | None = None


class Approve(msgspec.Struct, frozen=True, kw_only=True, tag="approve"):
    """Send it as shown, and, with a wider scope, its like without asking again."""

    digest: str
    """Of what was shown (``digest(item.params)``, or of ``item.result`` when an answer was reviewed)."""
    scope: Scope = "once"


class Edit(msgspec.Struct, frozen=True, kw_only=True, tag="edit"):
    """Send this instead."""

    params: CreateMessageRequestParams
    digest: str
    """Of ``params`` as they were shown after the edit."""


class Deny(msgspec.Struct, frozen=True, kw_only=True, tag="deny"):
    """Do not answer. The reason stays on this side."""

    reason: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """Answer in person; a string is a text answer."""

    result: CreateMessageResult | str


Decision = Approve | Edit | Deny | Answer


class NoReviewer(Exception):
    """The person cannot be reached (any more): the terminal is gone."""


class Reviewer(Protocol):
    """Someone who can be asked. Cancelling a ``review`` or ``elicit`` withdraws the question."""

    @property
    def available(self) -> bool:
        """Whether a person can be asked now."""
        ...

    async def review(self, item: ReviewItem) -> Decision:
        """Show the item and wait for the decision.

        Raises:
            NoReviewer: the person cannot be reached any more.
        """
        ...

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Show the form or the address and wait for what the person does with it.

        Raises:
            NoReviewer: the person cannot be reached any more.
        """
        ...


def digest(value: msgspec.Struct) -> str:
    """Compute the SHA-256 of the canonical JSON (sorted keys, no spaces) of anything that travels, in hex."""
    canonical = msgspec.json.encode(msgspec.json.decode(encode(value)), order="sorted")
    return hashlib.sha256(canonical).hexdigest()
