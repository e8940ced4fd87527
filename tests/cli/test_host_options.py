from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.cli.host_options import Answering, _describe_duration, choose_host, read_configuration
from antiphon.cli.options import AnswerOptions
from antiphon.cli.output.progress import Teller
from antiphon.errors import ConfigError, Rejected
from antiphon.host import Audit, open_store
from antiphon.host.review.queue import Queue
from antiphon.host.store.chain import Record
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams

ORIGIN = Origin(id="1", identity="command:x", target="x")
PARAMS = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="Hello"))], max_tokens=50
)


def answering(**options: Any) -> tuple[Answering, io.StringIO]:
    """Make an answerer, and the stream it tells on."""
    stream = io.StringIO()
    return Answering(choose_host(AnswerOptions(**options)), Teller(stream)), stream


def form(**properties: object) -> ElicitRequestParams:
    """Make a form of which every field is required."""
    return ElicitRequestParams.form("Fill in", {"type": "object", "properties": properties, "required": [*properties]})


async def test_yes_answers_without_asking():
    """By the provider, and says who it was."""
    answerer, stream = answering(yes=True, provider="echo")
    assert (await answerer.sample(PARAMS, ORIGIN)).text == "[echo] Hello"
    assert stream.getvalue().startswith("sampling request answered by 'echo' in ")


async def test_what_is_answered_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without a word of configuration, in the user's state folder; nothing is made there before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    answerer, _ = answering(yes=True, provider="echo")
    assert not (tmp_path / "antiphon").exists()
    await answerer.sample(PARAMS, ORIGIN)
    await answerer.host.aclose()
    store = open_store(tmp_path / "antiphon" / "host.db")
    steps = [entry.record.step async for entry in Audit(store).entries()]
    assert steps == ["received", "policy", "generate", "answered", "settled"]
    await store.aclose()


async def test_deny_refuses():
    """By policy; the line says what to do about it."""
    answerer, stream = answering(deny=True)
    with pytest.raises(Rejected):
        await answerer.sample(PARAMS, ORIGIN)
    assert stream.getvalue() == (
        "sampling request refused: the policy of this host refuses it; antiphon policy show lists the rules; "
        "--deny refuses everything\n"
    )
    assert (await answerer.elicit(form(a={"type": "string"}), ORIGIN)).action == "decline"


async def test_without_a_terminal_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch):
    """Nobody can be asked."""
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: None)
    answerer, stream = answering()
    with pytest.raises(Rejected):
        await answerer.sample(PARAMS, ORIGIN)
    assert "--yes answers without asking" in stream.getvalue()


async def test_yes_sends_a_form_whose_defaults_suffice():
    """And no other, and visits no address."""
    answerer, _ = answering(yes=True, provider="echo")
    accepted = await answerer.elicit(form(a={"type": "string", "default": "x"}), ORIGIN)
    assert (accepted.action, accepted.content) == ("accept", {"a": "x"})
    assert (await answerer.elicit(form(a={"type": "string"}), ORIGIN)).action == "decline"
    assert (await answerer.elicit(ElicitRequestParams.visit("Go", "https://x.y"), ORIGIN)).action == "decline"


def test_yes_and_deny_contradict_each_other():
    """Whoever types both means neither."""
    with pytest.raises(ConfigError, match="contradict"):
        choose_host(AnswerOptions(yes=True, deny=True))


def write(text: str) -> Path:
    """Write a configuration."""
    path = Path("own.toml")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
async def test_a_configured_model_can_be_named():
    """And no other answers in its place."""
    config = write("[models.a]\nprovider='echo'\nmodel='echo'\n[models.b]\nprovider='openai'\nmodel='gpt-5-mini'")
    host = choose_host(AnswerOptions(yes=True, model="b"), config=config)
    assert host.provider.name == "b"
    with pytest.raises(ConfigError, match="no model 'c'; there are: a, b"):
        choose_host(AnswerOptions(yes=True, model="c"), config=config)


@pytest.mark.usefixtures("folder")
def test_whoever_is_refused_needs_no_configuration():
    """A list of tools works with a broken file."""
    Path("antiphon.toml").write_text("nonsense", encoding="utf-8")
    assert choose_host(AnswerOptions(deny=True)).provider.name == "echo"
    with pytest.raises(ConfigError, match="not TOML"):
        choose_host(AnswerOptions())


@pytest.mark.usefixtures("folder")
def test_the_key_in_the_environment_chooses(monkeypatch: pytest.MonkeyPatch):
    """Where nothing is configured."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert choose_host(AnswerOptions(yes=True)).provider.name == "gpt-5-mini"


def test_a_file_of_servers_is_none_of_ours(tmp_path: Path):
    """``--config`` may name either kind, of files that are there."""
    servers = tmp_path / "servers.json"
    with pytest.raises(ConfigError, match=r"servers\.json: No such file"):
        read_configuration(servers, {})
    servers.write_text("{}", encoding="utf-8")
    assert read_configuration(servers, {}).files == ()


def test_a_store_without_a_terminal_keeps_the_questions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """So that whoever looks into it decides; at a terminal they are asked there, unless the store is wanted."""
    where = str(tmp_path / "host.db")
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: None)
    assert isinstance(choose_host(AnswerOptions(store=where)).reviewer, Queue)
    assert not isinstance(choose_host(AnswerOptions()).reviewer, Queue)
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: "terminal")
    assert not isinstance(choose_host(AnswerOptions(store=where)).reviewer, Queue)
    assert isinstance(choose_host(AnswerOptions(store=where, review="queue")).reviewer, Queue)


def test_the_queue_is_in_the_usual_store_if_none_is_named():
    """Where ``antiphon review`` looks, too."""
    assert isinstance(choose_host(AnswerOptions(review="queue")).reviewer, Queue)


def test_no_queue_can_be_in_memory():
    """No other process would see a question."""
    with pytest.raises(ConfigError, match="--review queue needs a store that antiphon review can open"):
        choose_host(AnswerOptions(review="queue", store="memory"))


@pytest.mark.usefixtures("folder")
async def test_the_configured_store_is_opened_and_closed(tmp_path: Path):
    """It outlives the host: the same answer is in the audit of the next one."""
    config = write("[defaults]\nstore = 'host.db'\n")
    for number in (1, 2):
        host = choose_host(AnswerOptions(yes=True, provider="echo"), config=config)
        await host(PARAMS, ORIGIN)
        recorded = [entry.record.step for entry in await host.store.entries()]
        assert recorded.count("answered") == number
        await host.aclose()
    assert (tmp_path / "host.db").stat().st_mode & 0o777 == 0o600


async def test_yes_confirms_no_call_of_a_tool(tmp_path: Path):
    """Nobody is there to see it."""
    host = choose_host(AnswerOptions(yes=True))
    assert await host.confirm(CallToolRequestParams.of("f"), ORIGIN)  # allowed by policy, not by the stand-in
    denied = choose_host(AnswerOptions(deny=True))
    with pytest.raises(Rejected):
        await denied.confirm(CallToolRequestParams.of("f"), ORIGIN)


async def test_what_a_model_took_is_told(monkeypatch: pytest.MonkeyPatch):
    """How long, of how many tokens, and for how much; a model that counts nothing took nothing."""
    record = Record(at=1.0, ask="1", identity="x", method="m", step="generate")
    settled = {"step": "settled", "input_tokens": 30, "output_tokens": 12}
    priced = msgspec.structs.replace(record, at=2.5, **settled, money=2_000_000)
    answered = msgspec.structs.replace(record, at=2.5, step="answered")
    assert _describe_duration([record, answered, priced]) == " in 1.5 s, 42 tokens, $0.002"
    assert _describe_duration([record, answered, msgspec.structs.replace(priced, money=0)]) == " in 1.5 s, 42 tokens"
    assert (
        _describe_duration([record, answered, msgspec.structs.replace(priced, input_tokens=0, output_tokens=0)]) == ""
    )
    assert _describe_duration([answered]) == ""
