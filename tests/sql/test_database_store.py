"""A store of a server in a database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection

from antiphon.errors import ConfigError
from antiphon.machine.call_time import TimeLeft, count_time
from antiphon.sql import database_store as patience
from antiphon.sql.database_store import DatabaseStore, StorePatience, StoreStalled, runner_at
from antiphon.sql.runner import PostgresRunner, SqliteRunner


class Notes(DatabaseStore):
    """One table with one column."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.made = 0
        self._make = self._count

    def _count(self, connection: Connection) -> None:
        self.made += 1
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")

    async def write(self, text: str) -> None:
        """Add a note."""
        await self._run(lambda connection: connection.exec_driver_sql("INSERT INTO notes VALUES (?)", (text,)))

    async def read(self) -> list[str]:
        """Return all notes."""
        return await self._run(
            lambda connection: list(connection.exec_driver_sql("SELECT text FROM notes").scalars()), write=False
        )


async def test_it_opens_at_its_first_operation_and_makes_its_tables_once(tmp_path: Path):
    """Making it touches no file."""
    async with Notes(tmp_path / "notes.db") as notes:
        assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
        await notes.write("tea")
        await notes.write("cups")
        assert await notes.read() == ["tea", "cups"]
        assert notes.made == 1


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
        "from antiphon.sql.database_store import runner_at\nfrom antiphon.errors import ConfigError\n"
        f"try:\n runner_at({place!r}, extra='host')\nexcept ConfigError as error:\n print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install './{said}'" in done.stdout


async def test_what_answers_in_time_is_returned():
    """Or raised."""

    async def fails() -> None:
        raise LookupError

    assert await StorePatience().wait(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError):
        await StorePatience().wait(fails())


async def test_who_does_not_answer_is_waited_for_more_shortly_the_next_time(monkeypatch: pytest.MonkeyPatch):
    """Until it answers again."""
    monkeypatch.setattr(patience, "_AGAIN", 0.001)
    waits = StorePatience()
    for seconds in ("0.002", "0.001", "0.001"):
        with pytest.raises(StoreStalled, match=f"within {seconds} s"):
            await waits.wait(asyncio.Event().wait(), 0.002)
    monkeypatch.setattr(patience, "_AGAIN", 60.0)
    await waits.wait(asyncio.sleep(0))
    with pytest.raises(StoreStalled, match=r"within 0\.002 s"):
        await waits.wait(asyncio.Event().wait(), 0.002)


async def test_a_time_out_of_the_database_is_one_of_the_store():
    """Nobody takes it for that of a person."""

    async def times_out() -> None:
        raise TimeoutError

    with pytest.raises(StoreStalled):
        await StorePatience().wait(times_out())


async def test_a_call_waits_no_longer_than_it_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's time is no person's: it is taken off the time of the call."""
    monkeypatch.setattr(patience, "_AGAIN", 0.001)
    time = TimeLeft(0.002)
    with count_time(time), pytest.raises(StoreStalled, match=r"within 0\.002 s"):
        await StorePatience().wait(asyncio.Event().wait())
    assert time.is_over


async def test_a_store_that_answers_is_waited_for_a_moment_even_without_time() -> None:
    """What a person has decided is not lost because the call had used up its time before."""
    time = TimeLeft(0)
    with count_time(time):
        assert await StorePatience().wait(asyncio.sleep(0, "saved")) == "saved"


async def test_without_a_call_or_a_limit_the_usual_patience_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may have no timeout at all."""
    monkeypatch.setattr(patience, "PATIENCE", 0.002)
    for time in (None, TimeLeft(None)):
        with count_time(time), pytest.raises(StoreStalled, match=r"within 0\.002 s"):
            await StorePatience().wait(asyncio.Event().wait())


async def test_a_caller_waits_as_long_as_the_database_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the time since the last transaction began or ended counts, however many wait before this one."""
    monkeypatch.setattr(patience, "PATIENCE", 0.002)
    clock, turns = asyncio.get_running_loop().time, iter(range(3))
    last = 0.0

    def last_turn() -> float:
        nonlocal last
        last = clock() if next(turns, None) is not None else last
        return last

    with pytest.raises(StoreStalled):
        await StorePatience(last_turn).wait(asyncio.Event().wait())
    assert next(turns, None) is None
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, ended.set)
    await StorePatience(clock).wait(ended.wait())


async def test_each_of_several_callers_waits_for_its_own_time() -> None:
    """The one who came first may be the one who waits longest."""
    waits, ended = StorePatience(), asyncio.Event()
    long = asyncio.create_task(waits.wait(ended.wait(), 60))
    await asyncio.sleep(0)
    with pytest.raises(StoreStalled, match=r"within 0\.002 s"):
        await waits.wait(asyncio.Event().wait(), 0.002)
    ended.set()
    assert await long is True


async def test_giving_up_leaves_no_cancellation_behind() -> None:
    """The task goes on; one that somebody else cancels meanwhile is cancelled."""
    waits = StorePatience()
    with pytest.raises(StoreStalled):
        await waits.wait(asyncio.Event().wait(), 0.001)
    task = asyncio.current_task()
    assert task is not None and not task.cancelling()
    cancelled = asyncio.create_task(waits.wait(asyncio.Event().wait()))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled


def test_it_serves_one_event_loop_after_another() -> None:
    """The timer of an event loop that was closed is not waited for."""
    waits = StorePatience()
    asyncio.run(waits.wait(asyncio.sleep(0)))

    async def stalls() -> None:
        with pytest.raises(StoreStalled):
            await waits.wait(asyncio.Event().wait(), 0.002)

    asyncio.run(stalls())


async def test_work_that_ends_in_spite_of_being_given_up_leaves_no_cancellation() -> None:
    """The task is not taken for one that somebody has stopped."""

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        raise AssertionError

    assert await StorePatience().wait(stubborn(), 0.001) == "done"
    task = asyncio.current_task()
    assert task is not None and not task.cancelling()
