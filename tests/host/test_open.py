from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import Queue, open_host
from antiphon.host.config.settings import Notify
from antiphon.host.open import queue_in
from antiphon.host.review_page import PageReviewer
from antiphon.host.store import MemoryStore
from antiphon.host.store.sql import SqlStore
from antiphon.host.terminal import TerminalReviewer
from tests.host.asks import Person, approve, origin, request, write

NOTHING = {"HOME": "/nonexistent"}
ECHO = '[models.echo]\nprovider = "echo"\nmodel = "echo"\n'


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
    async with open_host(reviewer="page", environ=NOTHING) as host:
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
    """By the webhook that is written down."""
    store = MemoryStore()
    assert queue_in(store, Notify())._notify is None
    assert queue_in(store, Notify(webhook="https://example.com/hook"))._notify is not None


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
