"""What the tests of the vendors ask with."""

from __future__ import annotations

import base64

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.vendor.adapter import Vendor
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import Tool
from tests.host.asks import request, says
from tests.support.vendors import anthropic, gemini, openai
from tests.support.vendors.site import KEY

VENDORS = (openai, anthropic, gemini)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = ImageContent.of(PNG, "image/png")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool(name="weather", description="Tell the weather.", input_schema=SCHEMA)


def model(vendor, site, **more) -> Model:
    """Configure the vendor's usual model, at the site of a test."""
    return Model(name="mine", provider=vendor.NAME, model=vendor.MODEL, base_url=site.url + vendor.ADDRESS, **more)


async def asked(vendor, site, params=None, **more):
    """Ask a vendor once, and hang up."""
    client = Vendor(model(vendor, site, **more), KEY)
    try:
        return await client.generate(params or request("Hello"))
    finally:
        await client.aclose()


def history():
    """Make a conversation in which a tool was used."""
    return [
        says("What is the weather in Basel?"),
        SamplingMessage(role="assistant", content=ToolUseContent(id="use-1", name="weather", input={"city": "Basel"})),
        SamplingMessage(
            role="user", content=ToolResultContent(tool_use_id="use-1", content=[TextContent(text="Fog, 4 degrees")])
        ),
    ]
