"""The provider with prepared answers."""

from __future__ import annotations

import pytest

from antiphon.host.providers import Scripted
from antiphon.host.providers.base import text_answer
from tests.host.asks import request


async def test_answers_come_in_order_and_requests_are_kept():
    """Texts, results and failures."""
    provider = Scripted(["one", text_answer("two", "m"), ValueError("three")])
    assert (await provider.complete(request("a"))).text == "one"
    assert (await provider.complete(request("b"))).model == "m"
    with pytest.raises(ValueError, match="three"):
        await provider.complete(request("c"))
    assert [asked.messages[0].text for asked in provider.requests] == ["a", "b", "c"]


async def test_a_script_that_is_over_says_so():
    """No silent repetition."""
    with pytest.raises(LookupError, match="request 1"):
        await Scripted([]).complete(request())
