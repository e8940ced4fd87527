from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from antiphon.cli.commands.doctor import command as checks
from antiphon.cli.commands.doctor.command import DoctorFinding, check_installation
from antiphon.host import MemoryStore
from antiphon.machine.public_names import describe_install


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for configuration in an empty folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def kinds() -> dict[str, str]:
    """Return the kind of each finding."""
    return {finding.subject: finding.kind for finding in check_installation()}


def test_this_installation_is_in_order():
    """Or these tests would not run."""
    found = kinds()
    assert {found[name] for name in ("python", "msgspec", "click", "antiphon[keys]", "jsonschema-rs")} == {"ok"}
    assert found[".mcp.json"] == "note"


def test_what_is_missing_is_found(monkeypatch: pytest.MonkeyPatch):
    """Uvloop may be missing, the others may not."""
    monkeypatch.setattr(metadata, "distributions", lambda **_: iter(()))
    found = kinds()
    assert (found["msgspec"], found["uvloop"]) == ("failed", "note")


def test_configuration_is_read():
    """Servers are named, a file that cannot be read fails."""
    Path(".mcp.json").write_text('{"mcpServers": {"a": {}, "b": {}}}', encoding="utf-8")
    assert DoctorFinding("ok", ".mcp.json", "servers: a, b") in check_installation()
    Path(".mcp.json").write_text("{", encoding="utf-8")
    assert kinds()[".mcp.json"] == "failed"


def hide_package(hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one package be found no more."""
    there = metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda *, name: iter(()) if name == hidden else there(name=name))


def test_extras_are_found_or_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    """What is missing is no fault: not everybody needs it."""
    assert kinds()["antiphon[host]"] == "ok"
    hide_package("starlette", monkeypatch)
    [extra] = [finding for finding in check_installation() if finding.subject == "antiphon[host]"]
    assert extra.kind == "note"
    assert extra.text.startswith("starlette not there; ")
    assert describe_install("host") in extra.text


def test_a_vendor_whose_package_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    """It is a part of another package's extra."""
    assert kinds()["antiphon[anthropic]"] == "ok"
    hide_package("anthropic", monkeypatch)
    found = {each.subject: each for each in check_installation()}
    assert found["antiphon[anthropic]"].text.startswith("anthropic not there; for models of Anthropic: ")
    assert found["antiphon[openai]"].kind == found["antiphon[host]"].kind == "ok"


def test_the_configuration_of_the_host_is_read(tmp_path: Path):
    """Its models and its store are named; a mistake fails, with its line."""
    assert kinds()["antiphon.toml"] == "note"
    file = tmp_path / "mine.toml"
    file.write_text('[defaults]\nstore = "kept.db"\n[models.fast]\nprovider = "echo"\nmodel = "e"\n', encoding="utf-8")
    found = {finding.subject: finding for finding in check_installation(file)}
    assert found["models"] == DoctorFinding("ok", "models", "fast")
    assert found["store"] == DoctorFinding("ok", "store", str(tmp_path / "kept.db"))
    assert ".mcp.json" not in found
    file.write_text("[defaults]\nmodels = 7\n", encoding="utf-8")
    [failed] = [finding for finding in check_installation(file) if finding.kind == "failed"]
    assert "line 2" in failed.text


def test_settings_for_a_server_that_is_not_there_are_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A list of tools under a misspelt name denies nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"github": {"command": "github-mcp"}}}', encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text('[gateway.servers.github]\nprefix = "g"\n[gateway.servers.githb]\ntools = ["!delete_*"]\n')
    [odd] = [finding for finding in check_installation(file) if finding.kind == "odd"]
    assert odd.subject == "antiphon.toml"
    assert odd.text.startswith("[gateway.servers.githb] holds for no server: ")
    assert odd.text.endswith("did you mean 'github'?")


def test_folders_that_cannot_be_looked_at_are_named_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As in those of another user, when a program runs under a name of its own with the HOME of somebody else."""
    closed = tmp_path / ("x" * 300)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(closed))
    found = kinds()
    assert (found[str(closed / "antiphon" / "servers.json")], found["antiphon.toml"]) == ("failed", "failed")
    assert found["python"] == "ok"


def test_a_terminal_is_described(monkeypatch: pytest.MonkeyPatch):
    """Where it is, and whether it may be coloured."""
    monkeypatch.setattr(checks, "find_terminal", lambda: "/dev/pts/7")
    monkeypatch.setenv("NO_COLOR", "1")
    [terminal] = [finding for finding in check_installation() if finding.subject == "terminal"]
    assert terminal.kind == "ok"
    assert "/dev/pts/7" in terminal.text
    assert "NO_COLOR" in terminal.text


def test_where_decisions_are_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As the commands do it: in the user's own file, unless it is said otherwise; a password is not shown."""

    def store(text: str) -> DoctorFinding:
        file = tmp_path / "mine.toml"
        file.write_text(text, encoding="utf-8")
        return next(finding for finding in check_installation(file) if finding.subject == "store")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert store("") == DoctorFinding("ok", "store", str(tmp_path / "antiphon" / "host.db"))
    assert store('[defaults]\nstore = "memory"').kind == "note"
    assert "hunter22" not in store('[defaults]\nstore = "postgresql://me:hunter22@host/db"').text
    monkeypatch.setattr("antiphon.cli.commands.doctor.command.usual_store", MemoryStore)
    assert store("").kind == "note"


def test_no_key_is_worth_a_note():
    """A person may still answer; the variables are named."""
    [said] = [finding for finding in check_installation() if finding.subject == "models"]
    assert said.kind == "note"
    assert "set ANTHROPIC_API_KEY or OPENAI_API_KEY" in said.text


def test_models_that_cannot_answer_are_a_failure(monkeypatch: pytest.MonkeyPatch):
    """With a vendor's key and without the packages for it, or without the key: the remedy is named."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert kinds()["models"] == "ok"
    monkeypatch.setattr("antiphon.host.models.models.find_spec", lambda name: None)
    [said] = [finding for finding in check_installation() if finding.subject == "models"]
    assert said.kind == "failed"
    assert describe_install("openai") in said.text
