"""What an ask has to be before an answerer sees it: the protocol's rules, and bounds that hold for every answerer.

Pure. Whether the client offers what is asked is the session's to say; what a person or a policy makes of it is decided
by the answerer: a ``Host`` looks much closer. Sources: 2025-11-25 client/sampling, client/elicitation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from msgspec import structs

from antiphon.errors import InvalidParams
from antiphon.wire.common import Wire
from antiphon.wire.conversation import check_conversation
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["admit"]

MAX_MESSAGES = 1_000
"""Messages in one request. A long tool loop has some hundred."""

MAX_BLOCKS = 1_000
"""Blocks in one message."""

MAX_TOOLS = 256
"""Tools in one request; vendors take 128."""

MAX_LIST = 256
"""Model hints, and stop sequences, in one request."""

MAX_TOKENS = 128 * 1024
"""Most tokens an answerer is asked for. No model of 2026 answers with more, and whoever asks for more means "all"."""

MAX_FORM = 256 * 1024
"""Bytes of an elicitation: its message, its form or its address."""


def admit(params: Wire, *, offers_context: bool = False) -> Wire:
    """Check an ask, and return it as an answerer may see it.

    A ``maxTokens`` above ``MAX_TOKENS`` becomes that, which the specification leaves to the client; an
    ``includeContext`` that was not offered is dropped.

    Raises:
        InvalidParams: the place is named, in the message and as ``data.place``.
    """
    if isinstance(params, CreateMessageRequestParams):
        _check_sampling(params)
        check_conversation(params.messages)
        return _cut_back(params, offers_context)
    if isinstance(params, ElicitRequestParams) and len(encode(params)) > MAX_FORM:
        _refuse("params", f"more than {MAX_FORM} bytes")
    return params


def _refuse(place: str, problem: str) -> NoReturn:
    raise InvalidParams(f"{place}: {problem}", data={"place": place})


def _check_sampling(params: CreateMessageRequestParams) -> None:
    if not params.messages:
        _refuse("messages", "empty")
    if params.max_tokens < 1:
        _refuse("maxTokens", "must be at least 1")
    hints = params.model_preferences.hints if params.model_preferences is not None else None
    _check_count("messages", params.messages, MAX_MESSAGES)
    _check_count("tools", params.tools, MAX_TOOLS)
    _check_count("stopSequences", params.stop_sequences, MAX_LIST)
    _check_count("modelPreferences.hints", hints, MAX_LIST)
    for at, message in enumerate(params.messages):
        if len(message.blocks) > MAX_BLOCKS:
            _refuse(f"messages[{at}].content", f"more than {MAX_BLOCKS} blocks")


def _check_count(place: str, items: Sequence[object] | None, most: int) -> None:
    if items is not None and len(items) > most:
        _refuse(place, f"more than {most} items")


def _cut_back(params: CreateMessageRequestParams, offers_context: bool) -> CreateMessageRequestParams:
    if params.max_tokens > MAX_TOKENS:
        # "The client MAY choose to sample fewer tokens than the requested maximum."
        params = structs.replace(params, max_tokens=MAX_TOKENS)
    wants_context = params.include_context is not None and params.include_context != "none"
    if wants_context and not offers_context:
        params = structs.replace(params, include_context=None)
    return params
