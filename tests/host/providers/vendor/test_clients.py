from __future__ import annotations

import asyncio
import gc
import warnings

import msgspec
import pytest

from antiphon.errors import ConfigError
from antiphon.host.config import Config
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.providers.base import ProviderFailure
from antiphon.host.providers.vendor import adapter
from antiphon.host.providers.vendor.adapter import Vendor, connect_model
from tests.host.asks import request
from tests.host.providers.vendor.ask import VENDORS, asked, model
from tests.support.ports import free_port
from tests.support.vendors import gemini, openai
from tests.support.vendors.site import KEY, endless, failing, serving, unpacking

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.NAME)
OTHERS = {
    "OPENAI_API_KEY": "sk-other",
    "OPENAI_ORG_ID": "org-other",
    "OPENAI_PROJECT_ID": "proj-other",
    "ANTHROPIC_API_KEY": "sk-ant-other",
    "ANTHROPIC_AUTH_TOKEN": "token-other",
    "GEMINI_API_KEY": "AIza-other",
    "GOOGLE_API_KEY": "AIza-other",
}


@every_vendor
async def test_a_vendor_gets_the_one_key_that_is_meant(vendor, monkeypatch):
    """Not what else is in the environment; at an address of one's own, not even the account."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    async with serving(vendor, vendor.answer("Hi")) as site:
        await asked(vendor, site)
    headers = " ".join(site.seen[0].headers.values())
    assert KEY in headers
    assert "-other" not in headers


async def test_a_service_at_home_gets_no_key(monkeypatch):
    """Unless one is named for it; and it is given the bound under the name that all of them know."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    async with serving(openai, openai.answer("Hi")) as site:
        client = Vendor(Model(name="m", provider="openai-compatible", model="qwen3", base_url=f"{site.url}/v1"), None)
        await client.generate(request(max_tokens=33))
        await client.aclose()
    (seen,) = site.seen
    assert "-other" not in " ".join(seen.headers.values())
    assert (seen.body["max_tokens"], "max_completion_tokens" in seen.body) == (33, False)


@every_vendor
@pytest.mark.parametrize("status", [301, 307])
async def test_a_redirect_is_not_followed(vendor, status):
    """It could lead the request, and the key, anywhere."""
    async with (
        serving(vendor, vendor.answer("stolen")) as thief,
        serving(vendor, failing(status, "", Location=f"{thief.url}/v1")) as site,
    ):
        with pytest.raises(ProviderFailure):
            await asked(vendor, site)
    assert thief.seen == []


@every_vendor
async def test_a_packed_answer_is_not_unpacked(vendor):
    """A few kilobytes can hold gigabytes."""
    async with serving(vendor, unpacking(1024 * 1024)) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert failure.value.kind == "connection"


@every_vendor
async def test_an_endless_answer_ends(vendor, monkeypatch):
    """At the bound."""
    monkeypatch.setattr(adapter, "MAX_RESPONSE", 1024 * 1024)
    async with serving(vendor, endless(4 * 1024 * 1024)) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert failure.value.kind == "connection"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "groq"])
def test_without_its_key_nothing_is_made(provider: str, monkeypatch):
    """Not with another's that happens to be there, either."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="the environment has no MY_KEY"):
        connect_model(Model(name="m", provider=provider, model="x", key="MY_KEY"), None)


@pytest.mark.parametrize("provider", ["nobody", "bedrock", "test"])
def test_a_provider_that_cannot_be_reached_so(provider: str):
    """The message says what can."""
    with pytest.raises(ConfigError, match=r'"openai-compatible" with a base_url|pip install'):
        connect_model(Model(name="m", provider=provider, model="x"), "key")


def test_a_service_at_home_needs_an_address():
    """There is no usual one."""
    with pytest.raises(ConfigError, match="needs a base_url"):
        connect_model(Model(name="m", provider="openai-compatible", model="x"), None)


@pytest.mark.parametrize(
    ("provider", "base_url", "address"),
    [
        ("openai", None, "https://api.openai.com/v1"),
        ("openai", "https://eu.api.openai.com/v1", "https://eu.api.openai.com/v1"),
        ("anthropic", None, "https://api.anthropic.com"),
        ("google", None, "https://generativelanguage.googleapis.com"),
        ("deepseek", None, "https://api.deepseek.com"),
    ],
)
async def test_a_vendor_is_at_its_usual_address(provider: str, base_url: str | None, address: str, monkeypatch):
    """Whatever the environment says: that is read elsewhere, and shown."""
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, "http://elsewhere.example")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = connect_model(Model(name="m", provider=provider, model="some-model", base_url=base_url), "key")
    assert (made.model.base_url or "").rstrip("/") == address
    await made.aclose()


@every_vendor
async def test_a_closed_client_leaves_nothing_to_be_collected(vendor):
    """No task that closes it once more, whenever the collector comes by."""
    async with serving(vendor, vendor.answer("Hi")) as site:
        await asked(vendor, site)
    before = asyncio.all_tasks()
    gc.collect()
    assert asyncio.all_tasks() == before


async def test_a_closed_host_hangs_up_on_every_vendor():
    """All clients that it made, with their connections."""
    async with serving(gemini, gemini.answer("Hi")) as one, serving(openai, openai.answer("Ho")) as other:
        models = Models(
            ModelCatalogue((model(gemini, one, key="KEY"), renamed(model(openai, other, key="KEY")))), {"KEY": KEY}
        )
        for name in ("mine", "theirs"):
            await models.generate(request(), model=name)
        clients = [vendor._connected.client for vendor in models._vendors.values()]
        await ConfiguredHost(Config(), {}, provider=models, reviewer=None).aclose()
        assert [client.is_closed for client in clients] == [True, True]
    before = asyncio.all_tasks()
    del models
    gc.collect()
    assert asyncio.all_tasks() == before


def renamed(configured: Model) -> Model:
    """Give a model another name."""
    return msgspec.structs.replace(configured, name="theirs")


@every_vendor
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(vendor, content, monkeypatch, tmp_path):
    """It failed within the vendor's library, in its words, at the first request."""
    place = tmp_path / "authorities.pem"
    if content is not None:
        place.write_text(content, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(place))
    with pytest.raises(ConfigError, match=r"mine: SSL_CERT_FILE or SSL_CERT_DIR: \w"):
        connect_model(Model(name="mine", provider=vendor.NAME, model="m"), KEY)


@every_vendor
async def test_a_proxy_of_another_kind_is_named_without_its_password(vendor, monkeypatch):
    """The library looks for it in the environment."""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:secret@proxy:1080")
    with pytest.raises(ConfigError, match=r"mine: .*SOCKS") as caught:
        connect_model(Model(name="mine", provider=vendor.NAME, model="m"), KEY)
    assert "secret" not in str(caught.value)


@every_vendor
async def test_the_reason_of_a_failed_connection_is_told(vendor):
    """In the words of the system, and without the address."""
    wanted = Model(name="mine", provider=vendor.NAME, model="m", base_url=f"http://127.0.0.1:{free_port()}/v1")
    client = Vendor(wanted, KEY)
    with pytest.raises(ProviderFailure, match=r"the connection failed \(Connection refused\)"):
        await client.generate(request("Hello"))
    await client.aclose()
