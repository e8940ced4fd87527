"""What every fuzz run shares: its seed, and silence."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def seed() -> int:
    """Give the seed: the same for all, unless ``ANTIPHON_FUZZ_SEED`` names another."""
    return int(os.environ.get("ANTIPHON_FUZZ_SEED", "20260728"))


@pytest.fixture
def quiet() -> Iterator[None]:
    """Switch the library's log off: it is long, and in order."""
    log = logging.getLogger("antiphon")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)
