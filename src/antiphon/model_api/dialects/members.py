"""The members of a vendor's request: what becomes of each, and its value, checked for its type.

Requests are read by these tables, and the documentation's table is made from them. *Carried* members reach the model.
*Noted* members have no effect here: the person who reviews the request sees their names, and the response lists them in
the header ``antiphon-without-effect``. *Refused* members would change the answer, so a request with one fails. Each
mistake in a value is named by its place. The errors are written as each vendor writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from antiphon.errors import InvalidParams, Rejected

NO_RETRY = (b"x-should-retry", b"false")
"""The vendors' clients repeat a request that failed with 408, 409, 429 or 5xx, unless the response has this header."""


class Failure(Exception):
    """A request that gets no answer. ``code`` is a short name for programs, ``param`` the member that is wrong."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param


_REFUSED: Mapping[str, tuple[int, str]] = {
    "user": (403, "A person refused this request."),
    "policy": (403, "The policy of this host refuses this request."),
    "no-reviewer": (403, "Nobody can be asked to allow this request."),
    "secret": (403, "The request or its answer holds what looks like a secret."),
    "changed": (403, "What was to be sent is not what was approved."),
    "expired": (408, "Nobody decided about this request in time."),
    "limit": (429, "A limit of this host is reached."),
    "budget": (429, "The request could cost more than is left of its budget."),
    "no-model": (404, "No model of this host may answer this request."),
}


def failure_of(error: BaseException) -> Failure:
    """Convert what a host raises."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, InvalidParams):
        data = cast("dict[str, object]", error.data) if isinstance(error.data, dict) else {}
        place = data.get("place")
        return Failure(400, "invalid_request", error.message, place if isinstance(place, str) else None)
    if isinstance(error, Rejected):
        data = cast("dict[str, object]", error.data) if isinstance(error.data, dict) else {}
        reason = str(data.get("reason", "user"))
        status, message = _REFUSED.get(reason, (403, "The request was refused."))
        code = "insufficient_quota" if reason == "budget" else f"refused_{reason.replace('-', '_')}"
        return Failure(status, code, message)
    return Failure(500, "host_failed", "The host could not answer the request.")


_OPENAI = {401: "authentication_error", 403: "permission_error", 408: "timeout_error", 429: "rate_limit_error"}


def openai_error(failure: Failure) -> bytes:
    """Write a failure as OpenAI does."""
    kind = _OPENAI.get(failure.status, "invalid_request_error" if failure.status < 500 else "server_error")
    error = {
        "message": failure.message,
        "type": "insufficient_quota" if failure.code == "insufficient_quota" else kind,
        "param": failure.param,
        "code": failure.code,
    }
    return msgspec.json.encode({"error": error})


_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def anthropic_error(failure: Failure) -> bytes:
    """Write a failure as Anthropic does."""
    kind = _ANTHROPIC.get(failure.status, "invalid_request_error" if failure.status < 500 else "api_error")
    if failure.code == "insufficient_quota":
        kind = "billing_error"
    # Its errors have no member for the place, so the message begins with it.
    is_placed = failure.param is None or failure.message.startswith(failure.param)
    message = failure.message if is_placed else f"{failure.param}: {failure.message}"
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


Fate = Literal["carried", "noted", "refused"]


class DialectMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a request."""

    name: str
    fate: Fate
    remark: str = ""
    """For people: how it is carried, or what to do instead."""
    harmless: tuple[Any, ...] = ()
    """Values of a refused member that are accepted, because they mean the same as leaving it out."""


def _carry_member(name: str, remark: str = "") -> DialectMember:
    return DialectMember(name=name, fate="carried", remark=remark)


def _note_members(*names: str) -> tuple[DialectMember, ...]:
    return tuple(DialectMember(name=name, fate="noted") for name in names)


def _refuse_member(name: str, remark: str, *harmless: Any) -> DialectMember:
    return DialectMember(name=name, fate="refused", remark=remark, harmless=harmless)


CHAT: tuple[DialectMember, ...] = (
    _carry_member("messages", "text, images as data: URLs, audio, tool calls and their results; files are refused"),
    _carry_member("model", "as a hint: the host chooses"),
    _carry_member("max_completion_tokens", "4096 if absent"),
    _carry_member("max_tokens", "the older name of the same"),
    _carry_member("temperature"),
    _carry_member("stop"),
    _carry_member("n", "1 to 8; each choice is an ask of its own"),
    _carry_member("tools", "functions only"),
    _carry_member("tool_choice", "a single function: only that one is offered, and a tool must be used"),
    _carry_member("response_format", "a JSON schema: as a tool, or in words where no tools are offered"),
    _carry_member("stream"),
    _carry_member("stream_options", "include_usage"),
    *_note_members("top_p", "frequency_penalty", "presence_penalty", "seed", "logit_bias"),
    *_note_members("user", "safety_identifier"),
    *_note_members("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    *_note_members("metadata", "service_tier", "parallel_tool_calls"),
    *_note_members("reasoning_effort", "verbosity", "prediction"),
    _refuse_member("store", "nothing is kept for later", False),
    _refuse_member("logprobs", "the host does not learn them", False),
    _refuse_member("top_logprobs", "the host does not learn them", 0),
    _refuse_member("modalities", "answers are text", ["text"]),
    _refuse_member("audio", "answers are text"),
    _refuse_member("web_search_options", "the host runs no tools"),
    _refuse_member("moderation", "the host moderates nothing for the program"),
    _refuse_member("functions", "use tools", []),
    _refuse_member("function_call", "use tool_choice", "auto", "none"),
)
"""Members of ``POST /v1/chat/completions``."""

MESSAGES: tuple[DialectMember, ...] = (
    _carry_member("messages", "text, images as base64, documents of text, tool uses and their results"),
    _carry_member("model", "as a hint: the host chooses"),
    _carry_member("max_tokens"),
    _carry_member("system"),
    _carry_member("temperature"),
    _carry_member("stop_sequences"),
    _carry_member("tools", "those with an input schema; tools of the vendor are refused"),
    _carry_member("tool_choice", "a single tool: only that one is offered, and a tool must be used"),
    _carry_member("output_config", "format with a JSON schema: as for chat completions; effort is noted"),
    _carry_member("output_format", "the older name of output_config.format"),
    _carry_member("stream"),
    *_note_members("top_p", "top_k", "metadata", "service_tier", "thinking", "cache_control", "inference_geo"),
    *_note_members("context_management", "speed", "workspace_id", "user_profile_id", "diagnostics"),
    _refuse_member("container", "the host runs no code"),
    _refuse_member("mcp_servers", "the host connects to no servers for a request", []),
)
"""Members of ``POST /v1/messages``."""


RESPONSES: tuple[DialectMember, ...] = (
    _carry_member("input", "text, images as data: URLs, function calls and their outputs; reasoning is passed over"),
    _carry_member("model", "as a hint: the host chooses"),
    _carry_member("instructions"),
    _carry_member("max_output_tokens", "4096 if absent"),
    _carry_member("temperature"),
    _carry_member("tools", "functions only"),
    _carry_member("tool_choice", "a single function: only that one is offered, and a tool must be used"),
    _carry_member("text", "format: as for chat completions; verbosity is noted"),
    _carry_member("stream"),
    *_note_members("store", "top_p", "user", "safety_identifier"),
    *_note_members("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    *_note_members("metadata", "service_tier", "parallel_tool_calls", "max_tool_calls"),
    *_note_members("reasoning", "include", "truncation", "stream_options", "context_management", "access_programs"),
    _refuse_member("previous_response_id", "nothing is kept: send the whole conversation"),
    _refuse_member("conversation", "nothing is kept: send the whole conversation"),
    _refuse_member("background", "a program waits for its answer", False),
    _refuse_member("background_options", "a program waits for its answer"),
    _refuse_member("prompt", "the host has no stored prompts"),
    _refuse_member("top_logprobs", "the host does not learn them", 0),
    _refuse_member("moderation", "the host moderates nothing for the program"),
    _refuse_member("image", "answers are text"),
)
"""Members of ``POST /v1/responses``. Nothing is stored, whatever ``store`` says."""


def collect_unused_members(body: Mapping[str, Any], table: tuple[DialectMember, ...]) -> tuple[str, ...]:
    """Return the names of members without effect, unknown ones too; raise ``Failure`` if a member is refused."""
    known = {member.name: member for member in table}
    noted: list[str] = []
    for name, value in body.items():
        member = known.get(name)
        if value is None or (member is not None and member.fate == "carried"):
            continue
        if member is None or member.fate == "noted":
            noted.append(name[:_LONGEST])
        elif value not in member.harmless:
            raise make_unusable_failure(name, f"not offered here: {member.remark}")
    return tuple(noted[:_MOST])


_LONGEST, _MOST = 64, 32
"""Most characters of a name, and most names, that are noted: more than any vendor's request has."""


def make_unusable_failure(place: str, problem: str) -> Failure:
    """Make the error for a member that cannot be used."""
    return Failure(400, "invalid_request", f"{place}: {problem}", place)


def read_text(value: object, place: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise make_unusable_failure(place, "must be a string")
    return value


def optional_text(value: object, place: str) -> str | None:
    """Return a text, or ``None`` for an absent one."""
    return None if value is None else read_text(value, place)


def read_whole_number(value: object, place: str, *, least: int = 1) -> int:
    """Return a whole number."""
    if type(value) is not int or value < least:
        raise make_unusable_failure(place, f"must be an integer of at least {least}")
    return value


def read_number(value: object, place: str) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_unusable_failure(place, "must be a number")
    return value


def read_boolean(value: object, place: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise make_unusable_failure(place, "must be true or false")
    return value


def read_items(value: object, place: str) -> list[Any]:
    """Return an array."""
    if not isinstance(value, list):
        raise make_unusable_failure(place, "must be an array")
    return cast("list[Any]", value)


def read_members(value: object, place: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise make_unusable_failure(place, "must be an object")
    return cast("dict[str, Any]", value)


def read_objects(value: object, place: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of an array, each with its place."""
    for at, each in enumerate(read_items(value, place)):
        yield read_members(each, f"{place}[{at}]"), f"{place}[{at}]"


def read_arguments(value: object, place: str) -> Mapping[str, Any]:
    """Return the arguments of a tool, which OpenAI writes as JSON in a string; none if the member is absent."""
    try:
        given: object = msgspec.json.decode(read_text(value or "{}", place))
    except (ValueError, RecursionError):
        raise make_unusable_failure(place, "is not JSON") from None
    return read_members(given, place)
