"""What holds for tests of gateways: lists wait for servers that start slowly, on a machine that is busy."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon.gateway import terms


@pytest.fixture(autouse=True)
def patient_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists wait for servers that were never listed, as long as a machine may be busy."""
    monkeypatch.setattr(terms, "GatewayTerms", partial(terms.GatewayTerms, list_timeout=60.0))
