"""Tests that reach real vendors and cost real money: collected only with ``ANTIPHON_LIVE=1`` in the environment."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ANTIPHON_LIVE") == "1" else ["test_*.py"]
