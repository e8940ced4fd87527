"""Completion of arguments while a person types them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.wire.common import RequestParams, Result, Wire

MAX_VALUES = 100
"""Most values in one completion (server/utilities/completion: "must not exceed 100 items")."""


class PromptReference(Wire, frozen=True, kw_only=True, tag_field="type", tag="ref/prompt", gc=False):
    """The prompt whose argument is being typed."""

    name: str
    title: str | None = None


class ResourceTemplateReference(Wire, frozen=True, kw_only=True, tag_field="type", tag="ref/resource", gc=False):
    """The resource template whose variable is being typed (``ResourceReference`` before 2025-06-18)."""

    uri: str


class CompletionArgument(Wire, frozen=True, kw_only=True, gc=False):
    """The argument, and what has been typed of it."""

    name: str
    value: str


class CompletionContext(Wire, frozen=True, kw_only=True):
    """Values of other arguments that are already known (from 2025-06-18)."""

    arguments: Mapping[str, str] | None = None


class CompleteRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``completion/complete``."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Wire, frozen=True, kw_only=True):
    """Matching values, the best first, at most ``MAX_VALUES``; ``total`` also counts those left out."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, frozen=True, kw_only=True):
    """Result of ``completion/complete``."""

    completion: Completion
