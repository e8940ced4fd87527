"""Transports are tested on both event loops: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio

import uvloop

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


def pytest_asyncio_loop_factories(config, item):
    """Run every async test of this folder once on each loop."""
    return LOOPS
