"""A provider with prepared answers, for tests and demonstrations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from antiphon.host.providers.base import text_answer
from antiphon.host.providers.echo import embedded
from antiphon.host.providers.embeddings import Embedded, EmbeddingParams
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Scripted"]


class Scripted:
    """Gives prepared answers, one per request, in order, as model ``"scripted"``. ``requests`` keeps the requests.

    Vectors are those of the echo, and need no script.

    Args:
        answers: one for each request: a string is a text answer, an exception is raised, a result is returned as it is.
    """

    name = "scripted"
    tools = True
    personal = False

    def __init__(self, answers: Iterable[str | CreateMessageResult | Exception]) -> None:
        self._answers = deque(answers)
        self.requests: list[CreateMessageRequestParams] = []
        self.embeddings: list[EmbeddingParams] = []
        """The requests for vectors."""

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Give the next answer.

        Args:
            params: the request, which is added to ``requests``.
            model: not used.

        Raises:
            LookupError: there is no answer left.
        """
        self.requests.append(params)
        if not self._answers:
            raise LookupError(f"the script has no answer for request {len(self.requests)}")
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return text_answer(answer, self.name) if isinstance(answer, str) else answer

    async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
        """Make vectors of the words of each text, as the echo does.

        Args:
            params: the request, which is added to ``embeddings``.
            model: not used.
        """
        self.embeddings.append(params)
        return await embedded(params, self.name)
