"""Commands that reach a model: the real adapter, and a vendor on loopback."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.program import SERVERS, SHOP, in_process
from tests.support.vendors import openai
from tests.support.vendors.site import failing, serving

KEY = "sk-loopback-0123456789abcdef"


@pytest.fixture
def run(cli, monkeypatch):
    """Run a command beside the loop that the vendor is on: in this process, where the vendor's library is loaded."""

    async def run(*words: str, **env: str):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return await asyncio.to_thread(cli, *words)

    return run


@pytest.mark.parametrize("env", [{}, {"OPENAI_API_KEY": KEY}], ids=["keyless", "key"])
async def test_the_demo_reaches_a_service_at_home(env, run):
    """With nothing configured but an address."""
    async with serving(openai, openai.answer("A warm sweater", model="home-model")) as site:
        done = await run(
            "demo",
            "--yes",
            "-n",
            "2",
            "--interval",
            "0",
            "--json",
            "--no-messages",
            OPENAI_BASE_URL=f"{site.url}/v1",
            **env,
        )
    assert (done.code, done.err) == (0, "")
    answers = [event for event in done.objects if event["event"] == "answer"]
    assert [(each["model"], each["text"]) for each in answers] == [("home-model", "A warm sweater")] * 2
    assert done.objects[-2]["stored"] == 2
    assert "selling product description" in str(site.seen[0].body)
    assert openai.bound(site.seen[0].body) == 300


@pytest.mark.parametrize(("words", "said"), [(("--model", "work"), "Soft"), ((), "[echo]")])
async def test_a_configured_model_is_used(words, said, tmp_path, run):
    """By its name, with the key that is named for it; by default the first one."""
    config = tmp_path / "own.toml"
    async with serving(openai, openai.answer("Soft")) as site:
        config.write_text(
            f"""
            [models.other]
            provider = "echo"
            model = "echo"
            [models.work]
            provider = "openai"
            model = "gpt-4o"
            key = "WORK_KEY"
            base_url = "{site.url}/v1"
            context = 100000
            price = {{ input = 1, output = 2 }}
            """,
            encoding="utf-8",
        )
        options = ["--yes", "-n", "1", "--interval", "0", "--json", "--no-messages", "--config", str(config)]
        done = await run("demo", *options, *words, WORK_KEY=KEY)
    [answer] = [event["text"] for event in done.objects if event["event"] == "answer"]
    assert answer.startswith(said)
    assert [seen.headers["authorization"] for seen in site.seen] == ([f"Bearer {KEY}"] if words else [])


async def test_what_a_vendor_writes_goes_to_nobody():
    """Not to the server, not to what the process prints: neither its text nor the key in it."""
    body = openai.error(f"Incorrect API key provided: {KEY}", 401)
    async with serving(openai, failing(401, body)) as site:
        done = await asyncio.to_thread(
            in_process,
            *("demo", "--yes", "-n", "1", "--interval", "0", "--messages"),
            env={"OPENAI_BASE_URL": f"{site.url}/v1", "OPENAI_API_KEY": KEY},
        )
    assert done.code == 1
    assert KEY not in done.out + done.err
    assert "Incorrect" not in done.out + done.err


async def test_a_call_may_name_its_model(run):
    """As for the demonstration."""
    async with serving(openai, openai.answer("Soft")) as site:
        done = await run(
            *("call", SHOP, "describe", "product=sweater", "--yes", "--provider", "openai", "--model", "gpt-4.1"),
            OPENAI_BASE_URL=f"{site.url}/v1",
        )
    assert (done.code, site.seen[0].body["model"]) == (0, "gpt-4.1")
    assert "Soft" in done.out


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_pictures_and_tools_reach_the_model(revision, run):
    """The picture in the first turn, the use of the tool back to the server, its result in the second."""
    answers = openai.answer(("price", {"sku": "P-1"}), stop="tool_calls"), openai.answer("Warm, for 49.50 EUR")
    async with serving(openai, *answers) as site:
        looker = str(SERVERS / "looker.py")
        done = await run("call", looker, "look", "--yes", "--revision", revision, OPENAI_BASE_URL=f"{site.url}/v1")
    assert (done.code, done.out.strip()) == (0, "gpt-4o in 2 turns: Warm, for 49.50 EUR"), done.err
    first, second = (seen.body for seen in site.seen)
    assert "data:image/png;base64,iVBOR" in str(first["messages"])
    assert [tool["function"]["name"] for tool in first["tools"]] == ["price"]
    assert [message["role"] for message in second["messages"]][-2:] == ["assistant", "tool"]
    assert "49.5" in str(second["messages"][-1])
