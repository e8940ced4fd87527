"""The same servers here. Run with one of their names; speaks stdio."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.json import encode
from msgspec.structs import replace

from antiphon import CallToolResult, Depends, ImageContent, Server, TextContent
from antiphon.middleware import ResourcesAsTools
from antiphon.server import CallNext, PerCaller, ServerRequest

# A server whose only tools are those of middleware says that it has some.
server = Server(sys.argv[1], declares=["tools"])


def echo() -> None:
    @server.tool
    def echo_tool(text: str) -> str:
        """Say it again."""
        return text

    @server.resource("echo://static")
    def echo_resource() -> str:
        return "Echo!"

    @server.resource("echo://{text}")
    def echo_template(text: str) -> str:
        return f"Echo: {text}"

    @server.prompt(name="echo")
    def echo_prompt(text: str) -> str:
        return text


@dataclass
class Shrimp:
    name: str


@dataclass
class Tank:
    shrimp: list[Shrimp]


def complex_inputs() -> None:
    @server.tool
    def name_shrimp(tank: Tank, extra_names: list[str]) -> list[str]:
        """List all names."""
        return [each.name for each in tank.shrimp] + extra_names


def mount_example() -> None:
    weather, news = Server("weather"), Server("news")

    @weather.tool
    def get_forecast(location: str) -> str:
        return f"Sun in {location}"

    @news.tool
    def get_headlines() -> list[str]:
        return ["Team wins", "Product launched"]

    @server.tool
    def check_status() -> dict[str, str]:
        return {"status": "running", "version": "1.0.0"}

    server.mount(weather, "weather")
    server.mount(news, "news")


State = Annotated[dict[str, str], Depends(PerCaller(dict[str, str]))]


def persistent_state() -> None:
    @server.tool
    async def set_value(key: str, value: str, state: State) -> str:
        state[key] = value
        return f"Stored {key} = {value}"

    @server.tool
    async def get_value(key: str, state: State) -> str:
        return f"{key} = {state[key]}" if key in state else f"No {key}"


def resources_as_tools() -> None:
    @server.resource("config://app")
    def config() -> str:
        return '{"debug": false}'

    @server.resource("user://{user_id}/profile")
    def profile(user_id: str) -> str:
        return f"User {user_id}"

    server.middleware(ResourcesAsTools())


def tool_result_echo() -> None:
    @server.tool
    def echo(text: str) -> CallToolResult:
        return CallToolResult(
            content=[TextContent(text=text)], structured_content={"data": text}, meta={"some": "metadata"}
        )


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value if each is not None] if isinstance(value, list) else value


def remove_nulls() -> None:
    @server.middleware
    async def remove(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        if not isinstance(result, CallToolResult) or result.structured_content is None:
            return result
        # What a function returned is JSON already.
        structured = json.loads(encode(result.structured_content))
        return replace(result, structured_content=without_nulls(structured))

    @server.tool
    def get_profile(user_id: int) -> dict[str, Any]:
        return {"id": user_id, "phone": None, "address": {"city": "Bergen", "zip": None}, "tags": ["a", None]}


def serializer() -> None:
    @server.tool
    def get_metrics() -> CallToolResult:
        metrics = {"cpu": 45.2, "disk": 62.5}
        return CallToolResult(content=[TextContent(text=json.dumps(metrics, indent=2))], structured_content=metrics)


def screenshot() -> None:
    @server.tool
    def take_screenshot() -> ImageContent:
        return ImageContent.of(b"\xff\xd8\xff", "image/jpeg")


def metadata() -> None:
    @server.tool
    def calculate_sum(a: int, b: int) -> int:
        return a + b

    @server.resource("data://{dataset}")
    def get_data(dataset: str) -> str:
        return f"Data for {dataset}"

    @server.prompt
    def analyze(data_type: str) -> str:
        return f"Please analyze this {data_type}"


made: Callable[[], None] = globals()[sys.argv[1]]
made()
server.run()
