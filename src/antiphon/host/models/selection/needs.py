"""What a request needs of a model: inputs, tools, and an estimated number of tokens.

Tokens are estimated as for the ``budget``, so that the two agree.
"""

from __future__ import annotations

import msgspec

from antiphon.host.budget import input_estimate
from antiphon.host.catalogue import Modality
from antiphon.host.checks.contents import blocks
from antiphon.host.providers.embeddings import EmbeddingParams
from antiphon.wire.content import AudioContent, ImageContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Needs", "needs_of"]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a model must support for one request."""

    inputs: tuple[Modality, ...] = ()
    """Inputs in addition to text."""
    tools: bool = False
    embeddings: bool = False
    """Whether vectors are wanted, which only models for that make."""
    input_tokens: int = 0
    """Estimated."""
    max_tokens: int = 1
    """Most tokens of the answer."""


def needs_of(params: CreateMessageRequestParams) -> Needs:
    """Determine what a request needs. Tools in its history count, since a model without tools cannot read that."""
    held = [placed.block for placed in blocks(params)]
    inputs: list[Modality] = []
    if any(isinstance(block, ImageContent) for block in held):
        inputs.append("image")
    if any(isinstance(block, AudioContent) for block in held):
        inputs.append("audio")
    return Needs(
        inputs=tuple(inputs),
        tools=bool(params.tools) or any(isinstance(block, ToolUseContent | ToolResultContent) for block in held),
        embeddings=isinstance(params, EmbeddingParams),
        input_tokens=input_estimate(params),
        max_tokens=params.max_tokens,
    )
