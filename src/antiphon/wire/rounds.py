"""Rounds: a server answers a call with questions, and the client repeats the call with answers (from 2026-07-28).

Owns the result that asks; ``common.RoundParams`` has the members of a retry. Asks and answers stay undecoded here:
``methods.METHODS[ask.method]`` has their types.
"""

from __future__ import annotations

from msgspec import Raw, field

from antiphon.wire.common import ABSENT, Meta, Wire

INPUT_REQUIRED = "input_required"
ANSWER_WITHIN = "antiphon/answerWithin"
"""Member of ``_meta`` of a round: seconds for which the server waits for each answer, by the key of its ask."""

InputResponses = dict[str, Raw]
"""Answers by the key of their ask."""


class InputRequest(Wire, frozen=True, kw_only=True):
    """One ask: the method and params that a legacy server would send as a request."""

    method: str
    params: Raw = ABSENT


class InputRequiredResult(Wire, frozen=True, kw_only=True, tag_field="resultType", tag=INPUT_REQUIRED):
    """Result of a call that needs answers first: asks, a state or both. It sets ``resultType`` itself."""

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    meta: Meta | None = field(name="_meta", default=None)

    @property
    def result_type(self) -> str:
        """Always "input_required"."""
        return INPUT_REQUIRED
