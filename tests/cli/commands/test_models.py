from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

CONFIG = """
[defaults]
model = "mini"

[models.mini]
provider = "openai"
model = "gpt-5-mini"

[models.home]
provider = "openai-compatible"
model = "my-model"
base_url = "http://127.0.0.1:1/v1"
context = 8000
price = { input = 0, output = 0 }

[servers.shop]
identity = "command:shop"
models = ["home"]
"""


@pytest.fixture
def configured(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command where two models are configured, and the key of one is there."""
    Path("antiphon-own.toml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    return lambda *words: cli(*words, "--config", "antiphon-own.toml")


def ask(**more) -> str:
    """Write a request into a file."""
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": 100, **more}
    Path("request.json").write_text(json.dumps(params), encoding="utf-8")
    return "request.json"


def test_without_configuration_a_model_lacks_its_key(cli: Cli):
    """The list names the variable."""
    done = cli("models")
    assert (done.code, done.err) == (0, "")
    assert "ANTHROPIC_API_KEY" in done.out


def test_a_choice_is_explained_for_a_server_as_it_is_called(cli: Cli):
    """By its target, and not by its identity alone: an unknown identity may use all models."""
    Path("shop.py").write_text("", encoding="utf-8")
    text = CONFIG.replace('identity = "command:shop"', 'target = "shop.py"')
    Path("antiphon-own.toml").write_text(text, encoding="utf-8")
    words = ("models", "explain", ask(), "--config", "antiphon-own.toml", "--json")
    [told] = cli(*words, "--server", "shop.py").objects
    assert told["winner"] == "home"
    assert cli(*words, "--server", "nowhere").code == 2


def test_models_are_listed(configured: Cli):
    """With what is known of each; a key is never shown, only whether it is there."""
    done = configured("models")
    assert done.code == 0
    mini, home = (line.split("\t") for line in done.out.splitlines())
    assert mini[:4] == ["mini (default)", "openai: gpt-5-mini", "$0.25 in, $2.00 out", "400000"]
    assert (mini[-1], home[-1]) == ("there", "none needed")
    assert "more and tools unknown" in home[4]
    assert "secret" not in done.out


def test_a_missing_key_is_told(configured: Cli, monkeypatch: pytest.MonkeyPatch):
    """By the name of its variable."""
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "missing: OPENAI_API_KEY" in configured("models").out


def test_models_are_listed_as_json(configured: Cli):
    """One a line."""
    mini, home = configured("models", "--json").objects
    assert (mini["name"], mini["default"], mini["ready"], home["tools"]) == ("mini", True, True, None)


def test_a_choice_is_explained(configured: Cli):
    """A row for each model, and the verdict."""
    done = configured("models", "explain", ask(modelPreferences={"costPriority": 1}))
    assert done.code == 0
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows[:2]] == ["mini", "home"]
    assert rows[-1] == ["=> home: the best score by cost 1"]
    assert rows[1][1:] == ["yes", "none followed", "$0.00", "1.0000", "0.0000", "0.0000", "1.0000"]


def test_a_choice_is_explained_as_json(configured: Cli):
    """The record itself."""
    (record,) = configured("models", "explain", ask(modelPreferences={"hints": [{"name": "gpt"}]}), "--json").objects
    assert (record["winner"], record["rule"], record["match"]) == ("mini", "default", "substring")


def test_a_message_is_a_request_as_well(configured: Cli):
    """As it was on the wire."""
    inner = json.loads(Path(ask()).read_text(encoding="utf-8"))
    Path("message.json").write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "params": inner}), encoding="utf-8")
    assert "=> mini: your default" in configured("models", "explain", "message.json").out


def test_a_server_has_its_own_models(configured: Cli):
    """By its identity."""
    done = configured("models", "explain", ask(), "--server", "command:shop")
    assert "this server may not use it" in done.out
    assert "=> home: the first of your order" in done.out


def test_what_nobody_can_answer_is_1(configured: Cli):
    """Each with its reasons."""
    done = configured("models", "explain", ask(maxTokens=500_000))
    assert done.code == 1
    assert done.out.count("its context has") == 2
    assert done.out.endswith("=> none of them can answer\n")


def test_a_budget_counts(configured: Cli):
    """As it would when it is really asked."""
    assert "it may cost" in configured("models", "explain", ask(), "--left", "0.0000001").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain"], "explain needs a file"),
        (["explain", "none.json"], "none.json: No such file"),
        (["explain", "bad.json"], "bad.json: not a sampling request"),
        (["list", "bad.json"], "list takes no file"),
        (["explain", "request.json", "--left", "much"], "not a number of dollars"),
        (["explain", "request.json", "--left", "-1"], "not a number of dollars"),
        (["explain", "request.json", "--left", "NaN"], "not a number of dollars"),
    ],
)
def test_wrong_usage_is_2(configured: Cli, words: list[str], message: str):
    """And says what is wrong."""
    ask()
    Path("bad.json").write_text('{"maxTokens": "many"}', encoding="utf-8")
    done = configured("models", *words)
    assert message in done.err
    assert done.code == 2


def test_a_mistake_in_the_file_is_2(cli: Cli):
    """With its line."""
    Path("antiphon.toml").write_text("[defaults]\nmodle = 'a'\n", encoding="utf-8")
    done = cli("models")
    assert (done.code, done.err) == (
        2,
        "antiphon: antiphon.toml, line 2: defaults.modle: there is no such key; did you mean 'model'?\n",
    )
