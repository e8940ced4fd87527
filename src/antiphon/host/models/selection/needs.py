"""What a request needs of a model: what it must take, whether tools, and about how many tokens.

The tokens are estimated as for the ``budget``, so that what fits into one fits into the other.
"""

from __future__ import annotations

import msgspec

from antiphon.host.budget import input_estimate
from antiphon.host.catalogue import Modality
from antiphon.host.checks.contents import blocks
from antiphon.wire.content import AudioContent, ImageContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Needs", "needs_of"]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a model must offer for one request."""

    inputs: tuple[Modality, ...] = ()
    """Beside text."""
    tools: bool = False
    input_tokens: int = 0
    """Estimated."""
    max_tokens: int = 1
    """What the answer may have."""


def needs_of(params: CreateMessageRequestParams) -> Needs:
    """Find out what a request needs. Tools in its history count: a model without them cannot read that."""
    held = [placed.block for placed in blocks(params)]
    inputs: list[Modality] = []
    if any(isinstance(block, ImageContent) for block in held):
        inputs.append("image")
    if any(isinstance(block, AudioContent) for block in held):
        inputs.append("audio")
    return Needs(
        inputs=tuple(inputs),
        tools=bool(params.tools) or any(isinstance(block, ToolUseContent | ToolResultContent) for block in held),
        input_tokens=input_estimate(params),
        max_tokens=params.max_tokens,
    )
