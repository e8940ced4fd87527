"""Why a request through the model API fails, in the shapes of error that the vendors' clients read.

They contain nothing of a provider, a key or a person's words. All of them tell the client not to repeat the request,
because a retry would ask a person again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

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
