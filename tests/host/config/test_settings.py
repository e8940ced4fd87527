from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from antiphon.errors import ConfigError
from antiphon.host.checks.ask_limits import Limits
from antiphon.host.config.settings import (
    STANDARD,
    Caps,
    Config,
    Profile,
    ServerBudget,
    ServerEntry,
    ServerSettings,
    choose_stricter,
    override_settings,
)
from antiphon.host.config.toml_files import parse_document
from antiphon.identity import identity_of

SHOP = ["python", "shop.py"]


def test_what_is_said_nowhere_is_small():
    """Ask for everything; a few thousand tokens, a few dollars."""
    settings = Config().for_server("command:x")
    assert (settings.review, settings.models) == ("ask", None)
    assert settings == STANDARD


def test_a_server_has_settings_of_its_own():
    """Over the general ones, member by member."""
    config = Config(servers=(ServerEntry(target=tuple(SHOP), review="never", caps=Caps(max_tokens=9)),))
    own, other = config.for_server(identity_of(SHOP)), config.for_server("command:x")
    assert (own.review, own.caps.max_tokens, own.caps.concurrent) == ("never", 9, STANDARD.caps.concurrent)
    assert (other.review, other.caps) == ("ask", STANDARD.caps)


def test_a_project_makes_it_stricter_and_never_looser():
    """Whatever it says."""
    config = Config(
        tightened=ServerSettings(
            review="never", caps=Caps(max_tokens=99_999, concurrent=1), budget=ServerBudget(day=Decimal(1))
        ),
        tightened_servers=(ServerEntry(target=tuple(SHOP), review="refuse", models=("small",)),),
    )
    settings = config.for_server("command:x")
    assert (settings.review, settings.caps.max_tokens, settings.caps.concurrent) == ("ask", STANDARD.caps.max_tokens, 1)
    assert settings.budget == ServerBudget(call=STANDARD.budget.call, day=Decimal(1))
    assert config.for_server(identity_of(SHOP)).review == "refuse"
    assert config.for_server(identity_of(SHOP)).models == ("small",)


def test_a_project_cannot_widen_an_allowlist():
    """It says so, instead of allowing less than it seems to."""
    with pytest.raises(ConfigError, match="only narrow"):
        choose_stricter(ServerSettings(models=("a",)), ServerSettings(models=("a", "b")))
    assert choose_stricter(ServerSettings(models=("a", "b")), ServerSettings(models=("a",))).models == ("a",)


def test_the_particular_lies_over_the_general():
    """Also where it allows more."""
    assert override_settings(ServerSettings(budget=ServerBudget(day=Decimal(50))), STANDARD).budget == ServerBudget(
        call=STANDARD.budget.call, day=Decimal(50)
    )


@pytest.mark.parametrize("entry", [{}, {"target": "https://x.y", "identity": "z"}, {"target": "python x.py"}])
def test_a_server_is_known_by_one_thing(entry):
    """Where it is found, or its identity."""
    with pytest.raises(ValueError, match="target"):
        ServerEntry(**entry)


def test_settings_are_what_the_host_takes():
    """Caps as limits, dollars as nano-dollars."""
    settings = ServerSettings(caps=Caps(max_tokens=7), budget=ServerBudget(call=Decimal("0.25")))
    assert settings.limits() == msgspec.structs.replace(Limits(), max_tokens=7)
    assert settings.spending().call.money == 250_000_000
    assert STANDARD.limits() == Limits()


def test_an_entry_is_what_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its folder and its variables count, as they do for the client that starts it; its file is its command line."""
    (tmp_path / "shop.py").touch()
    entry = ServerEntry(target=("python", "shop.py"), cwd=str(tmp_path), env={"PYTHONPATH": "/lib"})
    monkeypatch.chdir(tmp_path)
    assert entry.find_identity == identity_of(["python", "shop.py"], env={"PYTHONPATH": "/lib"})
    assert ServerEntry(target="shop.py", cwd=str(tmp_path)).find_identity == identity_of("shop.py")


@pytest.mark.parametrize("more", [{"target": "https://x.y"}, {"identity": "command:1"}])
def test_variables_and_a_folder_belong_to_a_command_line(more):
    """An address starts nothing."""
    with pytest.raises(ValueError, match="env and cwd belong to a command line"):
        ServerEntry(cwd="/srv", **more)


TEXT = """
[gateway]
tools = ["!delete_*"]
[gateway.servers.a]
tools = ["*"]
prefix = "x"
rename = { create = "new", read = "get" }
[gateway.profiles.work]
tools = ["!secret_*"]
[gateway.profiles.work.servers.a]
prefix = "y"
rename = { read = "fetch" }
"""


def test_a_profile_adds_to_what_holds_for_all():
    """Its lists in addition to the general ones, its names in place of them."""
    said = parse_document(TEXT, "f").gateway
    work = said.profile("work")
    assert said.tool_lists(work) == [{"*": ("!delete_*",), "a": ("*",)}, {"*": ("!secret_*",)}]
    assert said.prefixes(work) == {"a": "y"}
    assert said.renamed(work) == {"a": {"create": "new", "read": "fetch"}}
    assert said.profile(None) == Profile()
    assert said.prefixes(Profile()) == {"a": "x"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[gateway.servers.a]\ntool = []",
            "line 2: gateway.servers.a.tool: there is no such key; did you mean 'tools'",
        ),
        (
            "[gateway.profiles.p.servers.a]\nnames = 1",
            "line 2: gateway.profiles.p.servers.a.names: there is no such key",
        ),
        ("[gateway]\nservers = 1", "line 2: gateway.servers: Expected `object`"),
        ("[gateway.servers]\na = 1", "line 2: gateway.servers.a: is a table: write .gateway.servers.a."),
        (
            "[gateway.servers.a]\n[gateway.servers.b]\nstart_timeout = 'x'",
            "line 3: gateway.servers.b.start_timeout: Expected `float",
        ),
    ],
)
def test_a_misspelt_list_is_told(text: str, told: str):
    """It would deny nothing."""
    with pytest.raises(ConfigError, match=told):
        parse_document(text, "f")
