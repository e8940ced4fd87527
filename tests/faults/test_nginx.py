"""Two replicas behind nginx, as ``docs/how-to/deploy.md`` has it: a restart of one after the other loses no call."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from tests.support.child_server import ended, started, wait_for_start
from tests.support.network import until
from tests.support.nginx import DEPLOY, own_nginx
from tests.support.ports import free_port

pytestmark = pytest.mark.nginx

PROGRAM = '''
from antiphon import Context, Server

server = Server("shop", version="1", keys=[b"k" * 32])


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Write one selling sentence; nothing says that it may be called twice."""
    return (await ctx.sample(f"Describe {product}.", max_tokens=100)).text
'''


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[tuple[str, list[int], list[Any]]]:
    """Run two replicas and nginx; yields the address, the replicas' ports, and their processes."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    ports = [free_port(), free_port()]
    processes = [started("serve", str(program), "--http", f"127.0.0.1:{each}") for each in ports]
    try:
        for each in ports:
            await wait_for_start(f"127.0.0.1:{each}")
        with own_nginx(ports, DEPLOY) as url:
            yield url, ports, processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


async def restarted(process: Any, port: int, folder: Path) -> Any:
    """End one replica as an orchestrator does, and start it anew."""
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert (code, "Traceback" in said) == (0, False), said
    process = started("serve", str(folder / "program.py"), "--http", f"127.0.0.1:{port}")
    await wait_for_start(f"127.0.0.1:{port}")
    return process


async def test_a_rolling_restart_loses_no_call(tmp_path: Path) -> None:
    """Calls of which each asks once, eight at a time, while both replicas are restarted in turn."""
    done, over = list[str](), asyncio.Event()

    async def sample(params: Any, _origin: Any) -> str:
        return str(params.messages[-1].content.text)

    async def ordering(client: Client) -> None:
        while not over.is_set():
            wanted = f"hat {len(done)}"
            result = await client.call_tool("describe", {"product": wanted}, timeout=60)
            assert result.text == f"Describe {wanted}."
            done.append(wanted)

    async with (
        proxied(tmp_path) as (url, ports, processes),
        Client(url, sampling=sample, revision="2026-07-28") as client,
    ):
        orders = [asyncio.ensure_future(ordering(client)) for _ in range(8)]
        for number in (0, 1, 0, 1):
            before = len(done)
            processes[number] = await restarted(processes[number], ports[number], tmp_path)
            await until(lambda before=before: len(done) > before + 20 or any(each.done() for each in orders), 60)
        over.set()
        outcomes = await asyncio.gather(*orders, return_exceptions=True)
    assert [repr(each) for each in outcomes if each is not None] == []
    assert len(done) > 80
