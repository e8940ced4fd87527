"""The provider that is a person."""

from __future__ import annotations

import pytest

from antiphon.errors import SamplingFailed
from antiphon.host.providers import Manual
from tests.host.asks import request


async def test_it_never_completes_by_itself():
    """The answer comes from the review or not at all."""
    with pytest.raises(SamplingFailed):
        await Manual().complete(request())
