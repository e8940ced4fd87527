"""An agent of Google's Agent Development Kit with a server's tools, which asks its user before a call is made.

A script stands for the agent's model, so that no key is needed. Needs the extra ``google-adk``.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from antiphon import Client, Server
from antiphon.adapters.google_adk import AdkToolset
from antiphon.host import Host

server = Server("shop")


@server.tool
def order(product: str) -> str:
    """Order a product."""
    return f"ordered a {product}"


class Script(BaseLlm):
    """A model that orders a scarf, and is then done."""

    asked: bool = False

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse]:
        """Call the tool, or end."""
        call = types.Part.from_function_call(name="order", args={"product": "scarf"})
        part = types.Part.from_text(text="done") if self.asked else call
        self.asked = True
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main() -> None:
    """Run the agent, confirm its call, and print the result."""
    tools = AdkToolset(Client(server), host=Host(reviewer=None), approval="framework")
    runner = InMemoryRunner(agent=LlmAgent(name="buyer", model=Script(model="script"), tools=[tools]), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="ann")

    async def send(part: types.Part) -> list[types.Part]:
        message = types.Content(role="user", parts=[part])
        events = [e async for e in runner.run_async(user_id="ann", session_id=session.id, new_message=message)]
        return [each for event in events if event.content for each in event.content.parts]

    parts = await send(types.Part.from_text(text="Order a scarf"))
    calls = {part.function_call.name: part.function_call for part in parts if part.function_call}
    wanted = calls["adk_request_confirmation"]
    print("to confirm:", wanted.args["originalFunctionCall"]["args"])
    answer = types.FunctionResponse(id=wanted.id, name=wanted.name, response={"confirmed": True})
    parts = await send(types.Part(function_response=answer))
    print(*[part.function_response.response for part in parts if part.function_response])
    await runner.close()


asyncio.run(main())
