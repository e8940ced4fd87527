"""Elicitation from a handler: make a form from a type, and a value of that type from the user's answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, Literal

from antiphon.errors import RemoteProtocolError, TooCostly
from antiphon.machine.other_frameworks import explain_other_names
from antiphon.server.asks.forms import Form
from antiphon.server.calls.call import Call
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Elicited", "elicit_form", "elicit_visit"]


@explain_other_names
class Elicited(Generic[T]):
    """What the user did with a question; the type parameter is the type that was asked for.

    Args:
        action: ``accept``, ``decline`` (the user refused) or ``cancel`` (the user closed the question).
        value: the values of the form, in the type that was asked for; ``None`` unless it was accepted.
    """

    __slots__ = ("action", "value")

    def __init__(self, action: Literal["accept", "decline", "cancel"], value: T | None) -> None:
        self.action: Literal["accept", "decline", "cancel"] = action
        """``accept``, ``decline`` (the user refused) or ``cancel`` (the user closed the question)."""
        self.value: T | None = value
        """The values of the form, in the type that was asked for; ``None`` unless it was accepted."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"

    def __repr__(self) -> str:
        return f"Elicited(action={self.action!r}, value={self.value!r})"


async def elicit_form(
    call: Call, message: str, form: object, *, key: str | None, timeout: float | None
) -> Elicited[Any]:
    """Ask the user to fill in a form. See ``Context.elicit``."""
    asked = Form.of(form)
    params = ElicitRequestParams.form(message, asked.schema)
    result = await call.ask("elicitation/create", params, ElicitResult, key=key, timeout=timeout)
    if result.action != "accept":
        return Elicited(result.action, None)
    try:
        return Elicited("accept", await asked.read(result.content or {}))
    except (ValueError, TooCostly) as error:
        raise RemoteProtocolError(f"The client's answer does not fit the form: {error}") from None


async def elicit_visit(call: Call, message: str, url: str, *, key: str | None, timeout: float | None) -> Elicited[None]:
    """Ask the user to visit an address. See ``Context.elicit_url``."""
    # 2025-11-25 client/elicitation: each visit has a unique elicitationId; revisions without that member leave it
    # out.
    params = ElicitRequestParams.visit(message, url, elicitation_id=os.urandom(16).hex())
    result = await call.ask("elicitation/create", params, ElicitResult, key=key, timeout=timeout)
    return Elicited(result.action, None)
