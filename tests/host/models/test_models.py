from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal

import pytest

from antiphon.errors import ConfigError, InternalError, InvalidParams
from antiphon.host.host import Host
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models import models as models_module
from antiphon.host.models.models import Models, RetryPatience
from antiphon.host.providers.base import Metered, Provider, ProviderFailure, Usage, completion_of
from antiphon.machine.public_names import describe_install
from antiphon.wire.content import ImageContent
from antiphon.wire.sampling import ModelHint, ModelPreferences, SamplingMessage
from tests.host.asks import origin, request
from tests.support.vendors import openai
from tests.support.vendors.site import KEY, failing, serving, silent

ENVIRON = {"OPENAI_API_KEY": KEY}
PRICE = ModelPrice(input=Decimal(1), output=Decimal(2))
ECHO = Model(name="echo", provider="echo", model="echo", context=100_000, tools=True, price=PRICE)


def at(site, name="mine", **more) -> Model:
    """Configure a model at a site."""
    address = f"{site.url}/v1"
    return Model(name=name, provider="openai", model="gpt-4o", base_url=address, context=100_000, price=PRICE, **more)


async def no_wait(seconds: float) -> None:
    """Wait no time."""


def provider(*models: Model, environ=None, **options) -> Models:
    """Put models behind a provider that does not wait."""
    options.setdefault("sleep", no_wait)
    return Models(ModelCatalogue(models), ENVIRON if environ is None else environ, **options)


def test_it_is_a_provider_that_counts():
    """For the pipeline."""
    made: Provider = provider(ECHO)
    assert isinstance(made, Metered)
    assert (made.name, made.tools, made.personal) == ("echo", True, False)


def test_no_model_is_no_provider():
    """The remedy is named."""
    with pytest.raises(ConfigError, match=r"antiphon\.toml"):
        Models(ModelCatalogue(()), {})


async def test_the_echo_is_a_model_like_any():
    """Free, and it needs no key."""
    done = await provider(ECHO, environ={}).generate(request("Hello"))
    assert (done.result.text, done.by) == ("[echo] Hello", "echo")


async def test_the_chosen_model_answers():
    """By its name."""
    async with serving(openai, openai.answer("Hi")) as site:
        made = provider(ECHO, at(site))
        done = await completion_of(made, request(), model="mine")
        await made.aclose()
    assert (done.result.text, done.by, done.usage) == ("Hi", "mine", Usage(input_tokens=11, output_tokens=7))


async def test_without_a_choice_it_chooses_itself():
    """So that it works behind a host that knows nothing of models."""
    async with serving(openai, openai.answer("Hi")) as site:
        made = provider(ECHO, at(site))
        wishes = ModelPreferences(hints=[ModelHint(name="gpt-4o")])
        assert (await made.complete(request(model_preferences=wishes))).text == "Hi"
        result = await Host(made, review="never", reviewer=None)(request(model_preferences=wishes), origin())
        await made.aclose()
    assert result.text == "Hi"


async def test_a_model_without_its_key_is_not_eligible():
    """The record says which variable is missing."""
    selection = provider(Model(name="a", provider="openai", model="x", context=1000), environ={}).select(request())
    ((obstacle,),) = (each.obstacles for each in selection.candidates)
    assert (selection.winner, obstacle.code) == (None, "unavailable")
    assert obstacle.detail == "the environment has no OPENAI_API_KEY"


async def test_nobody_who_can_answer_is_a_failure():
    """With the reasons."""
    with pytest.raises(ProviderFailure, match="a: the environment has no OPENAI_API_KEY"):
        await provider(Model(name="a", provider="openai", model="x", context=1000), environ={}).generate(request())


async def test_it_tries_again():
    """After what may pass."""
    busy = failing(503, openai.error("busy", 503))
    async with serving(openai, busy, failing(429, openai.error("slow", 429)), openai.answer("Hi")) as site:
        made = provider(at(site))
        assert (await made.generate(request())).result.text == "Hi"
        await made.aclose()
    assert len(site.seen) == 3


async def test_a_fallback_stands_in():
    """Only one that was allowed, and the answer says whose it is."""
    async with serving(openai, failing(401, openai.error("no", 401))) as site:
        made = provider(at(site, fallback="echo"), ECHO)
        done = await made.generate(request("Hello"), model="mine", fallbacks=("echo",))
        assert (done.result.text, done.by) == ("[echo] Hello", "echo")
        with pytest.raises(ProviderFailure):
            await made.generate(request("Hello"), model="mine")
        await made.aclose()


async def test_a_refusal_is_not_carried_to_a_fallback():
    """A no is a no."""
    async with serving(openai, openai.refusal()) as site:
        made = provider(at(site), ECHO)
        with pytest.raises(ProviderFailure) as failure:
            await made.generate(request(), model="mine", fallbacks=("echo",))
        await made.aclose()
    assert failure.value.kind == "refused"


async def test_the_deadline_is_over_all_attempts():
    """A service that never answers has failed in the end."""
    async with serving(openai, silent) as site:
        made = provider(at(site), patience=RetryPatience(deadline=0.3))
        with pytest.raises(ProviderFailure, match=r"no answer in 0\.3 seconds") as failure:
            await made.generate(request())
        await made.aclose()
    assert failure.value.kind == "timeout"


async def test_warm_opens_nothing():
    """It loads and prepares; the vendor hears nothing yet, and the client is kept."""
    async with serving(openai, openai.answer("Hi")) as site:
        made = provider(at(site))
        await made.warm()
        await made.warm("mine")
        assert site.seen == []
        assert [*made._vendors] == ["mine"]
        await made.aclose()


async def test_warming_the_echo_is_nothing():
    """It has nothing to load."""
    made = provider(ECHO)
    await made.warm()
    assert made._vendors == {}


async def test_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch):
    """With the command that installs them."""
    monkeypatch.setattr(models_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=re.escape(describe_install("openai"))):
        await provider(Model(name="a", provider="openai", model="x", context=1000)).warm()


@pytest.mark.parametrize(("name", "extra"), [("anthropic", "anthropic"), ("gemini", "google"), ("openai", "openai")])
async def test_the_packages_of_one_vendor_are_told(monkeypatch: pytest.MonkeyPatch, name: str, extra: str):
    """Another vendor's model is taken where that one has its packages."""
    homes = {"anthropic": "anthropic", "google": "google.genai", "openai": "openai"}
    monkeypatch.setattr(models_module, "find_spec", lambda package: None if package == homes[extra] else object())
    made = provider(
        Model(name="a", provider=name, model="x", context=1000, base_url="http://127.0.0.1:9"),
        Model(name="b", provider="groq", model="x", context=1000, base_url="http://127.0.0.1:9"),
        environ={"GROQ_API_KEY": KEY},
    )
    with pytest.raises(ConfigError, match=re.escape(f"models of {name} need more packages: {describe_install(extra)}")):
        await made.warm()
    assert made.select(request()).winner == "b"


def test_a_vendor_in_a_package_that_is_missing_is_missing(monkeypatch: pytest.MonkeyPatch):
    """Google's is one of several in a namespace."""
    monkeypatch.setitem(models_module._EXTRAS, "google", ("google", "no_such_package.genai"))
    with pytest.raises(ConfigError, match="models of google need more packages"):
        models_module._import_adapter(Model(name="a", provider="google", model="x", context=1000))


def test_nothing_heavy_is_loaded_before_it_is_needed():
    """Neither pydantic nor a vendor's library."""
    program = (
        "import sys; from antiphon.host.models.models import Models; import antiphon.host.config; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert {"pydantic", "pydantic_ai", "openai", "anthropic", "google.genai", "genai_prices", "httpx2"}.isdisjoint(
        done.stdout.split()
    )


def bomb() -> ImageContent:
    """Make a picture of a few bytes that unpacks to 3.6 GB."""
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (30_000).to_bytes(4, "big") * 2
    return ImageContent.of(header + b"\x08\x06\x00\x00\x00", "image/png")


@pytest.mark.parametrize(
    "block",
    [bomb(), ImageContent.of(b"<svg/>", "image/svg+xml"), ImageContent.of(b"RIFF1234WAVE", "image/png")],
    ids=["bomb", "svg", "sound as picture"],
)
async def test_media_that_is_not_what_it_seems_reaches_no_vendor(block: ImageContent):
    """The host refuses the request before anybody is chosen."""
    message = SamplingMessage(role="user", content=block)
    async with serving(openai, openai.answer("Hi")) as site:
        made = provider(at(site, inputs=("text", "image")))
        with pytest.raises(InvalidParams):
            await Host(made, review="never", reviewer=None)(request(messages=[message]), origin())
        await made.aclose()
    assert site.seen == []


async def test_what_a_vendor_writes_reaches_no_server(caplog: pytest.LogCaptureFixture):
    """Nor the log: neither its text nor the key in it."""
    body = openai.error(f"Incorrect API key provided: {KEY}, see http://internal.example", 401)
    async with serving(openai, failing(401, body)) as site:
        made = provider(at(site))
        with pytest.raises(InternalError) as error:
            await Host(made, review="never", reviewer=None)(request(), origin())
        await made.aclose()
    told = f"{error.value!s} {error.value.data} {caplog.text}"
    assert not any(secret in told for secret in (KEY, "Incorrect", "internal.example"))
    assert "mine at openai: the key was not accepted (HTTP 401" in caplog.text
