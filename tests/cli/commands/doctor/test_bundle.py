"""The report of ``antiphon doctor --bundle``: what it contains, and what is left out."""

from __future__ import annotations

import json
import stat
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon import __version__
from antiphon.cli.commands.doctor.command import clean_text, clean_value
from antiphon.host.store.chain import Record
from tests.cli.conftest import Cli
from tests.cli.program import SHOP

SECRET = "hunter2-correct-horse"
"""A word that no pattern of a vendor's key finds."""
OTHER = "swordfish-of-the-sea"
"""Another one, of the environment."""

SERVERS = {
    "mcpServers": {
        "shop": {
            "command": "npx",
            "args": ["-y", "shop-server", "--token", SECRET, f"--key={SECRET}", f"-p{SECRET}"],
            "env": {"SHOP_KEY": SECRET, "PIN": 271828},
            "cwd": f"/home/{SECRET}",
        },
        "far": {
            "url": f"https://{SECRET}:{SECRET}@mcp.example:8443/{SECRET}?key={SECRET}",
            "headers": {"Authorization": f"Bearer {SECRET}"},
        },
    }
}
SETTINGS = f"""
[defaults]
review = "always"
[models.fast]
provider = "openai"
model = "gpt-5-mini"
base_url = "https://{SECRET}@api.example/{SECRET}"
api_key = "{SECRET}"
[[notify.targets]]
url = "slack://{SECRET}"
[servers."https://{SECRET}@mcp.example/{SECRET}"]
review = "never"
"""


def test_the_report_lists_what_it_contains_before_it_is_written(cli: Cli):
    """Only its owner may read it; a file that is there is not touched."""
    done = cli("doctor", "--bundle", "report.txt")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "report.txt will contain:"
    assert lines[1] == "  versions: 1 lines"
    assert lines[-1] == "report.txt: written. Read it before you attach it to a report."
    report = Path("report.txt")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text(encoding="utf-8")
    assert f'"antiphon":"{__version__}"' in text
    assert "ok  python: " in text
    again = cli("doctor", "--bundle", "report.txt")
    assert (again.code, again.err) == (2, "antiphon: report.txt: is there already: name another file for the report\n")
    assert report.read_text(encoding="utf-8") == text


def test_the_report_has_a_usual_name(cli: Cli):
    """Or goes to standard output."""
    assert cli("doctor", "--bundle").code == 0
    assert Path("antiphon-report.txt").is_file()
    assert cli("doctor", "--bundle", "-").out.startswith("## versions\n")


def test_no_secret_of_a_configuration_or_the_environment_is_in_the_report(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Names of servers, variables and options stay, and hosts of addresses."""
    Path(".mcp.json").write_text(json.dumps(SERVERS), encoding="utf-8")
    Path("antiphon.toml").write_text(SETTINGS, encoding="utf-8")
    folder = tmp_path / "config" / "antiphon"
    folder.mkdir(parents=True)
    (folder / "servers.json").write_text(f'{{"mcpServers": {{"bad": "{SECRET}"}}}}', encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    monkeypatch.setenv("DATABASE_URL", f"postgresql://shop:{OTHER}@db.example/shop")
    text = cli("doctor", "--bundle", "-").out
    assert SECRET not in text
    assert "271828" not in text
    assert all(word in text for word in ("shop", "SHOP_KEY", "--token", "https://mcp.example"))
    assert OTHER not in text
    assert '"review": "always"' in text


def test_a_store_that_cannot_be_reached_is_named_without_its_password(cli: Cli):
    """As are the errors of a server that is examined."""
    Path("own.toml").write_text(f'[defaults]\nstore = "postgresql://a:{SECRET}@127.0.0.1:1/b"\n', encoding="utf-8")
    text = cli("doctor", "--config", "own.toml", "--bundle", "-").out
    assert SECRET not in text
    assert "postgresql://127.0.0.1 cannot be reached" in text


def test_a_server_may_be_part_of_the_report(shop: Cli):
    """Its findings are listed instead of those of the installation."""
    assert "ok  server: The shop 1.2" in shop("doctor", SHOP, "--bundle", "-").out


async def test_the_last_errors_of_the_store_are_listed(kept: Callable[..., Awaitable[None]], settings: None, cli: Cli):
    """Without what was said; the command has a loop of its own, so it runs in a thread."""
    await kept(
        Record(
            at=0.0,
            ask="a",
            identity="x",
            method="sampling/createMessage",
            step="failed",
            outcome=f"provider:{SECRET}",
            reason=SECRET,
        )
    )
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(cli, "doctor", "--config", "own.toml", "--bundle", "-").result()
    assert "1970-01-01T00:00:00Z  sampling/createMessage  failed  provider" in done.out
    assert SECRET not in done.out


@pytest.fixture
def settings(cli: Cli) -> None:
    """Name the store in a configuration."""
    Path("own.toml").write_text('[defaults]\nstore = "host.db"\n', encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"timeout": 30, "flag": True, "none": None}, {"timeout": 30, "flag": True, "none": None}),
        ({"token_file": 5}, {"token_file": "(removed)"}),
        ({"provider": "openai", "other": "openai"}, {"provider": "openai", "other": "(removed)"}),
        ({"headers": {"provider": "x"}}, {"headers": {"provider": "(removed)"}}),
        ({"args": ["--a-name=value", "--UPPER", "--x9"]}, {"args": ["--a-name", "(removed)", "(removed)"]}),
    ],
)
def test_values_are_kept_only_if_they_are_known_to_be_harmless(value: object, cleaned: object):
    """Numbers and switches are, unless their name sounds like a secret's."""
    assert clean_value(value) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see https://a:b@host.example:1/c?d#e now", "see https://host.example now"),
        ("redis://:pass@10.0.0.1/0", "redis://10.0.0.1"),
        ("key: sesame-street", "key: (removed)"),
    ],
)
def test_a_text_loses_addresses_and_values_of_secret_variables(text: str, cleaned: str):
    """Wherever they stand."""
    assert clean_text(text, {"MY_TOKEN": "sesame-street", "SHORT_KEY": "no"}) == cleaned


@pytest.mark.parametrize(
    ("home", "cleaned"),
    [("/users/ada", "~/a.db at https://host.example"), ("/", "/users/ada/a.db at https://host.example")],
)
def test_a_text_loses_the_home_of_its_user_but_no_slash_of_an_address(
    home: str, cleaned: str, monkeypatch: pytest.MonkeyPatch
):
    """Containers give a user who has no home the root folder."""
    monkeypatch.setenv("HOME", home)
    assert clean_text("/users/ada/a.db at https://host.example", {}) == cleaned
