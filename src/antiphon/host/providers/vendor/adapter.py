"""``Vendor``: one configured model at one vendor, asked once per call.

Owns the client. Trying again and standing in are ``persistence``'s and ``host.models``'.
"""

from __future__ import annotations

from pydantic_ai.direct import model_request

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import Completion, ProviderFailure
from antiphon.host.providers.vendor.clients import connect
from antiphon.host.providers.vendor.failures import failure
from antiphon.host.providers.vendor.request import outgoing
from antiphon.host.providers.vendor.response import completion
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Vendor"]


class Vendor:
    """A model that can be asked."""

    def __init__(self, model: Model, key: str | None) -> None:
        """Make the client; nothing is sent.

        Raises:
            ConfigError: the provider is not known, or a package is missing.
        """
        self._model = model
        self._connected = connect(model, key)

    async def generate(self, params: CreateMessageRequestParams) -> Completion:
        """Ask once. Cancelling it closes the connection.

        Raises:
            ProviderFailure: of whatever kind; nothing in it came over the wire.
        """
        # Translated outside the boundary below, so that a mistake of ours is not taken for one of the vendor's.
        messages, settings, parameters, names = outgoing(params, self._model)
        try:
            response = await model_request(
                self._connected.model,
                messages,
                model_settings=settings,
                model_request_parameters=parameters,
                instrument=False,
            )
            return completion(response, params, self._model, names)
        except ProviderFailure:
            raise
        except Exception as error:
            # A boundary to code of others, whose errors quote what came over the wire: the cause is cut off.
            raise failure(error, self._model) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connected.aclose()
