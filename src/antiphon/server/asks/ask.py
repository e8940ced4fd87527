"""One way to ask the client: checked before it is sent, put as the era wants, decoded when it comes back."""

from __future__ import annotations

import logging
from typing import Any, TypeVar, cast

from antiphon.errors import (
    ElicitationUnavailable,
    LocalProtocolError,
    MissingCapability,
    SamplingUnavailable,
)
from antiphon.server.calls.call import Call
from antiphon.wire.common import Wire
from antiphon.wire.methods import METHODS

__all__ = ["ask"]

log = logging.getLogger("antiphon.server")

R = TypeVar("R", bound=Wire)

_UNAVAILABLE: dict[str, type[MissingCapability]] = {
    "sampling/createMessage": SamplingUnavailable,
    "elicitation/create": ElicitationUnavailable,
}


async def ask(
    call: Call, method: str, params: Wire, result: type[R], *, key: str | None = None, timeout: float | None = None
) -> R:
    """Ask the client and wait for its answer, however long a person thinks.

    ``key`` names the ask on the wire where it travels in rounds. ``timeout`` is in seconds; ``None`` waits as long as
    the call lives.

    Raises:
        SamplingUnavailable, ElicitationUnavailable, MissingCapability: the client did not declare it; nothing was sent.
        NotInRevision: the client's revision has no such ask, or cannot carry it; nothing was sent.
        Rejected, PeerError: the client answered with an error.
        CallTimeout: no answer came in time.
        RemoteProtocolError: the answer cannot be read.
    """
    if key is not None and (key.__class__ is not str or not key):
        # Answers come back by it: any other would be asked for again and again.
        raise LocalProtocolError(f"key= of {method} must be a text that is not empty, got {key!r}")
    spec = METHODS[method]
    session, facts = call.connection.session, call.facts
    try:
        lowered = session.check_ask(spec, params, facts)
    except MissingCapability as error:
        kind = _UNAVAILABLE.get(method, MissingCapability)
        raise kind(f"The client does not offer {_named(error.data)}, which {method} needs", data=error.data) from None
    notice = session.deprecation(spec, facts.revision)
    if notice is not None:
        log.info("%s", notice)
    answer = await call.ask(spec, lowered, key, timeout)
    assert isinstance(answer, result)
    return answer


def _named(data: Any) -> str:
    """Name what is missing as clients declare it: ``sampling.tools``."""
    names: list[str] = []
    node: Any = data["requiredCapabilities"]
    while isinstance(node, dict) and node:
        name, node = next(iter(cast("dict[str, Any]", node).items()))
        names.append(name)
    return ".".join(names)
