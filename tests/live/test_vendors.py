"""Each vendor whose key is in the environment, asked for real: a text, a picture, a tool. Some cents in all."""

from __future__ import annotations

import os

import pytest

from antiphon.host.model_catalogue import ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.models.selection import USUAL, model_of
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage, ToolChoice
from tests.host.asks import request
from tests.host.providers.vendor.ask import PICTURE, WEATHER

PRESENT = [name for name, usual in USUAL.items() if any(os.environ.get(key) for key in usual.keys)]
every_vendor = pytest.mark.parametrize("vendor", PRESENT)


async def asked(vendor, params):
    """Ask a vendor's usual model."""
    provider = Models(ModelCatalogue((model_of(vendor, None, os.environ),)), os.environ)
    try:
        return await provider.generate(params)
    finally:
        await provider.aclose()


def test_there_is_a_key():
    """Whoever asks for live tests has one."""
    assert PRESENT


@every_vendor
async def test_a_text(vendor):
    """It answers, and counts."""
    done = await asked(vendor, request("Answer with the word blue.", max_tokens=2000))
    assert "blue" in done.result.text.lower()
    assert done.usage
    assert done.usage.output_tokens > 0


@every_vendor
async def test_a_picture(vendor):
    """It looks at it."""
    message = SamplingMessage(role="user", content=[TextContent(text="Is this a picture? Yes or no."), PICTURE])
    done = await asked(vendor, request(messages=[message], max_tokens=2000))
    assert done.result.text


@every_vendor
async def test_a_tool(vendor):
    """It uses it when it must."""
    params = request(
        "What is the weather in Basel?", max_tokens=2000, tools=[WEATHER], tool_choice=ToolChoice(mode="auto")
    )
    done = await asked(vendor, params)
    uses = [block for block in done.result.blocks if isinstance(block, ToolUseContent)]
    assert [use.input for use in uses] == [{"city": "Basel"}]
    assert done.result.stop_reason == "toolUse"
