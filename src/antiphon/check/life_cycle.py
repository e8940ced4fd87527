"""The life of a server's process: how long it starts, what it holds, whether it ends with its input, what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from antiphon.check.peer import CLIENT, Report
from antiphon.transports.stdio.guardian import GUARDIAN, MARK, find_left_behind
from antiphon.wire.envelope import encode_value
from antiphon.wire.revisions import LATEST_LEGACY

SLOW_START = 10.0
"""Seconds after which several hosts give a server up."""
LARGE_MEMORY = 512 * 1024
"""KiB from which a dozen servers fill the memory of a small machine."""
END_WAIT = 5.0
"""Seconds in which a server should have ended after its input did."""
LOOKS = 10
_SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)


async def try_life_cycle(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, report: Report, wait: float
) -> None:
    """Start a server, greet it, close its input, and look at what is left of it; everything is ended afterwards."""
    mark = GUARDIAN.new_mark()
    stream, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    began = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=stream,
            stdout=stream,
            stderr=nothing,
            cwd=cwd,
            env={**env, MARK: mark},
            start_new_session=True,
        )
    except (OSError, ValueError):
        # A session has reported already that it cannot be started.
        return
    try:
        answered = await _greet(process, wait)
        if answered and (took := time.monotonic() - began) > SLOW_START:
            report("stdio.start", "start", f"{took:.1f} s until initialize was answered")
        left = await asyncio.to_thread(find_left_behind, mark)
        if (held := sum(map(_read_memory, {process.pid, *left}))) > LARGE_MEMORY:
            report("stdio.memory", "memory", f"{held // 1024} MiB resident after initialize")
        await _end_input(process, mark, report)
    finally:
        await _end_all(process, mark)


async def _greet(process: asyncio.subprocess.Process, wait: float) -> bool:
    params = {"protocolVersion": LATEST_LEGACY.name, "capabilities": {}, "clientInfo": CLIENT}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(wait):
            process.stdin.write(encode_value(message) + b"\n")
            await process.stdin.drain()
            return bool(await process.stdout.read(1))
    return False


async def _end_input(process: asyncio.subprocess.Process, mark: str, report: Report) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    draining = asyncio.create_task(_drain(process.stdout))
    try:
        async with asyncio.timeout(END_WAIT):
            await process.wait()
        left = await _list_left(mark)
        if left:
            report("stdio.orphans", "after its end", f"{len(left)} processes that it started still run")
    except TimeoutError:
        report("stdio.exit", "end of standard input", f"it still runs {END_WAIT:g} s later")
    finally:
        draining.cancel()


async def _list_left(mark: str) -> list[int]:
    """Return the processes that a server has left behind, a second after its end: children may take a moment."""
    left: list[int] = []
    for _ in range(LOOKS):
        left = await asyncio.to_thread(find_left_behind, mark)
        if not left:
            break
        await asyncio.sleep(1 / LOOKS)
    return left


async def _drain(stream: asyncio.StreamReader) -> None:
    """Read and drop the output: a process that cannot write does not end."""
    while await stream.read(65_536):
        pass


def _read_memory(pid: int) -> int:
    """Return the KiB that a process holds in memory; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])
    return 0


async def _end_all(process: asyncio.subprocess.Process, mark: str) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, _SIGKILL)
        else:
            process.kill()
    for pid in await asyncio.to_thread(find_left_behind, mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, _SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await process.wait()
