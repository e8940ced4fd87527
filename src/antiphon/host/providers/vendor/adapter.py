"""``Vendor``: one configured model of one vendor.

Owns the client, and its errors as failures in our own words. Vendors put requests, addresses and sometimes a key into
the text of an error. None of this is passed on: only the kind, the HTTP status, and the code if that is a plain word.
``persistence`` retries, and ``host.models`` tries fallbacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
from pydantic_ai import exceptions as theirs
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.embeddings import EmbeddingSettings
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import Completion, FailureKind, Growth, ProviderFailure, Usage
from antiphon.host.providers.vectors import Embedded, EmbeddingParams, pack_vectors
from antiphon.host.providers.vendor.clients import connect_embedder, connect_model
from antiphon.host.providers.vendor.translation import convert_completion, convert_request
from antiphon.wire.sampling import CreateMessageRequestParams

_LONGEST_NAME = 200
"""Most characters of a model's name that are passed on, as for answers."""

# The first match counts; each entry is more specific than those below it.
_KINDS: tuple[tuple[type[BaseException], FailureKind, str], ...] = (
    (theirs.ModelRateLimitError, "rate-limit", "too many requests"),
    (theirs.ModelQuotaExceededError, "quota", "the account has no quota or credit left"),
    (theirs.ModelUnavailableError, "unavailable", "the service is not available"),
    (theirs.ModelServerError, "unavailable", "the service failed"),
    (theirs.ModelTimeoutError, "timeout", "no answer in time"),
    (theirs.ModelRequestTimeout, "timeout", "no answer in time"),
    (theirs.ModelConnectionError, "connection", "the connection failed"),
    (theirs.ModelAuthenticationError, "auth", "the key was not accepted"),
    (theirs.ModelNotFoundError, "not-found", "there is no such model, or the address is wrong"),
    (theirs.ModelContextWindowExceededError, "context", "the request is too large for the model"),
    (theirs.ModelRequestRejectedError, "rejected", "the service did not take the request"),
    (theirs.ContentFilterError, "refused", "the model, or a filter around it, refused"),
    (theirs.UnexpectedModelBehavior, "invalid", "the answer cannot be used"),
    (theirs.UserError, "unsupported", "the model cannot be asked this"),
    (NotImplementedError, "unsupported", "the model cannot be asked this"),
    (TimeoutError, "timeout", "no answer in time"),
    (OSError, "connection", "the connection failed"),
)
_STATUS: dict[int, FailureKind] = {408: "timeout", 429: "rate-limit", 401: "auth", 403: "auth", 404: "not-found"}
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, ConnectionRefusedError)
_PLAIN_WORD = re.compile(r"[a-z]+(?:_[a-z]+){0,4}")
"""Matches ``insufficient_quota``, but nothing with the digits, capitals or hyphens of a key."""
_LONGEST_WORD = 48


class Vendor:
    """A model of a vendor."""

    def __init__(self, model: Model, key: str | None, *, ready: TheirModel | None = None) -> None:
        """Make the client as ``connect_model`` does; send nothing. ``ready`` is asked instead, and stays open."""
        self._model = model
        self._connected = None if model.embeddings or ready else connect_model(model, key)
        self._asked = self._connected.model if self._connected else ready
        self._embedder = connect_embedder(model, key) if model.embeddings else None

    async def generate(self, params: CreateMessageRequestParams, growth: Growth | None = None) -> Completion:
        """Ask once; ``growth`` is told of the text while it comes. Cancelling closes the connection.

        Every error is a ``ProviderFailure`` whose text contains nothing that was received.
        """
        if self._asked is None:
            raise ProviderFailure("unsupported", f"{self._model.name} makes embeddings only")
        # Converted outside of the ``try`` below, so that a mistake of ours is not taken for one of the
        # vendor's.
        messages, settings, parameters, names = convert_request(params, self._model)
        coming = None if growth is None else _Coming(growth)
        try:
            if coming is None:
                response = await model_request(
                    self._asked,
                    messages,
                    model_settings=settings,
                    model_request_parameters=parameters,
                    instrument=False,
                )
            else:
                response = await self._stream_answer(self._asked, messages, settings, parameters, coming)
            return convert_completion(response, params, self._model, names)
        except ProviderFailure:
            raise
        except Exception as error:
            # A boundary to code of others, whose errors quote what came over the wire: the cause is cut off.
            failed = convert_failure(error, self._model)
            # The model has worked on an answer whose stream broke off, so the vendor may charge for it.
            failed.charged = failed.charged or (coming is not None and coming.begun)
            raise failed from None

    async def _stream_answer(
        self,
        asked: TheirModel,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        coming: _Coming,
    ) -> ModelResponse:
        streaming = model_request_stream(
            asked, messages, model_settings=settings, model_request_parameters=parameters, instrument=False
        )
        async with streaming as stream:
            async for event in stream:
                coming.take(event)
            response = stream.get()
        said = (response.provider_details or {}).get("finish_reason")
        if said is None and response.finish_reason in (None, "stop"):
            # A complete answer says why it ends. A stream without that broke off, and must not pass for a complete one.
            raise ProviderFailure("invalid", f"{self._model.provider}: the stream ended before the answer did")
        return response

    async def embed(self, params: EmbeddingParams) -> Embedded:
        """Ask once for the vectors of some texts; cancelling and errors are as for ``generate``."""
        if self._embedder is None:
            raise ProviderFailure("unsupported", f"{self._model.name} makes no embeddings")
        texts, wanted = params.texts, params.dimensions
        settings = EmbeddingSettings() if wanted is None else EmbeddingSettings(dimensions=wanted)
        try:
            found = await self._embedder.model.embed(texts, input_type="document", settings=settings)
        except Exception as error:
            # A boundary to code of others, as in ``generate``.
            raise convert_failure(error, self._model) from None
        if len(found.embeddings) != len(texts):
            raise ProviderFailure("invalid", f"{self._model.provider}: not as many vectors as texts")
        used = found.usage.input_tokens
        return Embedded(
            vectors=pack_vectors(found.embeddings),
            model=(found.model_name or self._model.model)[:_LONGEST_NAME],
            usage=Usage(input_tokens=used) if used > 0 else None,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        for connected in (self._connected, self._embedder):
            if connected is not None:
                await connected.aclose()


class _Coming:
    """The text of a stream, passed on to people who watch it."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self.begun = False
        """Whether anything of an answer has come."""

    def take(self, event: ModelResponseStreamEvent) -> None:
        """Pass on the text of an event; hidden reasoning and uses of tools are left out."""
        self.begun = True
        text = ""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            text = event.part.content
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            text = event.delta.content_delta
        if text:
            self._growth.add(text)


def convert_failure(error: BaseException, model: Model) -> ProviderFailure:
    """Convert an exception of a vendor's library to our failure."""
    for kind, name, meaning in _KINDS:
        if isinstance(error, kind):
            return _make_failure(name, meaning, error, model)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        kind = _STATUS.get(status, "unavailable" if status >= 500 else "rejected")
        return _make_failure(kind, "the service answered with an error", error, model)
    return _make_failure("invalid", "the answer cannot be used", error, model)


def _make_failure(kind: FailureKind, meaning: str, error: BaseException, model: Model) -> ProviderFailure:
    after: object = getattr(error, "retry_after", None)
    status: object = getattr(error, "status_code", None)
    # A vendor that answered with an error, or was never reached, has not let a model work.
    unworked = isinstance(status, int) or any(isinstance(one, _UNREACHED) for one in _list_causes(error))
    details = [f"HTTP {status}"] if isinstance(status, int) else []
    words = (_get_word(error, name) for name in ("provider_error_type", "provider_error_code"))
    details += [word for word in words if word]
    told = f" ({', '.join(dict.fromkeys(details))})" if details else ""
    return ProviderFailure(
        kind,
        f"{model.name} at {model.provider}: {meaning}{told}",
        retry_after=float(after) if isinstance(after, int | float) else None,
        charged=False if unworked else None,
    )


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; a limited number of steps, since a chain may be a cycle."""
    at: BaseException | None = error
    for _ in range(10):
        if at is None:
            return
        yield at
        at = at.__cause__ or at.__context__


def _get_word(error: BaseException, name: str) -> str | None:
    word: object = getattr(error, name, None)
    is_plain = isinstance(word, str) and len(word) <= _LONGEST_WORD and _PLAIN_WORD.fullmatch(word)
    return word if is_plain and isinstance(word, str) else None
