"""The client: calls to a server, and answers to what it asks, on every revision.

Lists what programs may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.client.answers.answerers import (
        Elicitor as Elicitor,
        Extension as Extension,
        OnRound as OnRound,
        Roots as Roots,
        Sampler as Sampler,
    )
    from antiphon.client.by_hand import BY_HAND as BY_HAND, Rounds as Rounds
    from antiphon.client.client import Client as Client, OnProgress as OnProgress
    from antiphon.client.connection.targets import Serves as Serves, Target as Target
    from antiphon.client.client_middleware import (
        ClientMiddleware as ClientMiddleware,
        ClientNext as ClientNext,
        ClientRequest as ClientRequest,
    )
    from antiphon.client.notifications import Change as Change, Listening as Listening
    from antiphon.client.rounds.loop import RoundLimits as RoundLimits
    from antiphon.client.rounds.loop import Ask as Ask, PendingRound as PendingRound
    from antiphon.client.task import TaskHandle as TaskHandle, TaskUpdate as TaskUpdate
    from antiphon.client.tool_calls import Confirmer as Confirmer, Confirming as Confirming
else:
    _HOMES = {
        "antiphon.client.answers.answerers": "Elicitor Extension OnRound Roots Sampler",
        "antiphon.client.by_hand": "BY_HAND Rounds",
        "antiphon.client.client": "Client OnProgress",
        "antiphon.client.connection.targets": "Serves Target",
        "antiphon.client.client_middleware": "ClientMiddleware ClientNext ClientRequest",
        "antiphon.client.notifications": "Change Listening",
        "antiphon.client.rounds.loop": "Ask PendingRound RoundLimits",
        "antiphon.client.task": "TaskHandle TaskUpdate",
        "antiphon.client.tool_calls": "Confirmer Confirming",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
