from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon.host.model_catalogue import Model
from antiphon.host.models.selection import USUAL, complete_model, fill_in_model, model_of, standard_model
from antiphon.host.providers.base import missing_key


def test_without_a_key_the_model_lacks_one():
    """No echo stands in, because its answer would pass for a real one."""
    model = standard_model({"HOME": "/"})
    assert model.provider == next(iter(USUAL))
    assert missing_key(model, {"HOME": "/"})


@pytest.mark.parametrize("provider", USUAL)
def test_a_key_brings_its_vendors_usual_model(provider: str):
    """With all that is needed to choose it: price, context, what it takes."""
    model = complete_model(standard_model({USUAL[provider].keys[0]: "key"}))
    assert (model.provider, model.model) == (provider, USUAL[provider].model)
    assert None not in (model.price, model.context, model.tools, model.inputs, model.speed, model.intelligence)


def test_another_model_can_be_named():
    """In the environment as well."""
    assert standard_model({"OPENAI_API_KEY": "key", "OPENAI_MODEL": "gpt-4.1"}).model == "gpt-4.1"


def test_an_address_alone_is_a_service_at_home():
    """It needs no key, and what is not known of it is assumed: never that it is free."""
    model = standard_model({"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1", "OPENAI_MODEL": "my-model"})
    assert (model.provider, model.base_url) == ("openai-compatible", "http://127.0.0.1:8080/v1")
    assert (model.tools, model.inputs, model.context) == (True, ("text", "image"), 32_768)
    assert model.price
    assert model.price.output > 0


def test_an_address_and_a_key_go_together():
    """A relay of the vendor's."""
    model = standard_model({"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1", "OPENAI_API_KEY": "key"})
    assert (model.provider, model.base_url) == ("openai", "http://127.0.0.1:8080/v1")


def test_what_the_user_wrote_stands():
    """An address in the file is not overruled by the environment, and nothing is assumed of it."""
    written = Model(name="m", provider="openai", model="x", base_url="http://a/v1")
    assert fill_in_model(written, {"OPENAI_BASE_URL": "http://b/v1"}) == written
    assert (
        fill_in_model(Model(name="m", provider="openai", model="x"), {"OPENAI_BASE_URL": "http://b/v1"}).price is None
    )


def test_a_vendor_can_be_named_alone():
    """Or with a model of it."""
    assert model_of("anthropic", None, {}).model == USUAL["anthropic"].model
    assert model_of("groq", "llama-3.3-70b", {}).model == "llama-3.3-70b"


READ = """
import sys
from pathlib import Path
from antiphon.host.config.toml_files import load_config

models = load_config({"HOME": "/nowhere", "OPENAI_API_KEY": "key"}, folder=Path("/nowhere")).catalogue()
assert [each.name for each in models.given] == ["%s"]
assert "genai_prices" not in sys.modules, "the prices were loaded before anybody asked"
assert next(iter(models)).price is not None
assert "genai_prices" in sys.modules
"""


def test_prices_are_looked_up_when_the_first_is_asked_for():
    """They are large, and most gateways and commands never ask a model."""
    program = READ % USUAL["openai"].model
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
