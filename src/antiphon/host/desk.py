"""What the stages of one host work with, and how the end of one ask is recorded and told.

Owns the words the server hears. Which end it is, the ``pipeline`` decides.
"""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

from antiphon.errors import InternalError, Rejected
from antiphon.host.audit import Audit, Step
from antiphon.host.grants import Grants
from antiphon.host.policy import Policy
from antiphon.host.providers.base import Provider
from antiphon.host.redact import mask
from antiphon.host.review import Reviewer
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.origin import Origin

__all__ = ["ELICITATION", "SAMPLING", "Case", "Desk", "Reason"]

Reason = Literal["user", "policy", "no-reviewer", "expired", "changed"]
"""Why an ask was refused: the ``data.reason`` of ``Rejected``."""

SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"

_log = logging.getLogger("antiphon.host")


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one host."""

    provider: Provider
    policy: Policy
    reviewer: Reviewer | None
    review_response: Literal["never", "always"]
    review_timeout: float | None
    generate_timeout: float | None
    grants: Grants
    audit: Audit

    @property
    def headless(self) -> bool:
        """Whether no person can be asked now."""
        return self.reviewer is None or not self.reviewer.available


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One ask on its way through the stages."""

    desk: Desk
    origin: Origin
    method: str

    def note(self, step: Step, outcome: str = "", digest: str | None = None) -> None:
        """Record a step."""
        self.desk.audit.note(self.origin, self.method, step, outcome, digest)

    def refusal(self, reason: Reason) -> Rejected:
        """Record a refusal and make the error for it."""
        self.note("refused", reason)
        # 2025-11-25 client/sampling, "Error Handling": code -1, this text.
        return Rejected("User rejected sampling request", data={"reason": reason})

    def declined(self, reason: Reason) -> ElicitResult:
        """Record a refusal and make the answer to an elicitation that says so."""
        self.note("refused", reason)
        return ElicitResult(action="decline")

    def failure(self, detail: str) -> InternalError:
        """Log what went wrong on our side, masked, and make the error that says nothing of it."""
        self.note("failed")
        _log.error("%s: %s", self.method, mask(detail))
        return InternalError("The client could not answer the request")
