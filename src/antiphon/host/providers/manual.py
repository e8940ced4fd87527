"""The provider that is a person: whoever reviews a request also writes its answer."""

from __future__ import annotations

from antiphon.errors import SamplingFailed
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Manual"]


class Manual:
    """A person. The host takes the answer from the review, so that nothing is left to complete here."""

    name = "manual"
    tools = False
    personal = True

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Fail: a reviewer approved where only an answer in person can be one."""
        raise SamplingFailed("the request was approved, but nobody wrote an answer")
