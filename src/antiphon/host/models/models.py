"""``Models``: all of a user's models as one provider. ``select_model`` chooses one for each request.

Owns the vendors' clients, which are made on first use or by ``warm``, and the change to a fallback when a model fails.
Vendors' libraries are not imported before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.select import select_model
from antiphon.host.models.selection import Selection, needs_of
from antiphon.host.providers.base import Completion, Growth, ProviderFailure, Usage, find_key, missing_key
from antiphon.host.providers.offline import Echo
from antiphon.host.providers.persistence import RetryPatience, may_stand_in, retry_patiently
from antiphon.host.providers.vectors import Embedded, EmbeddingParams, join_portions
from antiphon.machine.public_names import describe_install
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

if TYPE_CHECKING:
    from antiphon.host.providers.vendor.adapter import Vendor

_AT_ONCE = 64
"""Texts in one call for vectors: its answer is decoded in the event loop, which takes some milliseconds."""


class Models:
    """The provider that is a catalogue of models."""

    personal = False

    def __init__(
        self,
        catalogue: ModelCatalogue,
        environ: Mapping[str, str],
        *,
        patience: RetryPatience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the models; open nothing. Keys are in ``environ``; an empty catalogue raises ``ConfigError``."""
        if not len(catalogue):
            raise ConfigError("there is no model: name one in antiphon.toml")
        self.catalogue = catalogue
        self._environ = environ
        self._patience = patience or RetryPatience()
        self._sleep = sleep
        self._vendors: dict[str, Vendor] = {}

    @property
    def name(self) -> str:
        """The name of the model that answers if nothing favours another one."""
        first = min(self.catalogue, key=lambda model: bool(model.embeddings))
        return self.catalogue.default or first.name

    @property
    def tools(self) -> bool:
        """Whether any of the models can use tools."""
        return any(model.tools for model in self.catalogue)

    def select(
        self, params: CreateMessageRequestParams, *, allowed: Collection[str] | None = None, left: Decimal | None = None
    ) -> Selection:
        """Choose one of the models whose API key is there; see ``host.models.select``."""
        missing = {model.name: missing_key(model, self._environ) or _missing_package(model) for model in self.catalogue}
        unavailable = {name: reason for name, reason in missing.items() if reason}
        wishes = params.model_preferences
        return select_model(
            needs_of(params), wishes, self.catalogue, allowed=allowed, left=left, unavailable=unavailable
        )

    def cost(self, name: str, usage: Usage) -> Decimal | None:
        """Return the cost of a completion in dollars; ``None`` if the model's price is not known."""
        price = self.catalogue.get(name).price
        return price.cost(usage.input_tokens, usage.output_tokens) if price else None

    async def warm(self, model: str | None = None) -> None:
        """Load what a model needs and make its client, so that its first completion need not wait for that.

        Best called while a person reviews: a vendor's libraries take a second or two to load. May be repeated. Raises
        ``ConfigError`` if a package is missing or the provider is unknown.
        """
        chosen = self.catalogue.get(model or self.name)
        if chosen.provider != Echo.name:
            await self._vendor(chosen)

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Complete with the named model, or with one chosen here. See ``generate``."""
        return (await self.generate(params, model=model)).result

    async def generate(
        self,
        params: CreateMessageRequestParams,
        *,
        model: str | None = None,
        fallbacks: tuple[str, ...] = (),
        growth: Growth | None = None,
    ) -> Completion:
        """Complete, and return the usage as well. Retries, then tries the fallbacks; cancelling stops it at once.

        Without ``model`` one is chosen here, without an allowlist or a budget. Raises the last ``ProviderFailure`` if
        all attempts failed, and ``ConfigError`` if there is no such model, or a package for it is missing.
        """
        if model is None:
            selection = self.select(params)
            if selection.winner is None:
                raise ProviderFailure("unsupported", f"none of the models can answer: {selection.why_none}")
            model, fallbacks = selection.winner, selection.fallbacks
        try:
            async with asyncio.timeout(self._patience.deadline):
                return await self._in_turn(params, (model, *fallbacks), growth)
        except TimeoutError:
            raise ProviderFailure("timeout", f"{model}: no answer in {self._patience.deadline} seconds") from None

    async def stream(
        self,
        params: CreateMessageRequestParams,
        growth: Growth,
        *,
        model: str | None = None,
        fallbacks: tuple[str, ...] = (),
    ) -> Completion:
        """Complete as ``generate`` does, while ``growth`` receives the text if the model's service can stream it."""
        return await self.generate(params, model=model, fallbacks=fallbacks, growth=growth)

    async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
        """Make the vectors of some texts. Chooses, retries and fails as ``generate`` does, and has no fallback."""
        if model is None:
            selection = self.select(params)
            if selection.winner is None:
                raise ProviderFailure("unsupported", selection.why_none)
            model = selection.winner
        chosen = self.catalogue.get(model)
        if chosen.provider == Echo.name:
            return msgspec.structs.replace(await Echo().embed(params), usage=Usage())
        vendor = await self._vendor(chosen)
        try:
            async with asyncio.timeout(self._patience.deadline):
                return await self._in_portions(vendor, params)
        except TimeoutError:
            raise ProviderFailure("timeout", f"{model}: no vectors in {self._patience.deadline} seconds") from None

    async def aclose(self) -> None:
        """Close all connections."""
        vendors = list(self._vendors.values())
        self._vendors.clear()
        for vendor in vendors:
            await vendor.aclose()

    async def _in_portions(self, vendor: Vendor, params: EmbeddingParams) -> Embedded:
        made: list[Embedded] = []
        for some in params.portions(_AT_ONCE):
            try:
                made.append(await retry_patiently(partial(vendor.embed, some), self._patience, sleep=self._sleep))
            except ProviderFailure as failed:
                # The portions before this one were charged.
                failed.charged = failed.charged or bool(made)
                raise
        return join_portions(made)

    async def _in_turn(
        self, params: CreateMessageRequestParams, names: tuple[str, ...], growth: Growth | None
    ) -> Completion:
        last = len(names) - 1
        for at, name in enumerate(names):
            model = self.catalogue.get(name)
            try:
                return await retry_patiently(
                    partial(self._once, params, model, growth), self._patience, sleep=self._sleep
                )
            except ProviderFailure as failure:
                if at == last or not may_stand_in(failure):
                    raise
        raise AssertionError("there is at least one name")

    async def _once(self, params: CreateMessageRequestParams, model: Model, growth: Growth | None) -> Completion:
        if growth is not None:
            growth.begin(model.name)
        if model.provider == Echo.name:
            return Completion(result=await Echo().complete(params), usage=Usage(), by=model.name)
        return await (await self._vendor(model)).generate(params, growth if model.stream else None)

    async def _vendor(self, model: Model) -> Vendor:
        if model.name not in self._vendors:
            # In a thread, because the import takes long enough to delay other tasks on this loop.
            adapter = await asyncio.to_thread(_import_adapter, model)
            made = await asyncio.to_thread(adapter, model, find_key(model, self._environ))
            # Another task may have made one while we waited; either will do.
            self._vendors.setdefault(model.name, made)
        return self._vendors[model.name]


def _missing_package(model: Model) -> str | None:
    """Return a message if a package that a vendor's model needs is not installed, else ``None``."""
    if model.provider == Echo.name or find_spec("pydantic_ai") is not None:
        return None
    return f"models of vendors need more packages: {describe_install('host')}"


def _import_adapter(model: Model) -> type[Vendor]:
    """Import the adapter, which imports all vendors' libraries."""
    if (missing := _missing_package(model)) is not None:
        raise ConfigError(missing)
    from antiphon.host.providers.vendor.adapter import Vendor

    return Vendor
