"""Where a database is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.sql.location import runner_at
from antiphon.sql.runner import PostgresRunner, SqliteRunner


async def test_a_place_is_a_path_or_an_address(tmp_path: Path):
    """Nothing is opened yet."""
    for place in (tmp_path / "a.db", str(tmp_path / "a.db"), f"sqlite:///{tmp_path}/a.db"):
        runner = runner_at(place, extra="sql")
        assert isinstance(runner, SqliteRunner)
        await runner.aclose()
    assert isinstance(runner_at("postgresql://ada@db.example/antiphon", extra="sql"), PostgresRunner)
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


def test_another_kind_of_database_is_named():
    """Without its password."""
    with pytest.raises(ConfigError, match=r"not mysql://$"):
        runner_at("mysql://ada:geheim@db.example/antiphon", extra="sql")


@pytest.mark.parametrize(
    ("lacking", "place", "said"),
    [("sqlalchemy", "x.db", "antiphon[host]"), ("asyncpg", "postgresql://x/y", "antiphon[host,postgres]")],
)
def test_missing_packages_are_named(lacking: str, place: str, said: str):
    """With what installs them."""
    code = (
        f"import sys; sys.modules[{lacking!r}] = None\n"
        "from antiphon.sql.location import runner_at\nfrom antiphon.errors import ConfigError\n"
        f"try:\n runner_at({place!r}, extra='host')\nexcept ConfigError as error:\n print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install './{said}'" in done.stdout
