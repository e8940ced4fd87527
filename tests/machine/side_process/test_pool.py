"""Work in side processes: done, bounded in time and memory, given up, and never twice the price of one process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from antiphon.errors import TooCostly
from antiphon.machine.side_process import pool
from antiphon.machine.side_process.pool import run_aside


def number(payload: bytes) -> bytes:
    """Say which process this is."""
    return str(os.getpid()).encode()


def spin(payload: bytes) -> bytes:
    """Hold the interpreter for good, as a regular expression that backtracks does."""
    return str(sum(1 for _ in iter(int, 1))).encode()


def grow(payload: bytes) -> bytes:
    """Ask for more memory than there may be."""
    return bytes(pool.MAX_MEMORY)


def fail(payload: bytes) -> bytes:
    """Fail."""
    raise ValueError(payload.decode())


def die(payload: bytes) -> bytes:
    """End as a process does that ran out of its stack."""
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def interrupted(payload: bytes) -> bytes:
    """Get what a terminal sends to all processes of a program at Ctrl+C."""
    os.kill(os.getpid(), signal.SIGINT)
    return payload


def environment(payload: bytes) -> bytes:
    """List the variables of the environment."""
    return " ".join(os.environ).encode()


async def test_an_interrupt_at_the_terminal_ends_no_work():
    """Who is typed to may catch it and go on: what a peer sent is not called too costly because of that."""
    assert await run_aside(interrupted, b"still here") == b"still here"


async def test_work_is_done_in_another_process_which_is_used_again():
    """Starting one takes a hundred times as long as asking one."""
    first = await run_aside(number, b"")
    assert int(first) != os.getpid()
    assert await run_aside(number, b"") == first


async def test_what_takes_too_long_is_killed_while_the_loop_goes_on():
    """The next piece of work finds another process."""
    before = await run_aside(number, b"")
    work = asyncio.ensure_future(run_aside(spin, b"", seconds=0.2))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not work.done()
    with pytest.raises(TooCostly, match=r"more than 0.2 s or 1024 MiB"):
        await work
    assert await run_aside(number, b"") != before


async def test_what_takes_too_much_memory_is_refused():
    """The limit is of the process, whoever asks for the memory."""
    with pytest.raises(TooCostly, match="1024 MiB of memory"):
        await run_aside(grow, b"")


async def test_a_process_that_dies_is_replaced():
    """Libraries may end a process that goes beyond its stack."""
    with pytest.raises(TooCostly):
        await run_aside(die, b"")
    assert await run_aside(number, b"")


async def test_a_failure_of_the_work_itself_is_told():
    """It is a mistake of ours."""
    with pytest.raises(RuntimeError, match="ValueError: because"):
        await run_aside(fail, b"because")


async def test_cancelling_ends_the_work():
    """Whoever has a shorter deadline need not wait for this one's; both processes are free again at once."""
    for _ in range(pool.MAX_PROCESSES + 1):
        work = asyncio.ensure_future(run_aside(spin, b"", seconds=3600))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert await run_aside(number, b"")


async def test_no_more_than_a_bounded_number_waits():
    """A peer that sends much gets a refusal for what is too much."""
    work = [asyncio.ensure_future(run_aside(number, b"")) for _ in range(pool.MAX_WAITING + 1)]
    done = await asyncio.gather(*work, return_exceptions=True)
    assert sum(isinstance(each, TooCostly) for each in done) == 1
    assert len({each for each in done if isinstance(each, bytes)}) <= pool.MAX_PROCESSES


def test_event_loops_of_several_threads_share_the_places(monkeypatch):
    """Each piece of work gives its place back, also on a Python whose threads run at the same time."""
    shared, goes_on = pool._Pool(), threading.Event()
    goes_on.set()
    # Many pieces are needed, and only their places are looked at.
    monkeypatch.setattr(shared, "_work", lambda *piece: bytes(goes_on.wait(60)))

    async def work(times: int, pieces: int) -> list[bytes | BaseException]:
        done: list[bytes | BaseException] = []
        for _ in range(times):
            tasks = [asyncio.ensure_future(shared.run("", b"", 60.0)) for _ in range(pieces)]
            await asyncio.sleep(0)
            goes_on.set()
            done = await asyncio.gather(*tasks, return_exceptions=True)
        return done

    with ThreadPoolExecutor(4) as threads:
        for done in threads.map(lambda _: asyncio.run(work(30, 100)), range(4)):
            assert {*done} == {b"\0"}
    goes_on.clear()
    assert [type(each) for each in asyncio.run(work(1, pool.MAX_WAITING + 1)) if each != b"\0"] == [TooCostly]


async def test_keys_in_the_environment_stay_here(monkeypatch):
    """A side process reads what strangers sent, and needs none of them."""
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    names = (await run_aside(environment, b"")).decode().split()
    pool._pool.close()
    assert "OPENAI_API_KEY" not in names


async def test_a_packed_program_does_not_start_itself(monkeypatch):
    """Its interpreter is the program: what would have to be checked aside is refused."""
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(TooCostly, match="no Python interpreter"):
        await run_aside(number, b"")


def test_nothing_is_left_behind_by_a_program_that_ends():
    """The process ends with the program that started it."""
    program = (
        "import asyncio\n"
        "from antiphon.machine.side_process.pool import _pool\n"
        "from antiphon.json_schema.validator import SchemaValidator\n"
        "asyncio.run(SchemaValidator({'$dynamicRef': '#'}, place='here').check(1))\n"
        "print(_pool._idle[0]._process.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""


def test_a_forked_child_has_processes_of_its_own():
    """Two programs that read from one pipe would take each other's replies."""
    program = (
        "import asyncio, os\n"
        "from antiphon.json_schema.validator import SchemaValidator\n"
        "from antiphon.machine.side_process.pool import _pool\n"
        "asyncio.run(SchemaValidator({'$dynamicRef': '#'}, place='here').check(1))\n"
        "child = os.fork()\n"
        "assert len(_pool._idle) == (1 if child else 0)\n"
        "if not child: os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
