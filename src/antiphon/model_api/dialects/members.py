"""The members of a vendor's request: what becomes of each, and its value, checked for its type.

Requests are read by the tables in ``members.toml``, and the documentation's table is made from them. Each mistake in a
value is named by its place. The errors are written as each vendor writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

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


class _FailureTables(msgspec.Struct, frozen=True, kw_only=True):
    """See ``failures.toml``."""

    refused: dict[str, tuple[int, str]]
    openai: dict[int, str]
    anthropic: dict[int, str]


_FAILURES = msgspec.toml.decode(Path(__file__).with_name("failures.toml").read_bytes(), type=_FailureTables)


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
        status, message = _FAILURES.refused.get(reason, (403, "The request was refused."))
        code = "insufficient_quota" if reason == "budget" else f"refused_{reason.replace('-', '_')}"
        return Failure(status, code, message)
    return Failure(500, "host_failed", "The host could not answer the request.")


def openai_error(failure: Failure) -> bytes:
    """Write a failure as OpenAI does."""
    kind = _FAILURES.openai.get(failure.status, "invalid_request_error" if failure.status < 500 else "server_error")
    error = {
        "message": failure.message,
        "type": "insufficient_quota" if failure.code == "insufficient_quota" else kind,
        "param": failure.param,
        "code": failure.code,
    }
    return msgspec.json.encode({"error": error})


def anthropic_error(failure: Failure) -> bytes:
    """Write a failure as Anthropic does."""
    kind = _FAILURES.anthropic.get(failure.status, "invalid_request_error" if failure.status < 500 else "api_error")
    if failure.code == "insufficient_quota":
        kind = "billing_error"
    # Its errors have no member for the place, so the message begins with it.
    is_placed = failure.param is None or failure.message.startswith(failure.param)
    message = failure.message if is_placed else f"{failure.param}: {failure.message}"
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


class DialectMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The members of one request; see ``members.toml``."""

    carried: dict[str, str]
    noted: tuple[str, ...]
    refused: dict[str, str]
    harmless: dict[str, tuple[Any, ...]]


_TABLES = msgspec.toml.decode(Path(__file__).with_name("members.toml").read_bytes(), type=dict[str, DialectMembers])
CHAT, MESSAGES, RESPONSES = _TABLES["chat"], _TABLES["messages"], _TABLES["responses"]


def collect_unused_members(body: Mapping[str, Any], table: DialectMembers) -> tuple[str, ...]:
    """Return the names of members without effect, unknown ones too; raise ``Failure`` if a member is refused."""
    noted: list[str] = []
    for name, value in body.items():
        if value is None or name in table.carried:
            continue
        if name not in table.refused:
            noted.append(name[:_LONGEST])
        elif value not in table.harmless.get(name, ()):
            raise make_unusable_failure(name, f"not offered here: {table.refused[name]}")
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
