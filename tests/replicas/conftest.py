"""Replicas are tested on both event loops, as transports are."""

from __future__ import annotations

from tests.transports.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
