"""Messages as they come. Each fault is found at its place, and nothing else is called an error."""

from __future__ import annotations

import pytest

from tests.check.fault_search import look_for_fault, name_faults


@pytest.mark.parametrize("name", name_faults("rpc", "progress", "notify", "asks"))
async def test_a_fault_in_messages_is_found_at_its_place(name: str, monkeypatch: pytest.MonkeyPatch):
    """A server in memory breaks one rule; the check names the rule and the place, and no other error."""
    await look_for_fault(name, monkeypatch)
