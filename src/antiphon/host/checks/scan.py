"""Examines all text of a request: on the event loop if it is small, else in a side process.

Owns the limit between the two. ``risk`` and ``redact`` do the examining.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.host.checks.redact import Asked, has_secrets, masked, masked_json
from antiphon.host.checks.risk import Risk, assess, assess_elicitation, assess_tool
from antiphon.machine.side_process.pool import run_aside
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["MAX_HERE", "MAX_SECONDS", "cleaned", "kept_json", "risks_of"]

MAX_HERE = 64 * 1024
"""Most bytes of a message that is examined on the event loop: 5 ms at worst."""
_PATTERNS = 8
"""How many times longer a byte of a tool's definition takes, because it is also searched for orders to the model."""
MAX_SECONDS = 10.0
"""Seconds of processor time for one message in a side process; the largest possible takes three."""


class _Case(msgspec.Struct):
    """What is examined, as sent to a side process."""

    origin: Origin
    sampling: CreateMessageRequestParams | None = None
    result: CreateMessageResult | None = None
    elicitation: ElicitRequestParams | None = None
    tool: CallToolRequestParams | None = None


async def risks_of(
    params: CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams,
    origin: Origin,
    result: CreateMessageResult | None = None,
) -> tuple[Risk, ...]:
    """List the risks of a message, or of the ``result`` that would answer it, warnings first.

    Raises:
        TooCostly: examining it would exceed the limits of time or memory.
    """
    if isinstance(params, CreateMessageRequestParams):
        case = _Case(origin, sampling=params, result=result)
    elif isinstance(params, ElicitRequestParams):
        case = _Case(origin, elicitation=params)
    else:
        case = _Case(origin, tool=params)
    size = len(encode(params if result is None else result))
    if case.tool is not None and origin.tool is not None:
        size += _PATTERNS * len(encode(origin.tool))
    if size <= MAX_HERE:
        return _risks(case)
    return msgspec.json.decode(await _aside(assess_document, case), type=tuple[Risk, ...])


async def cleaned(asked: Asked) -> Asked | None:
    """Return a request or an answer with all secrets masked; ``None`` if it contains none.

    Raises:
        TooCostly: examining it would exceed the limits of time or memory.
    """
    if len(encode(asked)) <= MAX_HERE:
        return masked(asked) if has_secrets(asked) else None
    job = mask_request if isinstance(asked, CreateMessageRequestParams) else mask_result
    answer = await _aside(job, asked)
    return msgspec.json.decode(answer, type=type(asked)) if answer else None


async def kept_json(value: msgspec.Struct) -> str:
    """Return a message as JSON with all secrets in its texts masked.

    Raises:
        TooCostly: examining it would exceed the limits of time or memory.
    """
    if len(encode(value)) <= MAX_HERE:
        return masked_json(value)
    if isinstance(value, CreateMessageRequestParams):
        return encode(await cleaned(value) or value).decode()
    if isinstance(value, CreateMessageResult):
        return encode(await cleaned(value) or value).decode()
    return (await _aside(mask_document, value)).decode()


async def _aside(job: Callable[[bytes], bytes], value: msgspec.Struct) -> bytes:
    return await run_aside(job, encode(value), seconds=MAX_SECONDS)


def assess_document(payload: bytes) -> bytes:
    """Find risks, in a side process."""
    return encode(_risks(msgspec.json.decode(payload, type=_Case)))


def mask_request(payload: bytes) -> bytes:
    """Mask the secrets of a request, in a side process; returns nothing if there are none."""
    return _masked(msgspec.json.decode(payload, type=CreateMessageRequestParams))


def mask_result(payload: bytes) -> bytes:
    """Mask the secrets of an answer, in a side process; returns nothing if there are none."""
    return _masked(msgspec.json.decode(payload, type=CreateMessageResult))


def mask_document(payload: bytes) -> bytes:
    """Mask the secrets of any message, in a side process."""
    return masked_json(msgspec.Raw(payload)).encode()


def _masked(asked: CreateMessageRequestParams | CreateMessageResult) -> bytes:
    return masked_json(asked).encode() if has_secrets(asked) else b""


def _risks(case: _Case) -> tuple[Risk, ...]:
    if case.sampling is not None:
        return tuple(assess(case.sampling, case.origin, case.result))
    if case.elicitation is not None:
        return tuple(assess_elicitation(case.elicitation, case.origin))
    return () if case.tool is None else tuple(assess_tool(case.tool, case.origin))
