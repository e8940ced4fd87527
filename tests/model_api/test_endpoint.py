"""The model API as programs meet it: the vendors' own clients, unmodified, and processes that a client starts."""

from __future__ import annotations

import base64
import io
import sys
import wave
from pathlib import Path

import pytest
from pydantic import BaseModel

from antiphon import Client, Server
from antiphon.host import Host, Scripted
from antiphon.host.budget import Budget, Cap
from antiphon.host.checks.policy_rules import Policy
from antiphon.model_api.endpoint import ModelEndpoint, serve_model_api
from antiphon.wire.content import ImageContent, TextContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult
from tests.host.asks import Person, approve, origin, write
from tests.model_api.served import Slow, asked, door

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def uses(name: str, **given) -> CreateMessageResult:
    """Answer with the use of a tool."""
    use = ToolUseContent(id="use-1", name=name, input=given)
    return CreateMessageResult(role="assistant", content=[use], model="scripted", stop_reason="toolUse")


async def test_openai_client_talks_over_turns_with_tools_and_images():
    """The vendor's client, unmodified: a tool is used, its result goes back, and the host sees MCP's own messages."""
    provider = Scripted([uses("weather", city="Graz"), "It snows in Graz."])
    tool = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, picture]},
    ]
    async with door(Host(provider, review="never")) as here, here.openai() as client:
        first = await client.chat.completions.create(model="gpt-5", messages=said, tools=[tool], max_tokens=50)
        call = first.choices[0].message.tool_calls[0]
        assert (first.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")
        said += [
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "snow"},
        ]
        second = await client.chat.completions.create(model="gpt-5", messages=said, tools=[tool], max_tokens=50)
    assert second.choices[0].message.content == "It snows in Graz."
    sent = provider.requests[1]
    assert sent.system_prompt == "Be brief."
    assert [message.role for message in sent.messages] == ["user", "assistant", "user"]
    assert [type(block) for block in sent.messages[0].blocks] == [TextContent, ImageContent]
    assert sent.messages[2].blocks[0].text == "snow"
    assert sent.model_preferences.hints[0].name == "gpt-5"


async def test_anthropic_client_talks_over_turns_with_tools_and_streams():
    """The other vendor's client reads the same host's answers in its own form, streamed and whole."""
    provider = Scripted([uses("weather", city="Graz"), "It snows in Graz."])
    tools = [{"name": "weather", "input_schema": WEATHER}]
    said: list = [{"role": "user", "content": "How is it in Graz?"}]
    async with door(Host(provider, review="never")) as here, here.anthropic() as client:
        async with client.messages.stream(model="claude", max_tokens=50, messages=said, tools=tools) as stream:
            first = await stream.get_final_message()
        assert first.stop_reason == "tool_use"
        assert first.content[0].input == {"city": "Graz"}
        result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "snow"}
        said += [
            {"role": "assistant", "content": [block.model_dump() for block in first.content]},
            {"role": "user", "content": [result, {"type": "text", "text": "Briefly."}]},
        ]
        second = await client.messages.create(model="claude", max_tokens=50, messages=said, tools=tools)
        counted = await client.messages.count_tokens(model="claude", messages=said)
    assert (second.content[0].text, second.stop_reason) == ("It snows in Graz.", "end_turn")
    assert [message.role for message in provider.requests[1].messages] == ["user", "assistant", "user", "user"]
    assert counted.input_tokens > 0


def sound() -> bytes:
    """Make a tenth of a second of silence."""
    written = io.BytesIO()
    with wave.open(written, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(8_000)
        made.writeframes(bytes(1_600))
    return written.getvalue()


async def test_sound_is_carried_if_it_is_what_it_says():
    """Audio of the vendor's client arrives as MCP's; what is declared wrongly is refused with its place."""
    import openai

    provider = Scripted(["Silence."])

    def heard(data: bytes, form: str) -> list:
        part = {"data": base64.b64encode(data).decode(), "format": form}
        return [{"role": "user", "content": [{"type": "input_audio", "input_audio": part}]}]

    async with door(Host(provider, review="never")) as here, here.openai() as client:
        said = await client.chat.completions.create(model="gpt-audio", messages=heard(sound(), "wav"))
        for wrong in (heard(sound(), "mp3"), heard(b"no sound", "wav"), heard(sound(), "flac")):
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model="gpt-audio", messages=wrong)
            assert refused.value.param.startswith("messages[0].content[0]")
    assert said.choices[0].message.content == "Silence."
    assert [block.bytes for block in provider.requests[0].messages[0].blocks] == [sound()]


async def test_responses_talk_over_turns_with_tools_streamed_and_whole():
    """The newer of OpenAI's two interfaces: the whole conversation is sent each time, as nothing is kept."""
    import openai

    provider = Scripted([uses("weather", city="Graz"), "It snows in Graz.", uses("give_answer", city="Graz")])
    tool = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}
    async with door(Host(provider, review="never")) as here, here.openai() as client:
        said: list = [{"role": "user", "content": "How is it in Graz?"}]
        async with client.responses.stream(model="gpt-5", input=said, tools=[tool]) as stream:
            first = await stream.get_final_response()
        call = first.output[0]
        assert (call.type, call.name, call.arguments) == ("function_call", "weather", '{"city":"Graz"}')
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "snow"}
        said += [call.model_dump(exclude_none=True), output]
        second = await client.responses.create(model="gpt-5", input=said, tools=[tool], instructions="Be brief.")
        assert (second.output_text, second.status) == ("It snows in Graz.", "completed")

        class Place(BaseModel):
            city: str

        third = await client.responses.parse(model="gpt-5", input="Where?", text_format=Place)
        assert third.output_parsed == Place(city="Graz")
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="gpt-5", input="More.", previous_response_id=second.id)
    assert [message.role for message in provider.requests[1].messages] == ["user", "assistant", "user"]
    assert provider.requests[1].system_prompt == "Be brief."


async def test_answer_in_a_schema_is_read_into_a_type():
    """A JSON schema is offered as the only tool, whose input becomes the text that the client parses."""
    import openai

    class Place(BaseModel):
        city: str

    provider = Scripted([uses("give_answer", city="Graz"), uses("give_answer", town="Graz")])
    async with door(Host(provider, review="never")) as here, here.openai() as client:
        said = [{"role": "user", "content": "Where?"}]
        read = await client.chat.completions.parse(model="gpt-5", messages=said, response_format=Place)
        assert read.choices[0].message.parsed == Place(city="Graz")
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.parse(model="gpt-5", messages=said, response_format=Place)
    assert provider.requests[0].tool_choice.mode == "required"
    assert (failed.value.status_code, failed.value.code) == (502, "not_in_schema")


async def test_refusals_are_the_vendors_errors_and_are_not_repeated():
    """A policy, a budget and a wrong request fail as the vendors' own errors, once each: clients do not retry them."""
    import anthropic
    import openai

    provider = Scripted([])
    denies = Host(provider, policy=Policy(default="deny"))
    async with door(denies) as here, here.openai() as client, here.anthropic() as other:
        with pytest.raises(openai.PermissionDeniedError) as refused:
            await client.chat.completions.create(**asked())
        with pytest.raises(anthropic.PermissionDeniedError):
            await other.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "x"}])
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(**asked(logprobs=True))
    assert refused.value.code == "refused_policy"
    assert wrong.value.param == "logprobs"
    spent = Host(provider, review="never", budget=Budget(total=Cap(tokens=3)))
    async with door(spent) as here, here.openai() as client:
        with pytest.raises(openai.RateLimitError) as empty:
            await client.chat.completions.create(**asked())
    assert empty.value.code == "insufficient_quota"
    assert len({record.ask for record in spent.audit.records()}) == 1


async def test_stream_flows_while_the_answer_comes():
    """The first words reach the client before the answer is whole, and the stream ends with the usage."""
    provider = Slow()
    async with door(Host(provider, review="never")) as here, here.openai() as client:
        provider.pieces.put_nowait("It has been snowing in Graz since ")
        stream = await client.chat.completions.create(**asked(stream=True, stream_options={"include_usage": True}))
        texts: list[str] = []
        async for chunk in stream:
            texts += [choice.delta.content or "" for choice in chunk.choices]
            if any(texts) and provider.pieces.empty() and provider.requests == 1 and "morning" not in "".join(texts):
                early = "".join(texts)
                provider.pieces.put_nowait("the morning.")
                provider.pieces.put_nowait(None)
            usage = chunk.usage
    assert "It has been snowing".startswith(early[:10])
    assert "".join(texts) == "It has been snowing in Graz since the morning."
    assert (usage.prompt_tokens, usage.completion_tokens) == (7, 5)


async def test_answer_that_a_person_reviews_does_not_flow():
    """Where answers are reviewed, nothing of one is sent before the person has let it pass."""
    provider, shown = Slow(), []

    def rewrite(item):
        shown.append(item.result is not None)
        return approve(item) if item.result is None else write("Rewritten.")(item)

    host = Host(provider, reviewer=Person(rewrite), review_response="always")
    async with door(host) as here, here.openai() as client:
        for piece in ("A very long secret plan of words ", "that goes on and on.", None):
            provider.pieces.put_nowait(piece)
        stream = await client.chat.completions.create(**asked(stream=True))
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert (said, shown) == ("Rewritten.", [False, True])


async def test_started_server_has_a_token_for_a_key_and_loses_it_with_its_end(tmp_path: Path, monkeypatch):
    """A server with the vendor's client in it, unmodified: no key reaches it, and its token ends with it."""
    import openai

    monkeypatch.setenv("OPENAI_ORG_ID", "org-real")
    program = tmp_path / "theirs.py"
    program.write_text(
        "import os, subprocess, sys, openai\n"
        "from antiphon import Server\n"
        "server = Server('theirs')\n"
        "@server.tool\n"
        "async def describe(what: str) -> str:\n"
        "    async with openai.AsyncOpenAI() as client:\n"
        "        said = await client.chat.completions.create(\n"
        "            model='gpt-5', messages=[{'role': 'user', 'content': what}])\n"
        "    return said.choices[0].message.content\n"
        "@server.tool\n"
        "def models() -> dict[str, str]:\n"
        "    code = 'import openai; print(*(each.id for each in openai.OpenAI().models.list()))'\n"
        "    line = [sys.executable, '-c', code]\n"
        "    said = subprocess.run(line, capture_output=True, text=True, start_new_session=True)\n"
        "    return {'names': said.stdout.strip()}\n"
        "@server.tool\n"
        "def environment() -> dict[str, str]:\n"
        "    return dict(os.environ)\n"
        "server.run()\n"
    )
    host = Host("echo", review="never", model_api=serve_model_api)
    entry = {"command": sys.executable, "args": [str(program)], "env": {"OPENAI_API_KEY": "sk-real", "NO_PROXY": "x.y"}}
    async with Client(entry, sampling=host, inherit_env=True) as client:
        told = (await client.call_tool("environment", {})).structured_content
        answer = await client.call_tool("describe", {"what": "a sweater"})
        listed = (await client.call_tool("models", {})).structured_content
        ours = openai.AsyncOpenAI(base_url=told["OPENAI_BASE_URL"], api_key=told["OPENAI_API_KEY"])
        async with ours:
            # The token is right, and this process is not the one it was given to.
            with pytest.raises(openai.AuthenticationError, match="another process"):
                await ours.models.list()
    async with openai.AsyncOpenAI(base_url=told["OPENAI_BASE_URL"], api_key=told["OPENAI_API_KEY"]) as late:
        with pytest.raises(openai.AuthenticationError, match="was revoked"):
            await late.models.list()
    await host.aclose()
    assert answer.content[0].text == "[echo] a sweater"
    # A process that the server starts, in a session of its own, belongs to it.
    assert listed == {"names": "echo"}
    assert "sk-real" not in told.values()
    assert "OPENAI_ORG_ID" not in told
    assert told["NO_PROXY"] == "x.y,127.0.0.1,localhost"
    records = [record for record in host.audit.records() if record.step == "received"]
    assert [(record.outcome, record.tool) for record in records] == [("model-api", "describe")]


async def test_memory_server_gets_no_equipment():
    """A server object in this process has no environment of its own: nothing listens for it."""
    server = Server("here")

    @server.tool
    def hello() -> str:
        """Greet."""
        return "hello"

    host = Host("echo", review="never", model_api=serve_model_api)
    async with Client(server, sampling=host) as client:
        assert (await client.call_tool("hello", {})).content[0].text == "hello"
    assert isinstance(host._model_api, ModelEndpoint)
    assert host._model_api._serving is None
    await host.aclose()


async def test_a_server_is_not_started_for_an_endpoint_that_cannot_open(monkeypatch: pytest.MonkeyPatch):
    """Whatever is missing is said, rather than waited for."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr("antiphon.model_api.endpoint.serve_embedded", fail)
    async with Host(Scripted([]), model_api=serve_model_api) as host:
        with pytest.raises(RuntimeError, match="no room"):
            await host.equip(origin)
