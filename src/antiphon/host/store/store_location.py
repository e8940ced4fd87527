"""Where a store is: makes a store from a path, an address, or a default location.

The libraries of a database are imported only when one is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, cast

from antiphon.errors import ConfigError
from antiphon.host.store.base import Store
from antiphon.host.store.memory_store import MemoryStore
from antiphon.machine.files import find_home
from antiphon.machine.public_names import describe_install
from antiphon.sql.database_store import runner_at


def open_store(place: str | Path | None = None, *, keep_content: bool = False) -> Store:
    """Make the store at a place; nothing is opened before its first use.

    Args:
        place: a path, ``"sqlite:///path"``, ``"postgresql://user@host/name"``, ``"memory"``, or ``"default"`` (as
            ``None``) for ``host.db`` in the user's state folder. A new file gets mode 0600, its folder 0700.
        keep_content: keep what was reviewed after the review is over.

    Raises:
        ConfigError: the address is of another kind, or the packages of ``antiphon[host]`` are missing.
    """
    if place == "memory":
        return MemoryStore(keep_content=keep_content)
    try:
        from antiphon.host.store.sql_store import SqlStore
    except ImportError as error:
        raise ConfigError(f"a store needs more packages ({error.name}): {describe_install('host')}") from None
    named = place if place and place != "default" else state_folder(os.environ) / "host.db"
    return SqlStore(runner_at(named, extra="host"), keep_content=keep_content)


def usual_store(*, soon: bool = False) -> Store:
    """Make the store of a program that was told nothing about it: ``host.db`` in the user's state folder.

    It is in memory if the packages of ``antiphon[host]`` are missing, or the folder cannot be written to.

    Args:
        soon: start importing the libraries of the database in a thread now; by default they are imported when something
            is first stored.
    """
    folder = state_folder(os.environ)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if find_spec("sqlalchemy") is None or not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return MemoryStore()
    if soon:
        # A daemon thread, so that a program that ends earlier does not wait for it.
        Thread(target=_load_modules, name="antiphon-store-load", daemon=True).start()
    return cast("Store", _Later(partial(open_store, "default")))


def _load_modules() -> None:
    """Import what opening a store needs. A failure here is ignored, since it is repeated and reported when opening."""
    with suppress(Exception):
        import_module("antiphon.host.store.sql_store")


class _Later:
    """A store that is made on first use."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._made: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)

    async def aclose(self) -> None:
        """See ``base.Store.aclose``. A store that was never used has nothing to release."""
        if self._made is not None:
            await self._made.aclose()


def state_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder for the state of this user's programs."""
    home = find_home(environ)
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "antiphon"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "antiphon"
    return _find_base(environ, "XDG_STATE_HOME", home / ".local" / "state") / "antiphon"


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's files of settings."""
    return _find_base(environ, "XDG_CONFIG_HOME", find_home(environ) / ".config") / "antiphon"


def _find_base(environ: Mapping[str, str], variable: str, usual: Path) -> Path:
    # A relative path counts for nothing (XDG Base Directory Specification): each folder would have a state of its own.
    given = Path(environ.get(variable) or "")
    return given if given.is_absolute() else usual
