"""Headers, statuses, sessions, other origins, and documents about signing in."""

from __future__ import annotations

import pytest

from antiphon.check.checkup import check_server
from tests.check.fault_search import assert_found
from tests.check.faulty_web import WEB_FAULTS, serve_web

HERE = {"html", "redirects", "same event ids", "odd session id"}


@pytest.mark.parametrize("name", [name for name in WEB_FAULTS if name not in HERE])
async def test_a_fault_over_http_is_found_at_its_place(name: str):
    """A server on this machine breaks one rule of HTTP; the check names the rule and the place, and no other error."""
    async with serve_web(name) as url:
        report = await check_server(url, calls=["all"], timeout=30.0)
    assert_found(report, WEB_FAULTS[name])
