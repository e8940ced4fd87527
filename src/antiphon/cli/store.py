"""The store that a command uses: its location, the messages if it cannot be read, and the bell for what comes in.

Owns the options that say where it is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from antiphon.cli.options import ConfigFile, StorePlace
from antiphon.cli.output.formats import Failed
from antiphon.errors import ConfigError
from antiphon.host.config.settings import Config
from antiphon.host.review.queue import Queue
from antiphon.host.store import MemoryStore, Store, open_store
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.sql.database_store import StoreStalled

_WORDS = ("default", "memory")
"""Words that are no path; see ``open_store``."""


class StoreOptions(Struct, frozen=True, kw_only=True):
    """Which store a command works on: an option set."""

    store: StorePlace = None
    config: ConfigFile = None

    @property
    def settings(self) -> Config:
        """The configuration."""
        from antiphon.cli.host_options import read_configuration

        return read_configuration(self.config, os.environ)


@asynccontextmanager
async def open_chosen_store(where: StoreOptions, *, make: bool = False) -> AsyncGenerator[Store]:
    """Open the store that was named, by default the configured one, while the context lasts.

    ``make``: create a named file that is missing; otherwise that is an error.
    """
    chosen = where.store or where.settings.store
    if where.store is not None and not make:
        _check_there(where.store)
    store = open_store(chosen)
    if isinstance(store, MemoryStore):
        raise ConfigError("a store in memory is seen by its own process only: configure a file, or give --store")
    from sqlalchemy.exc import SQLAlchemyError

    try:
        try:
            yield store
        finally:
            await store.aclose()
    except SQLAlchemyError as error:
        raise Failed(f"{_show_place(chosen)}: cannot be read: {_describe_reason(error)}") from error
    except StoreStalled as error:
        raise Failed(f"{_show_place(chosen)}: {error}") from error
    except OSError as error:
        if chosen is None or "://" not in chosen or error.filename is not None:
            raise
        # An error of the connection does not name the address.
        raise Failed(f"{_show_place(chosen)}: cannot be reached: {_describe_reason(error)}") from error


def _check_there(place: str) -> None:
    path = place.removeprefix("sqlite:///")
    if path not in _WORDS and "://" not in path and not Path(path).exists():
        raise ConfigError(f"{path}: there is no such store")


def _show_place(place: str | None) -> str:
    if place is None or "://" not in place:
        return place or "the store"
    from sqlalchemy import make_url

    return make_url(place).render_as_string(hide_password=True)


def _describe_reason(error: Exception) -> str:
    # SQLAlchemy's own text quotes the statement, and links to its manual.
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


@asynccontextmanager
async def ring_for_questions(
    store: Store, *, wanted: bool = True, stream: TextIO | None = None
) -> AsyncGenerator[None]:
    """Ring for new questions in this store while the context lasts; only at a terminal."""
    out = stream or sys.stderr
    if not (wanted and out.isatty()):
        yield
        return
    queue = Queue(store)
    # Questions from before this are in the list already.
    known = {question.id for question in await queue.pending()}
    listening = asyncio.create_task(_listen_for_questions(queue, known, out))
    try:
        yield
    finally:
        await end_tasks(listening)


async def _listen_for_questions(queue: Queue, known: set[str], stream: TextIO) -> None:
    async for _ in queue.changes():
        pending = {question.id for question in await queue.pending()}
        if pending - known:
            # One bell for all questions that came together.
            stream.write("\a")
            stream.flush()
        known = pending
