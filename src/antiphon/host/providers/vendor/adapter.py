"""``Vendor``: one configured model of one vendor.

Owns the client. ``persistence`` retries, and ``host.models`` tries fallbacks.
"""

from __future__ import annotations

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
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import Completion, Growth, ProviderFailure, Usage
from antiphon.host.providers.embeddings import Embedded, EmbeddingParams, packed
from antiphon.host.providers.vendor.clients import Connected, connect, connect_embedder
from antiphon.host.providers.vendor.failures import failure
from antiphon.host.providers.vendor.response import completion
from antiphon.host.providers.vendor.translation import outgoing
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Vendor"]

_LONGEST_NAME = 200
"""Most characters of a model's name that are passed on, as for answers."""


class Vendor:
    """A model of a vendor."""

    def __init__(self, model: Model, key: str | None) -> None:
        """Make the client; nothing is sent.

        Raises:
            ConfigError: the provider is not known, or a package is missing.
        """
        self._model = model
        self._connected = None if model.embeddings else connect(model, key)
        self._embedder = connect_embedder(model, key) if model.embeddings else None

    async def generate(self, params: CreateMessageRequestParams, growth: Growth | None = None) -> Completion:
        """Ask once; ``growth`` is told of the text while it comes. Cancelling it closes the connection.

        Raises:
            ProviderFailure: of any kind; its text contains nothing that was received.
        """
        if self._connected is None:
            raise ProviderFailure("unsupported", f"{self._model.name} makes embeddings only")
        # Converted outside of the ``try`` below, so that a mistake of ours is not taken for one of the
        # vendor's.
        messages, settings, parameters, names = outgoing(params, self._model)
        coming = None if growth is None else _Coming(growth)
        try:
            if coming is None:
                response = await model_request(
                    self._connected.model,
                    messages,
                    model_settings=settings,
                    model_request_parameters=parameters,
                    instrument=False,
                )
            else:
                response = await self._streamed(self._connected, messages, settings, parameters, coming)
            return completion(response, params, self._model, names)
        except ProviderFailure:
            raise
        except Exception as error:
            # A boundary to code of others, whose errors quote what came over the wire: the cause is cut off.
            failed = failure(error, self._model)
            # The model has worked on an answer whose stream broke off, so the vendor may charge for it.
            failed.charged = failed.charged or (coming is not None and coming.begun)
            raise failed from None

    async def _streamed(
        self,
        connected: Connected,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        coming: _Coming,
    ) -> ModelResponse:
        streaming = model_request_stream(
            connected.model,
            messages,
            model_settings=settings,
            model_request_parameters=parameters,
            instrument=False,
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
        """Ask once for the vectors of some texts. Cancelling it closes the connection.

        Raises:
            ProviderFailure: of any kind; its text contains nothing that was received.
        """
        if self._embedder is None:
            raise ProviderFailure("unsupported", f"{self._model.name} makes no embeddings")
        texts, wanted = params.texts, params.dimensions
        settings = EmbeddingSettings() if wanted is None else EmbeddingSettings(dimensions=wanted)
        try:
            found = await self._embedder.model.embed(texts, input_type="document", settings=settings)
        except Exception as error:
            # A boundary to code of others, as in ``generate``.
            raise failure(error, self._model) from None
        if len(found.embeddings) != len(texts):
            raise ProviderFailure("invalid", f"{self._model.provider}: not as many vectors as texts")
        used = found.usage.input_tokens
        return Embedded(
            vectors=packed(found.embeddings),
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
