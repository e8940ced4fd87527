"""The model API from the host's side: what a server's process gets to use it.

Finds ``antiphon.model_api`` by its name when a host offers it, as ``review_page`` finds the page: nothing here imports
it, so that other hosts load none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from antiphon.wire.origin import Equipment, Origin

_ENDPOINT = "antiphon.model_api.endpoint"


class ModelApi(Protocol):
    """An endpoint on this machine that speaks as vendors do, and asks a host."""

    async def equip(self, origin: Callable[[], Origin]) -> Equipment:
        """Make the equipment of one server; ``origin`` makes the origin of an ask of that server."""
        ...

    async def aclose(self) -> None:
        """Close the endpoint, and withdraw the asks that wait."""
        ...


def model_api_over(host: object) -> ModelApi:
    """Make the model API of a ``Host``. It begins to listen when the first server is equipped."""
    return cast("ModelApi", import_module(_ENDPOINT).ModelEndpoint(host))
