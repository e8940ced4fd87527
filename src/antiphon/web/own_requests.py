"""A person's own requests: those that are being answered, and the latest answers.

Owns this memory and its bounds. Answers are only for the page and end with its process; the audit records these
requests like any others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from antiphon.errors import AntiphonError, InternalError
from antiphon.host.config.settings import Config
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.own_request import Asker, Offer, OwnAnswer
from antiphon.host.store.base import Store
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.wire.sampling import CreateMessageRequestParams

MAX_KEPT = 20
"""Most answers that are kept; the oldest is dropped."""
MAX_RUNNING = 4
"""Most own requests that are answered at the same time, since each reserves money."""


class OwnRequest:
    """One own request."""

    def __init__(self, id: str, seq: int, params: CreateMessageRequestParams, model: str) -> None:
        self.id = id
        self.seq = seq
        """The ask that it repeats, by its first record."""
        self.params = params
        self.model = model
        """The model that was asked."""
        self.answer: OwnAnswer | None = None
        self.failure: AntiphonError | None = None
        self.stopped = False
        self.seconds = 0.0
        """Seconds that the answer took."""
        self.over = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def run(self, answering: Coroutine[Any, Any, OwnAnswer]) -> None:
        """Wait for the answer, and keep it or its failure."""
        began = time.monotonic()
        try:
            self.answer = await answering
        except AntiphonError as error:
            self.failure = error
        except asyncio.CancelledError:
            self.stopped = True
            raise
        except Exception as error:
            # An ``Asker`` may be code of others, whose error may contain anything: only the type is shown.
            self.failure = InternalError(type(error).__name__)
        finally:
            self.seconds = time.monotonic() - began
            self.over.set()


class ConfiguredAsker:
    """The configured host, which is opened in the process of the page on first use."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store
        self._host: ConfiguredHost | None = None

    async def offers(self, params: CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        """See ``Asker.offers``."""
        return await self._open_host().offers(params, identity)

    async def complete(
        self,
        messages: CreateMessageRequestParams,
        *,
        identity: str = "",
        by: str | None = None,
        model: str | None = None,
    ) -> OwnAnswer:
        """See ``Asker.complete``."""
        return await self._open_host().complete(messages, identity=identity, by=by, model=model)

    async def aclose(self) -> None:
        """Close its connections; the store stays open."""
        if self._host is not None:
            await self._host.aclose()

    def _open_host(self) -> ConfiguredHost:
        if self._host is None:
            self._host = ConfiguredHost(self._config, os.environ, reviewer=None, store=self._store)
        return self._host


class OwnRequests:
    """The own requests of one page."""

    def __init__(self, asker: Asker | None, configured: ConfiguredAsker | None) -> None:
        self.asker: Asker | None = asker or configured
        """The host that answers; ``None`` if the page has none."""
        self._configured = configured
        self._known: OrderedDict[str, OwnRequest] = OrderedDict()

    def get(self, id: str) -> OwnRequest | None:
        """Return a request by its id, or ``None``."""
        return self._known.get(id)

    @property
    def full(self) -> bool:
        """Whether as many requests as allowed are being answered."""
        return sum(not each.over.is_set() for each in self._known.values()) >= MAX_RUNNING

    def start(self, own: OwnRequest, answering: Coroutine[Any, Any, OwnAnswer]) -> None:
        """Have a request answered in the background."""
        own.task = asyncio.create_task(own.run(answering), name="antiphon-own-request")
        self._known[own.id] = own
        for id in [id for id, each in self._known.items() if each.over.is_set()][: max(0, len(self._known) - MAX_KEPT)]:
            del self._known[id]

    async def aclose(self) -> None:
        """Stop the requests that are being answered, and close the host if it was opened here."""
        await end_tasks(*(each.task for each in self._known.values()))
        if self._configured is not None:
            await self._configured.aclose()
