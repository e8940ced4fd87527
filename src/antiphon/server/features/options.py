"""What an author may say about a feature beside its function. Types, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from antiphon.server.features.tools import Requirement
from antiphon.wire.common import Annotations, Icon, Meta
from antiphon.wire.tools import ToolAnnotations

__all__ = ["PromptOptions", "ResourceOptions", "TemplateOptions", "ToolOptions"]


class ToolOptions(TypedDict, total=False):
    """Options of a tool."""

    name: str
    """Instead of the function's own."""
    title: str
    description: str
    """Instead of the docstring's."""
    annotations: ToolAnnotations
    """Hints to clients, such as read-only."""
    icons: Sequence[Icon]
    meta: Meta
    output_schema: Mapping[str, Any]
    """JSON Schema of the structured content, instead of the return annotation's; results are validated against it."""
    structured: bool
    """``False``: text only. ``True``: structured content even of a string."""
    timeout: float
    """Seconds; time in which the client is asked does not count."""
    requires: Requirement
    """The client capability without which the tool is of no use."""
    once: bool
    """Never let one call of it become two: where processes share keys, it goes on in another one only if their
    ``state_store`` promises that it does not go on in both. For what must not happen twice and cannot be a step."""
    inline: bool
    """Run a function that is not async on the event loop: for one that never waits."""


class TemplateOptions(TypedDict, total=False):
    """Options of a resource template."""

    name: str
    title: str
    description: str
    mime_type: str
    """By default as the return annotation says: text or bytes."""
    annotations: Annotations
    icons: Sequence[Icon]
    meta: Meta
    inline: bool


class ResourceOptions(TemplateOptions, total=False):
    """Options of a resource."""

    size: int
    """Bytes."""


class PromptOptions(TypedDict, total=False):
    """Options of a prompt."""

    name: str
    title: str
    description: str
    icons: Sequence[Icon]
    meta: Meta
    inline: bool
