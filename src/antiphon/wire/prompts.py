"""Prompts: message templates a server offers to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from antiphon.wire.common import Icon, Meta, PaginatedResult, Result, Role, RoundParams, Wire
from antiphon.wire.content import ContentBlock, text_of


class PromptArgument(Wire, frozen=True, kw_only=True, gc=False):
    """An argument of a prompt: always text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Wire, frozen=True, kw_only=True):
    """Definition of a prompt."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: Sequence[PromptArgument] | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = field(name="_meta", default=None)


class PromptMessage(Wire, frozen=True, kw_only=True):
    """One message of a filled prompt."""

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """Its text; empty if it is something else."""
        return text_of([self.content])


class ListPromptsResult(PaginatedResult, frozen=True, kw_only=True):
    """Result of ``prompts/list``."""

    prompts: Sequence[Prompt]


class GetPromptRequestParams(RoundParams, frozen=True, kw_only=True):
    """Params of ``prompts/get``."""

    name: str
    arguments: Mapping[str, str] | None = None


class GetPromptResult(Result, frozen=True, kw_only=True):
    """Result of ``prompts/get``."""

    messages: Sequence[PromptMessage]
    description: str | None = None
