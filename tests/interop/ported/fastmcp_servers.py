"""The servers as FastMCP has them. Run with one of their names, in an environment with FastMCP; speaks stdio."""

import json
import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.transforms import ResourcesAsTools
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image

mcp = FastMCP(sys.argv[1])


def echo():
    @mcp.tool
    def echo_tool(text: str) -> str:
        """Say it again."""
        return text

    @mcp.resource("echo://static")
    def echo_resource() -> str:
        return "Echo!"

    @mcp.resource("echo://{text}")
    def echo_template(text: str) -> str:
        return f"Echo: {text}"

    @mcp.prompt("echo")
    def echo_prompt(text: str) -> str:
        return text


def complex_inputs():
    @dataclass
    class Shrimp:
        name: str

    @dataclass
    class Tank:
        shrimp: list[Shrimp]

    @mcp.tool
    def name_shrimp(tank: Tank, extra_names: list[str]) -> list[str]:
        """List all names."""
        return [each.name for each in tank.shrimp] + extra_names


def mount_example():
    weather, news = FastMCP("weather"), FastMCP("news")

    @weather.tool
    def get_forecast(location: str) -> str:
        return f"Sun in {location}"

    @news.tool
    def get_headlines() -> list[str]:
        return ["Team wins", "Product launched"]

    @mcp.tool
    def check_status() -> dict[str, str]:
        return {"status": "running", "version": "1.0.0"}

    mcp.mount(weather, namespace="weather")
    mcp.mount(news, namespace="news")


def persistent_state():
    @mcp.tool
    async def set_value(key: str, value: str, ctx: Context) -> str:
        await ctx.set_state(key, value)
        return f"Stored {key} = {value}"

    @mcp.tool
    async def get_value(key: str, ctx: Context) -> str:
        value = await ctx.get_state(key)
        return f"No {key}" if value is None else f"{key} = {value}"


def resources_as_tools():
    @mcp.resource("config://app")
    def config() -> str:
        return '{"debug": false}'

    @mcp.resource("user://{user_id}/profile")
    def profile(user_id: str) -> str:
        return f"User {user_id}"

    mcp.add_transform(ResourcesAsTools(mcp))


def tool_result_echo():
    @mcp.tool
    def echo(text: str) -> ToolResult:
        return ToolResult(content=text, structured_content={"data": text}, meta={"some": "metadata"})


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value if each is not None] if isinstance(value, list) else value


def remove_nulls():
    class RemoveNulls(Middleware):
        async def on_call_tool(self, context, call_next):
            result = await call_next(context)
            return ToolResult(content=result.content, structured_content=without_nulls(result.structured_content))

    mcp.add_middleware(RemoveNulls())

    @mcp.tool
    def get_profile(user_id: int) -> dict:
        return {"id": user_id, "phone": None, "address": {"city": "Bergen", "zip": None}, "tags": ["a", None]}


def serializer():
    @mcp.tool
    def get_metrics() -> ToolResult:
        metrics = {"cpu": 45.2, "disk": 62.5}
        return ToolResult(content=json.dumps(metrics, indent=2), structured_content=metrics)


def screenshot():
    @mcp.tool
    def take_screenshot() -> Image:
        return Image(data=b"\xff\xd8\xff", format="jpeg")


def metadata():
    @mcp.tool
    def calculate_sum(a: int, b: int) -> int:
        return a + b

    @mcp.resource("data://{dataset}")
    def get_data(dataset: str) -> str:
        return f"Data for {dataset}"

    @mcp.prompt
    def analyze(data_type: str) -> str:
        return f"Please analyze this {data_type}"


globals()[sys.argv[1]]()
mcp.run(show_banner=False)
