"""The provider that is a person: the reviewer of a request also writes its answer."""

from __future__ import annotations

from antiphon.errors import SamplingFailed
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Manual"]


class Manual:
    """A person. The host takes the answer from the review, so ``complete`` is never needed."""

    name = "manual"
    tools = False
    personal = True

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Fail, because a reviewer approved a request that only a person can answer. See ``Provider.complete``."""
        raise SamplingFailed("the request was approved, but nobody wrote an answer")
