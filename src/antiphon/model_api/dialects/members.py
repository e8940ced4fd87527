"""The members of a vendor's request: what becomes of each, and its value, checked for its type.

Requests are read by these tables, and the documentation's table is made from them. *Carried* members reach the model.
*Noted* members have no effect here: the person who reviews the request sees their names, and the response lists them in
the header ``antiphon-without-effect``. *Refused* members would change the answer, so a request with one fails. Each
mistake in a value is named by its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from antiphon.model_api.dialects.failures import Failure

__all__ = [
    "CHAT",
    "EMBEDDINGS",
    "MESSAGES",
    "RESPONSES",
    "Member",
    "arguments",
    "boolean",
    "items",
    "members",
    "noted_in",
    "number",
    "objects",
    "optional_text",
    "text",
    "unusable",
    "whole",
]

Fate = Literal["carried", "noted", "refused"]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a request."""

    name: str
    fate: Fate
    remark: str = ""
    """For people: how it is carried, or what to do instead."""
    harmless: tuple[Any, ...] = ()
    """Values of a refused member that are accepted, because they mean the same as leaving it out."""


def _carried(name: str, remark: str = "") -> Member:
    return Member(name=name, fate="carried", remark=remark)


def _noted(*names: str) -> tuple[Member, ...]:
    return tuple(Member(name=name, fate="noted") for name in names)


def _refused(name: str, remark: str, *harmless: Any) -> Member:
    return Member(name=name, fate="refused", remark=remark, harmless=harmless)


CHAT: tuple[Member, ...] = (
    _carried("messages", "text, images as data: URLs, audio, tool calls and their results; files are refused"),
    _carried("model", "as a hint: the host chooses"),
    _carried("max_completion_tokens", "4096 if absent"),
    _carried("max_tokens", "the older name of the same"),
    _carried("temperature"),
    _carried("stop"),
    _carried("n", "1 to 8; each choice is an ask of its own"),
    _carried("tools", "functions only"),
    _carried("tool_choice", "a single function: only that one is offered, and a tool must be used"),
    _carried("response_format", "a JSON schema: as a tool, or in words where no tools are offered"),
    _carried("stream"),
    _carried("stream_options", "include_usage"),
    *_noted(
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "logit_bias",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "metadata",
        "service_tier",
        "parallel_tool_calls",
        "reasoning_effort",
        "verbosity",
        "prediction",
    ),
    _refused("store", "nothing is kept for later", False),
    _refused("logprobs", "the host does not learn them", False),
    _refused("top_logprobs", "the host does not learn them", 0),
    _refused("modalities", "answers are text", ["text"]),
    _refused("audio", "answers are text"),
    _refused("web_search_options", "the host runs no tools"),
    _refused("moderation", "the host moderates nothing for the program"),
    _refused("functions", "use tools", []),
    _refused("function_call", "use tool_choice", "auto", "none"),
)
"""Members of ``POST /v1/chat/completions``."""

MESSAGES: tuple[Member, ...] = (
    _carried("messages", "text, images as base64, documents of text, tool uses and their results"),
    _carried("model", "as a hint: the host chooses"),
    _carried("max_tokens"),
    _carried("system"),
    _carried("temperature"),
    _carried("stop_sequences"),
    _carried("tools", "those with an input schema; tools of the vendor are refused"),
    _carried("tool_choice", "a single tool: only that one is offered, and a tool must be used"),
    _carried("output_config", "format with a JSON schema: as for chat completions; effort is noted"),
    _carried("output_format", "the older name of output_config.format"),
    _carried("stream"),
    *_noted(
        "top_p",
        "top_k",
        "metadata",
        "service_tier",
        "thinking",
        "cache_control",
        "inference_geo",
        "context_management",
        "speed",
        "workspace_id",
        "user_profile_id",
        "diagnostics",
    ),
    _refused("container", "the host runs no code"),
    _refused("mcp_servers", "the host connects to no servers for a request", []),
)
"""Members of ``POST /v1/messages``."""


RESPONSES: tuple[Member, ...] = (
    _carried("input", "text, images as data: URLs, function calls and their outputs; reasoning is passed over"),
    _carried("model", "as a hint: the host chooses"),
    _carried("instructions"),
    _carried("max_output_tokens", "4096 if absent"),
    _carried("temperature"),
    _carried("tools", "functions only"),
    _carried("tool_choice", "a single function: only that one is offered, and a tool must be used"),
    _carried("text", "format: as for chat completions; verbosity is noted"),
    _carried("stream"),
    *_noted(
        "store",
        "top_p",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "metadata",
        "service_tier",
        "parallel_tool_calls",
        "max_tool_calls",
        "reasoning",
        "include",
        "truncation",
        "stream_options",
        "context_management",
        "access_programs",
    ),
    _refused("previous_response_id", "nothing is kept: send the whole conversation"),
    _refused("conversation", "nothing is kept: send the whole conversation"),
    _refused("background", "a program waits for its answer", False),
    _refused("background_options", "a program waits for its answer"),
    _refused("prompt", "the host has no stored prompts"),
    _refused("top_logprobs", "the host does not learn them", 0),
    _refused("moderation", "the host moderates nothing for the program"),
    _refused("image", "answers are text"),
)
"""Members of ``POST /v1/responses``. Nothing is stored, whatever ``store`` says."""


EMBEDDINGS: tuple[Member, ...] = (
    _carried("input", "a text, or up to 2048 of them; lists of token ids are refused: they belong to one model"),
    _carried("model", "as a hint: the host chooses among the models that make embeddings"),
    _carried("dimensions", "passed on; a model that cannot do it fails"),
    _carried("encoding_format", "float or base64"),
    *_noted("user"),
)
"""Members of ``POST /v1/embeddings``."""


def noted_in(body: Mapping[str, Any], table: tuple[Member, ...]) -> tuple[str, ...]:
    """Return the names of the members that have no effect, including those that are not in the table.

    Raises:
        Failure: a member is refused.
    """
    known = {member.name: member for member in table}
    noted: list[str] = []
    for name, value in body.items():
        member = known.get(name)
        if value is None or (member is not None and member.fate == "carried"):
            continue
        if member is None or member.fate == "noted":
            noted.append(name[:_LONGEST])
        elif value not in member.harmless:
            raise unusable(name, f"not offered here: {member.remark}")
    return tuple(noted[:_MOST])


_LONGEST, _MOST = 64, 32
"""Most characters of a name, and most names, that are noted: more than any vendor's request has."""


def unusable(place: str, problem: str) -> Failure:
    """Make the error for a member that cannot be used."""
    return Failure(400, "invalid_request", f"{place}: {problem}", place)


def text(value: object, place: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise unusable(place, "must be a string")
    return value


def optional_text(value: object, place: str) -> str | None:
    """Return a text, or ``None`` for an absent one."""
    return None if value is None else text(value, place)


def whole(value: object, place: str, *, least: int = 1) -> int:
    """Return a whole number."""
    if type(value) is not int or value < least:
        raise unusable(place, f"must be an integer of at least {least}")
    return value


def number(value: object, place: str) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unusable(place, "must be a number")
    return value


def boolean(value: object, place: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise unusable(place, "must be true or false")
    return value


def items(value: object, place: str) -> list[Any]:
    """Return an array."""
    if not isinstance(value, list):
        raise unusable(place, "must be an array")
    return cast("list[Any]", value)


def members(value: object, place: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise unusable(place, "must be an object")
    return cast("dict[str, Any]", value)


def objects(value: object, place: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of an array, each with its place."""
    for at, each in enumerate(items(value, place)):
        yield members(each, f"{place}[{at}]"), f"{place}[{at}]"


def arguments(value: object, place: str) -> Mapping[str, Any]:
    """Return the arguments of a tool, which OpenAI writes as JSON in a string; none if the member is absent."""
    try:
        given: object = msgspec.json.decode(text(value or "{}", place))
    except (ValueError, RecursionError):
        raise unusable(place, "is not JSON") from None
    return members(given, place)
