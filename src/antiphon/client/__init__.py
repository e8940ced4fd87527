"""The client: calls to a server, and answers to what it asks, on every revision.

Lists what programs may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it
if TYPE_CHECKING:
    from antiphon.client.answers.answerers import Elicitor, Extension, OnRound, Roots, Sampler
    from antiphon.client.by_hand import BY_HAND, Rounds
    from antiphon.client.client import Client, OnProgress
    from antiphon.client.connection.targets import Serves, Target
    from antiphon.client.middleware import ClientMiddleware, ClientNext, ClientRequest
    from antiphon.client.notifications import Change, Listening
    from antiphon.client.rounds.loop import RoundLimits
    from antiphon.client.rounds.pending import Ask, PendingRound
    from antiphon.client.task import TaskHandle, TaskUpdate
    from antiphon.client.tool_calls import Confirmer, Confirming

__all__ = [
    "BY_HAND",
    "Ask",
    "Change",
    "Client",
    "ClientMiddleware",
    "ClientNext",
    "ClientRequest",
    "Confirmer",
    "Confirming",
    "Elicitor",
    "Extension",
    "Listening",
    "OnProgress",
    "OnRound",
    "PendingRound",
    "Roots",
    "RoundLimits",
    "Rounds",
    "Sampler",
    "Serves",
    "Target",
    "TaskHandle",
    "TaskUpdate",
]

_HOMES = {
    "Ask": "rounds.pending",
    "BY_HAND": "by_hand",
    "Change": "notifications",
    "Client": "client",
    "ClientMiddleware": "middleware",
    "ClientNext": "middleware",
    "ClientRequest": "middleware",
    "Confirmer": "tool_calls",
    "Confirming": "tool_calls",
    "Elicitor": "answers.answerers",
    "Extension": "answers.answerers",
    "Listening": "notifications",
    "OnProgress": "client",
    "OnRound": "answers.answerers",
    "PendingRound": "rounds.pending",
    "Roots": "answers.answerers",
    "RoundLimits": "rounds.loop",
    "Rounds": "by_hand",
    "Sampler": "answers.answerers",
    "Serves": "connection.targets",
    "Target": "connection.targets",
    "TaskHandle": "task",
    "TaskUpdate": "task",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'antiphon.client' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"antiphon.client.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
