from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import Queue, open_host
from antiphon.host.config import Caps, Config, ServerBudget, ServerEntry, ServerSettings
from antiphon.host.config.settings import STANDARD, Notify, override_settings
from antiphon.host.configured_host import ConfiguredHost, queue_in
from antiphon.host.model_catalogue import Model, ModelPrice
from antiphon.host.models.selection import USUAL
from antiphon.host.review.notify import NoticeTarget
from antiphon.host.store import MemoryStore
from antiphon.host.store.sql_store import SqlStore
from antiphon.host.terminal import TerminalReviewer
from antiphon.web.page_reviewer import PageReviewer, ask_on_page
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import ModelHint, ModelPreferences
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import SERVER, Person, approve, origin, request, write

FREE = ModelPrice(input=Decimal(0), output=Decimal(0))

NOTHING = {"HOME": "/nonexistent"}
ECHO = '[models.echo]\nprovider = "echo"\nmodel = "echo"\n'


def echo(name: str, **more) -> Model:
    """Make a model that echoes."""
    return Model(name=name, provider="echo", model="echo", context=100_000, tools=True, price=FREE, **more)


def configured(*servers: ServerEntry, person: Person | None = None, **more) -> ConfiguredHost:
    """Make a host with two models."""
    settings = override_settings(more.pop("settings", ServerSettings()), STANDARD)
    config = Config(models=(echo("one"), echo("two")), order=("one", "two"), servers=servers, settings=settings, **more)
    return ConfiguredHost(config, {}, reviewer=person or Person(approve))


SHOP = ServerEntry(target=tuple(SERVER), review="never")


async def test_by_default_a_person_is_asked():
    """Whatever server it is."""
    person = Person(approve)
    assert (await configured(person=person)(request("Hi"), origin())).text == "[echo] Hi"
    assert len(person.shown) == 1


async def test_a_server_has_settings_of_its_own():
    """By its identity, not by what it calls itself."""
    person = Person(approve)
    host = configured(SHOP, person=person)
    await host(request(), origin())
    assert person.shown == []
    await host(request(), origin("2", command=["python", "other.py"]))
    assert len(person.shown) == 1


async def test_a_server_may_be_refused():
    """Without anybody being asked."""
    host = configured(ServerEntry(target=tuple(SERVER), review="refuse"))
    with pytest.raises(Rejected) as refused:
        await host(request(), origin())
    assert refused.value.data == {"reason": "policy"}


async def test_to_answer_without_asking_answers_nobody_who_is_refused():
    """``--yes`` stands in for a person, not for what was written down."""
    shop = ServerEntry(target=tuple(SERVER), review="refuse")
    host = ConfiguredHost(Config(models=(echo("one"),), servers=(shop,)), {}, reviewer=Person(approve), review="never")
    with pytest.raises(Rejected):
        await host(request(), origin())
    assert (await host(request("Hi"), origin("2", command=["other"]))).text == "[echo] Hi"


async def test_caps_hold():
    """As limits of the host."""
    host = configured(settings=ServerSettings(caps=Caps(max_tokens=10)))
    with pytest.raises(Rejected) as refused:
        await host(request(max_tokens=11), origin())
    assert refused.value.data["reason"] == "limit"


async def test_a_hint_at_what_is_not_allowed_finds_nothing():
    """The server gets what it may use, or nothing: never what it names."""
    wishes = ModelPreferences(hints=[ModelHint(name="one")])
    host = configured(ServerEntry(target=tuple(SERVER), review="never", models=("two",)))
    assert (await host(request(model_preferences=wishes), origin())).text
    nothing = configured(ServerEntry(target=tuple(SERVER), review="never", models=("three",)))
    with pytest.raises(Rejected) as refused:
        await nothing(request(model_preferences=wishes), origin())
    assert refused.value.data["reason"] == "no-model"
    assert ": one: " in refused.value.message
    assert "--provider echo" in refused.value.message
    assert all(name in refused.value.message for vendor in USUAL.values() for name in vendor.keys)


async def test_what_has_no_price_is_not_bought():
    """Where money is bounded, unknown is too much."""
    config = Config(models=(Model(name="a", provider="openai", model="x", context=1000),))
    host = ConfiguredHost(config, {"OPENAI_API_KEY": "key"}, reviewer=Person(approve))
    with pytest.raises(Rejected) as refused:
        await host(request(max_tokens=10), origin())
    assert refused.value.data["reason"] == "no-model"


def test_what_it_can_do_is_declared():
    """Tools, if any model has them."""
    assert configured().capabilities.sampling
    assert configured().capabilities.sampling.tools == {}


def test_a_contradiction_is_found_at_the_start():
    """Not when it is first asked."""
    with pytest.raises(ConfigError, match="no model 'three'"):
        configured(default="three")


async def test_budgets_hold():
    """In dollars, for a model that has a price."""
    dear = Model(
        name="dear",
        provider="echo",
        model="echo",
        context=9999,
        price=ModelPrice(input=Decimal(1), output=Decimal(10_000)),
    )
    settings = override_settings(ServerSettings(budget=ServerBudget(call=Decimal("0.5"))), STANDARD)
    host = ConfiguredHost(Config(models=(dear,), settings=settings), {}, reviewer=Person(approve))
    assert (await host(request(max_tokens=40), origin())).text
    with pytest.raises(Rejected):
        await host(request(max_tokens=60), origin("2", call="call-2"))


async def test_a_store_that_was_handed_over_is_closed_with_it():
    """Otherwise it is whoever's who made it."""

    class Store(MemoryStore):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    for closes in (False, True):
        store = Store()
        await ConfiguredHost(Config(models=(echo("one"),)), {}, store=store, closes_store=closes).aclose()
        assert store.closed is closes


async def test_the_store_is_closed_even_if_another_part_cannot_be():
    """The error of that part is raised."""

    class Page(Person):
        servers = None

        async def aclose(self) -> None:
            raise OSError("no space left")

    class Store(MemoryStore):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    store = Store()
    host = ConfiguredHost(Config(models=(echo("one"),)), {}, reviewer=Page(approve), store=store, closes_store=True)
    with pytest.raises(OSError, match="no space left"):
        await host.aclose()
    assert store.closed


async def test_calls_of_tools_are_decided_by_the_host_of_their_server():
    """As everything else is."""
    host = configured(ServerEntry(target=tuple(SERVER), review="refuse"))
    call = CallToolRequestParams.of("f")
    assert await host.confirm(call, origin("1", command=["other"]))
    with pytest.raises(Rejected):
        await host.confirm(call, origin("2"))


ALIKE = ("coarse:1", "command:1")


def placed(ask: str, identity: str, **more) -> Origin:
    """An origin of a server that is like others."""
    return Origin(id=ask, identity=identity, target="shop", coarser=ALIKE, **more)


async def test_what_is_denied_and_bounded_holds_for_servers_alike():
    """And nothing of what is allowed: another folder is another server."""
    refusing = configured(ServerEntry(identity="coarse:1", review="refuse"), person=Person(approve))
    with pytest.raises(Rejected):
        await refusing(request(), placed("1", "moved"))
    allowing = configured(ServerEntry(identity="command:1", review="never"), person=Person(approve))
    await allowing(request(), placed("1", "moved"))
    assert len(allowing.reviewer.shown) == 1


async def test_what_became_of_an_answer_to_a_server_alike_is_recorded():
    """By the host that has answered it."""
    host = configured(ServerEntry(identity="coarse:1", review="ask"), person=Person(approve))
    await host(request(), placed("1", "moved"))
    recording = host.handed_over(placed("1", "moved"), "closed")
    assert recording is not None
    await recording
    assert [record.outcome for record in host.audit.records() if record.step == "withdrawn"] == ["late:closed"]


async def test_a_change_of_folder_begins_no_new_count(tmp_path: Path):
    """Caps count servers alike together with the configured one."""
    shop = ServerEntry(target=("python", "shop.py"), cwd=str(tmp_path), review="never", caps=Caps(per_minute=2))
    host = configured(shop, person=Person(approve))
    await host(request(), Origin(id="1", identity=shop.find_identity, target="shop", coarser=shop.coarser))
    moved = Origin(id="2", identity="command:moved", target="shop", coarser=shop.coarser)
    await host(request(), moved)
    with pytest.raises(Rejected) as refused:
        await host(request(), moved)
    assert refused.value.data["reason"] == "limit"


def test_a_server_that_is_configured_itself_is_bound_by_its_own_entry(tmp_path: Path):
    """Not by that of another one alike."""
    folders = [tmp_path / name for name in ("one", "two")]
    one, two = (ServerEntry(target=("python", "shop.py"), cwd=str(each)) for each in folders)
    assert one.find_identity != two.find_identity and one.coarser == two.coarser
    strict = msgspec.structs.replace(one, review="refuse")
    config = configured(strict, two)._config
    assert config.for_server(two.find_identity, *two.coarser).review != "refuse"
    assert config.for_server("elsewhere", *two.coarser).review == "refuse"


def written(folder: Path, text: str) -> Path:
    """Write a configuration."""
    file = folder / "antiphon.toml"
    file.write_text(text, encoding="utf-8")
    return file


async def test_without_a_file_or_a_key_a_request_is_refused():
    """An echo answers only where it was chosen by name."""
    async with open_host(reviewer=Person(approve), environ=NOTHING) as host:
        with pytest.raises(Rejected, match="set ANTHROPIC_API_KEY") as refused:
            await host(request("Hi"), origin())
    assert refused.value.data["reason"] == "no-model"


async def test_a_person_may_answer_where_no_model_can():
    """The reason is shown in the place of the model."""
    person = Person(write("A warm one."))
    async with open_host(reviewer=person, environ=NOTHING) as host:
        assert (await host(request("Hi"), origin())).text == "A warm one."
    [item] = person.shown
    assert item.choices == {"answer", "deny"}
    assert "the environment has no ANTHROPIC_API_KEY" in item.provider


async def test_an_echo_that_the_file_names_answers(tmp_path: Path):
    """A person is asked first."""
    person = Person(approve)
    async with open_host(written(tmp_path, ECHO), reviewer=person, environ=NOTHING) as host:
        assert (await host(request("Hi"), origin())).text == "[echo] Hi"
    assert len(person.shown) == 1


async def test_a_file_says_everything(tmp_path: Path):
    """Also that nobody is asked, and where it is all kept."""
    file = written(tmp_path, '[defaults]\nreview = "refuse"\nstore = "kept.db"\n')
    async with open_host(file, environ=NOTHING) as host:
        with pytest.raises(Rejected):
            await host(request(), origin())
        assert isinstance(host.store, SqlStore)
    assert (tmp_path / "kept.db").exists()


def test_a_person_is_asked_at_the_terminal():
    """Unless something else is said."""
    assert isinstance(open_host(environ=NOTHING).reviewer, TerminalReviewer)


async def test_a_page_is_closed_with_the_host():
    """It is opened only when there is a question."""
    async with open_host(reviewer=ask_on_page, environ=NOTHING) as host:
        assert isinstance(host.reviewer, PageReviewer)


def test_a_queue_needs_a_store_that_others_can_open(tmp_path: Path):
    """The remedy is said."""
    with pytest.raises(ConfigError, match='write store = "default"'):
        open_host(reviewer="queue", environ=NOTHING)
    file = written(tmp_path, '[defaults]\nstore = "kept.db"\n')
    assert isinstance(open_host(file, reviewer="queue", environ=NOTHING).reviewer, Queue)


def test_an_unknown_reviewer_is_refused():
    """With those there are."""
    with pytest.raises(ConfigError, match="not 'window'"):
        open_host(reviewer="window", environ=NOTHING)


def test_a_queue_tells_of_arrivals_where_that_is_configured():
    """By the services that are written down."""
    store = MemoryStore()
    assert queue_in(store, Config())._notify is None
    config = Config(notify=Notify(targets=(NoticeTarget(url="ntfy://127.0.0.1/x"),)))
    assert queue_in(store, config)._notify is not None


async def test_it_has_what_a_host_has(tmp_path: Path):
    """Audit, grants and policy, over all the servers that are configured."""
    file = written(
        tmp_path, f'{ECHO}[policy]\ndefault = "allow"\n[servers.known]\ntarget = ["python", "catalogue.py"]\n'
    )
    async with open_host(file, reviewer=None, environ=NOTHING) as host:
        await host(request("Hi"), origin("1"))
        await host(request("Hi"), origin("2", command=["other"]))
        assert host.policy.default == "allow"
        assert await host.grants.all() == []
        assert {record.ask for record in host.audit.records()} == {"1", "2"}
        assert (await host.audit.verify()).whole


async def test_a_budget_lasts_over_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file that names a budget and no store gets the store on disk."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "antiphon.toml"
    file.write_text(f"{ECHO}[defaults.budget]\nday = 2.0\n", encoding="utf-8")
    async with open_host(file, reviewer=None, environ={}) as host:
        assert not isinstance(host.store, MemoryStore)
        await host.complete("Hello")
    async with open_host(file, reviewer=None, environ={}) as host:
        assert len(await host.store.entries()) > 0
