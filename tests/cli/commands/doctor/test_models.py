"""Each configured model is asked for one word."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.commands.doctor.command import check_models
from antiphon.errors import ConfigError
from tests.cli.conftest import Cli

CONFIG = """
[models.offline]
provider = "echo"
model = "echo"

[models.keyless]
provider = "openai"
model = "gpt-5-mini"

[models.away]
provider = "openai-compatible"
model = "nothing"
base_url = "http://127.0.0.1:9/v1"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a configuration of three models, of which one can answer."""
    file = tmp_path / "antiphon.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


async def test_each_model_is_asked_for_one_word(config: Path):
    """Who answers is told with the word; who does not, with the cause and what to do."""
    offline, keyless, away = await check_models(config, {})
    assert (offline.kind, offline.subject) == ("ok", "offline")
    assert 'answered "[echo] Answer with the one word: ready"' in offline.text
    assert (keyless.kind, keyless.subject) == ("failed", "keyless")
    assert "OPENAI_API_KEY: set it" in keyless.text
    assert (away.kind, away.subject) == ("failed", "away")


def test_the_command_asks_only_when_told(config: Path, cli: Cli):
    """And a model that does not answer is a failure."""
    asked = cli("doctor", "--models", "--config", str(config))
    assert asked.code == 1
    assert "FAIL  keyless" in asked.out
    assert "offline: answered" in asked.out
    assert "offline: answered" not in cli("doctor", "--config", str(config)).out
    assert cli("doctor", "--models", "server.py").code == 2


async def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path):
    """As everywhere."""
    with pytest.raises(ConfigError, match="antiphon"):
        await check_models(tmp_path / "antiphon.toml", {})
