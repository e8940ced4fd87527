"""The model API with clients of others, unmodified: the vendors' for JavaScript, LangChain, LiteLLM, pydantic-ai."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from antiphon.host import Host
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.review.review import Deny
from antiphon.wire.content import ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult, text_answer
from tests.host.asks import approve
from tests.interop.peers import PATIENCE, Peers
from tests.model_api.served import door

SAID = "It is said: hello"
WEATHER = ["weather", {"city": "Graz"}, "It is snow"]


class Model:
    """Answers as a model would: with the use of a tool where one is offered, else with text."""

    name = "model"
    tools = True
    personal = False

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        last = params.messages[-1]
        results = [block for block in last.blocks if isinstance(block, ToolResultContent)]
        if results:
            result = text_answer(f"It is {results[0].text}", self.name)
        elif params.tools:
            use = ToolUseContent(id="call-1", name=params.tools[0].name, input={"city": "Graz"})
            result = CreateMessageResult(role="assistant", content=[use], model=self.name, stop_reason="toolUse")
        else:
            result = text_answer(f"It is said: {last.text}", self.name)
        return Completion(result=result, usage=Usage(input_tokens=3, output_tokens=4))


class Person:
    """Refuses what is forbidden, thinks for a while where that is asked for, and lets all else pass."""

    available = True

    def __init__(self) -> None:
        self.thought: list[str] = []

    async def review(self, item):
        text = item.params.messages[-1].text
        if text == "forbidden":
            return Deny(reason="no")
        if text.startswith("think"):
            self.thought.append(text)
            # Longer than three of the attempts that a hurried client makes.
            await asyncio.sleep(2.0)
        return approve(item)


async def run(peers: Peers, name: str, person: Person) -> dict:
    """Run a program with the equipment of a server, and return what it saw."""
    async with door(Host(Model(), reviewer=person)) as here:
        env = here.equipment.environment({**os.environ, "ANTIPHON_INTEROP_DIR": str(peers.root)})
        # LiteLLM would look for prices on the network.
        env = {**env, **here.env, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*peers.program(name), env=env, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(3 * PATIENCE):
                said, wrong = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, wrong.decode()[-4000:]
    return json.loads(said.decode().splitlines()[-1])


async def test_vendors_clients_for_javascript(peers: Peers):
    """Text, tools over turns, streams, a schema, refusals, cancelling; and retries that ask a person once."""
    person = Person()
    seen = await run(peers, "vendors_js", person)
    assert seen["openai"] == {
        "text": SAID,
        "tool": WEATHER,
        "streamed": SAID,
        "formed": {"city": "Graz"},
        "refused": [403, "refused_user"],
        "retried": "It is said: think, JavaScript of OpenAI",
        "cancelled": "ended",
        "response": SAID,
    }
    assert seen["anthropic"] == {
        "text": SAID,
        "tool": WEATHER,
        "streamed": SAID,
        "refused": [403, "permission_error"],
        "retried": "It is said: think, JavaScript of Anthropic",
        "counts": True,
    }
    assert person.thought == ["think, JavaScript of OpenAI", "think, JavaScript of Anthropic"]


# Their imports alone take most of a minute where others use the processors.
@pytest.mark.timeout(4 * PATIENCE)
async def test_frameworks_for_python(peers: Peers):
    """LangChain over both vendors' clients, and LiteLLM's own."""
    seen = await run(peers, "pythonapi_frameworks", Person())
    chat = {"text": SAID, "tool": WEATHER, "streamed": SAID, "formed": "Graz", "refused": 403}
    lite = {"text": SAID, "streamed": SAID, "counted": True}
    assert seen == {
        "langchain-openai": chat,
        "langchain-anthropic": chat,
        "litellm-openai": lite,
        "litellm-anthropic": lite,
    }


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
async def test_agents_of_pydantic_ai(kind: str):
    """An agent with a tool, in this process; its model is made as its own documentation shows."""
    here = door(Host(Model(), review="never"))
    async with here as opened, opened.openai() as openai, opened.anthropic() as anthropic:
        theirs = OpenAIProvider(openai_client=openai)
        models = {
            "chat": lambda: OpenAIChatModel("gpt-5", provider=theirs),
            "responses": lambda: OpenAIResponsesModel("gpt-5", provider=theirs),
            "anthropic": lambda: AnthropicModel("claude", provider=AnthropicProvider(anthropic_client=anthropic)),
        }
        agent = Agent(models[kind]())

        @agent.tool_plain
        def weather(city: str) -> str:
            return f"snow in {city}"

        assert (await agent.run("weather?")).output == "It is snow in Graz"
