"""Where a database is: a file, or a server.

The libraries of a database are imported only when one is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.errors import ConfigError
from antiphon.machine.extras import describe_install

if TYPE_CHECKING:
    from antiphon.sql.runner import Runner

__all__ = ["runner_at"]


def runner_at(place: str | Path, *, extra: str, durable: bool = False) -> Runner:
    """Make the runner of transactions for a place; nothing is opened before the first transaction.

    ``place`` is a path, ``"sqlite:///path"`` or ``"postgresql://user@host/name"``. ``extra`` is the extra to install if
    packages are missing. ``durable``: a power cut does not lose committed data either, which makes a file slower.

    Raises:
        ConfigError: the address is of another kind, or packages are missing.
    """
    try:
        from antiphon.sql.runner import PostgresRunner, SqliteRunner

        if not isinstance(place, str) or "://" not in place or place.startswith("sqlite:///"):
            return SqliteRunner(Path(str(place).removeprefix("sqlite:///")), durable=durable)
        from sqlalchemy import make_url

        url = make_url(place)
        if url.get_backend_name() != "postgresql":
            raise ConfigError(f"a store is a path, sqlite:///... or postgresql://..., not {url.get_backend_name()}://")
        return PostgresRunner(url.set(drivername="postgresql+asyncpg"))
    except ImportError as error:
        wanted = f"{extra},postgres" if error.name == "asyncpg" else extra
        raise ConfigError(f"a store needs more packages ({error.name}): {describe_install(wanted)}") from None
