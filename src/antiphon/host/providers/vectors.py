"""Embeddings: texts as vectors. What a host is asked for, what it gives, and who can make them.

A request has the form of a sampling request, so that rules, secrets, prices, accounts, reviews and records treat its
texts as they treat a prompt. What happens to it is in ``pipeline.sampling_stages``.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self, runtime_checkable

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.wire import sampling
from antiphon.wire.content import TextContent

MAX_TEXTS = 2_048
"""Most texts of one request: as many as OpenAI takes, and clients send up to a thousand by default."""
MAX_VALUES = 4 * 1024 * 1024
"""Most numbers in all vectors of one answer: 16 MiB. 2,048 vectors of 1,536 numbers, or 1,365 of 3,072."""
MAX_DIMENSIONS = 16_384
"""Most numbers of one vector: twice those of the largest models."""
_BYTES = 4
"""Bytes of one number."""
_DIMENSIONS = "dimensions"


class EmbeddingParams(sampling.CreateMessageRequestParams, frozen=True, kw_only=True):
    """A request for the vectors of some texts. Made by ``of``."""

    @classmethod
    def of(cls, texts: Sequence[str], *, model: str = "", dimensions: int | None = None) -> Self:
        """Make a request.

        Args:
            texts: what is to become vectors, each by itself.
            model: the name of a model, as a hint; empty for none.
            dimensions: how many numbers each vector has; by default as many as the model makes.
        """
        # A message holds a limited number of blocks.
        groups = [texts[at : at + sampling.MAX_BLOCKS] for at in range(0, len(texts), sampling.MAX_BLOCKS)]
        contents = ([TextContent(text=text) for text in group] for group in groups)
        return cls(
            messages=[sampling.SamplingMessage(role="user", content=content) for content in contents],
            # The least that a request can ask for: nothing is generated.
            max_tokens=1,
            model_preferences=sampling.ModelPreferences(hints=[sampling.ModelHint(name=model)]) if model else None,
            metadata={"embeddings": True, **({} if dimensions is None else {_DIMENSIONS: dimensions})},
        )

    def portions(self, size: int) -> Iterator[Self]:
        """Yield the same request for a few of its texts at a time.

        Args:
            size: most texts of each.
        """
        texts, wishes = self.texts, self.model_preferences
        for at in range(0, len(texts), size):
            portion = self.of(texts[at : at + size], dimensions=self.dimensions)
            yield msgspec.structs.replace(portion, model_preferences=wishes)

    @property
    def texts(self) -> list[str]:
        """What is to become vectors."""
        blocks = (block for message in self.messages for block in message.blocks)
        return [block.text for block in blocks if isinstance(block, TextContent)]

    @property
    def dimensions(self) -> int | None:
        """Numbers of each vector; ``None`` for as many as the model makes."""
        wanted = (self.metadata or {}).get(_DIMENSIONS)
        return wanted if type(wanted) is int else None


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of some texts, in their order."""

    vectors: tuple[bytes, ...]
    """Each as numbers of four bytes (IEEE 754, the lowest byte first), which is how vendors pack them."""
    model: str
    """The model that made them, as its service calls it."""
    usage: Usage | None = None
    """``None`` if the provider does not say."""


@runtime_checkable
class Embeds(Protocol):
    """A provider that makes embeddings."""

    async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
        """Make the vectors of some texts. Another model is never tried instead: its vectors mean something else.

        Args:
            params: the request.
            model: the model that was chosen; ``None`` for the provider's own.
        """
        ...


def check_texts(params: EmbeddingParams) -> None:
    """Check the numbers of texts and dimensions, and that no text is empty; else raise ``InvalidParams``."""
    texts = params.texts
    empty = next((f"input[{at}]" for at, text in enumerate(texts) if not text), None)
    problem = "there is no text" if not texts else f"more than {MAX_TEXTS} texts" if len(texts) > MAX_TEXTS else None
    if problem is not None or empty is not None:
        place = "input" if problem is not None else str(empty)
        raise InvalidParams(f"{place}: {problem or 'empty'}", data={"place": place})
    wanted = params.dimensions or 0
    if wanted > MAX_DIMENSIONS or wanted * len(texts) > MAX_VALUES:
        problem = f"at most {MAX_DIMENSIONS}, and {MAX_VALUES} numbers in one answer: ask for fewer texts at once"
        raise InvalidParams(f"{_DIMENSIONS}: {problem}", data={"place": _DIMENSIONS})


def join_portions(portions: Sequence[Embedded]) -> Embedded:
    """Join the vectors of portions in their order; raise ``ProviderFailure`` if they are too large or do not fit."""
    if sum(len(vector) for portion in portions for vector in portion.vectors) > _BYTES * MAX_VALUES:
        raise ProviderFailure("invalid", "the vectors are too large: ask for fewer texts at once")
    if len({portion.model for portion in portions}) > 1:
        raise ProviderFailure("invalid", "the vectors are of different models, and cannot be compared")
    used = [portion.usage for portion in portions]
    known = [usage.input_tokens for usage in used if usage is not None]
    return Embedded(
        vectors=tuple(vector for portion in portions for vector in portion.vectors),
        model=portions[0].model,
        usage=Usage(input_tokens=sum(known)) if len(known) == len(used) else None,
    )


def pack_vectors(vectors: Iterable[Sequence[float]]) -> tuple[bytes, ...]:
    """Pack vectors as ``Embedded`` has them; raise ``ProviderFailure`` for anything but numbers of four bytes."""
    made: list[bytes] = []
    for vector in vectors:
        try:
            numbers = array("f", vector)
        except (TypeError, OverflowError):
            raise ProviderFailure("invalid", "a vector contains something other than numbers") from None
        if sys.byteorder == "big":
            numbers.byteswap()
        made.append(numbers.tobytes())
    return tuple(made)
