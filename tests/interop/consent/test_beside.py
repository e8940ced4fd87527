"""What LiteLLM and CTRLRun answer to the same checks is what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.consent.beside import measure_ctrlrun, measure_litellm
from tests.interop.consent.table import read_measured
from tests.interop.peers import Peers


@pytest.mark.timeout(600)
async def test_litellm_answers_as_the_page_says(peers: Peers, tmp_path: Path):
    """Its MCP gateway, with the limits and the filter that its configuration offers."""
    assert await measure_litellm(peers, tmp_path) == read_measured("LiteLLM")


@pytest.mark.timeout(600)
async def test_ctrlrun_answers_as_the_page_says(peers: Peers, tmp_path: Path):
    """Its gateway, with its command line as the person."""
    assert await measure_ctrlrun(peers, tmp_path) == read_measured("CTRLRun")
