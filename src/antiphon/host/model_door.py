"""The model API from the host's side: what it needs of a host, and what a server's process gets to use it.

Finds ``antiphon.model_api`` by its name when a host offers it, as ``review_page`` finds the page: nothing here imports
it, so that other hosts load none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from antiphon.host.providers.base import Completion
from antiphon.host.providers.vectors import Embedded
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.origin import Equipment, Origin
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["CompletingHost", "ModelApi", "model_api_over"]

_ENDPOINT = "antiphon.model_api.endpoint"


class CompletingHost(Protocol):
    """A host, as far as the model API needs it."""

    @property
    def capabilities(self) -> ClientCapabilities:
        """What it can answer."""
        ...

    async def answer(
        self,
        params: CreateMessageRequestParams,
        origin: Origin,
        flow: Callable[[str], object] | None = None,
    ) -> Completion:
        """Answer a request; see ``Host.answer``."""
        ...

    async def embed(
        self, texts: Sequence[str], origin: Origin, *, model: str = "", dimensions: int | None = None
    ) -> Embedded:
        """Make vectors of texts; see ``Host.embed``."""
        ...

    def model_names(self, origin: Origin) -> tuple[str, ...]:
        """Return the names under which a server may wish for a model."""
        ...

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """Record what became of an answer; see ``Host.handed_over``."""
        ...


class ModelApi(Protocol):
    """An endpoint on this machine that speaks as vendors do, and asks a host."""

    async def equip(self, origin: Callable[[], Origin]) -> Equipment:
        """Make the equipment of one server; ``origin`` makes the origin of an ask of that server."""
        ...

    async def aclose(self) -> None:
        """Close the endpoint, and withdraw the asks that wait."""
        ...


def model_api_over(host: CompletingHost) -> ModelApi:
    """Make the model API of a host. It begins to listen when the first server is equipped."""
    return cast("ModelApi", import_module(_ENDPOINT).ModelEndpoint(host))
