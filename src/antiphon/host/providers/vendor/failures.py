"""Errors of vendors as failures in our own words.

Vendors put requests, addresses and sometimes a key into the text of an error. None of this is passed on: only the kind,
the HTTP status, and the code if that is a plain word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
from pydantic_ai import exceptions as theirs

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import FailureKind, ProviderFailure

__all__ = ["failure"]

# The first match counts; each entry is more specific than those below it.
_KINDS: tuple[tuple[type[BaseException], FailureKind, str], ...] = (
    (theirs.ModelRateLimitError, "rate-limit", "too many requests"),
    (theirs.ModelQuotaExceededError, "quota", "the account has no quota or credit left"),
    (theirs.ModelUnavailableError, "unavailable", "the service is not available"),
    (theirs.ModelServerError, "unavailable", "the service failed"),
    (theirs.ModelTimeoutError, "timeout", "no answer in time"),
    (theirs.ModelRequestTimeout, "timeout", "no answer in time"),
    (theirs.ModelConnectionError, "connection", "the connection failed"),
    (theirs.ModelAuthenticationError, "auth", "the key was not accepted"),
    (theirs.ModelNotFoundError, "not-found", "there is no such model, or the address is wrong"),
    (theirs.ModelContextWindowExceededError, "context", "the request is too large for the model"),
    (theirs.ModelRequestRejectedError, "rejected", "the service did not take the request"),
    (theirs.ContentFilterError, "refused", "the model, or a filter around it, refused"),
    (theirs.UnexpectedModelBehavior, "invalid", "the answer cannot be used"),
    (theirs.UserError, "unsupported", "the model cannot be asked this"),
    (NotImplementedError, "unsupported", "the model cannot be asked this"),
    (TimeoutError, "timeout", "no answer in time"),
    (OSError, "connection", "the connection failed"),
)
_STATUS: dict[int, FailureKind] = {408: "timeout", 429: "rate-limit", 401: "auth", 403: "auth", 404: "not-found"}
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, ConnectionRefusedError)
_PLAIN_WORD = re.compile(r"[a-z]+(?:_[a-z]+){0,4}")
"""Matches ``insufficient_quota``, but nothing with the digits, capitals or hyphens of a key."""
_LONGEST_WORD = 48


def failure(error: BaseException, model: Model) -> ProviderFailure:
    """Convert an exception of a vendor's library to our failure."""
    for kind, name, meaning in _KINDS:
        if isinstance(error, kind):
            return _made(name, meaning, error, model)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        kind = _STATUS.get(status, "unavailable" if status >= 500 else "rejected")
        return _made(kind, "the service answered with an error", error, model)
    return _made("invalid", "the answer cannot be used", error, model)


def _made(kind: FailureKind, meaning: str, error: BaseException, model: Model) -> ProviderFailure:
    after: object = getattr(error, "retry_after", None)
    status: object = getattr(error, "status_code", None)
    # A vendor that answered with an error, or was never reached, has not let a model work.
    unworked = isinstance(status, int) or any(isinstance(one, _UNREACHED) for one in _causes(error))
    details = [f"HTTP {status}"] if isinstance(status, int) else []
    words = (_word(error, name) for name in ("provider_error_type", "provider_error_code"))
    details += [word for word in words if word]
    told = f" ({', '.join(dict.fromkeys(details))})" if details else ""
    return ProviderFailure(
        kind,
        f"{model.name} at {model.provider}: {meaning}{told}",
        retry_after=float(after) if isinstance(after, int | float) else None,
        charged=False if unworked else None,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; a limited number of steps, since a chain may be a cycle."""
    at: BaseException | None = error
    for _ in range(10):
        if at is None:
            return
        yield at
        at = at.__cause__ or at.__context__


def _word(error: BaseException, name: str) -> str | None:
    word: object = getattr(error, name, None)
    is_plain = isinstance(word, str) and len(word) <= _LONGEST_WORD and _PLAIN_WORD.fullmatch(word)
    return word if is_plain and isinstance(word, str) else None
