"""A permission that is taken back inline, at a terminal: for how long, and what the record says of it."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.host import ConfiguredHost, Host
from antiphon.host.config import Config
from antiphon.host.config.settings import Reviewing
from antiphon.host.providers import make_named_provider
from antiphon.host.terminal import TerminalReviewer
from antiphon.host.terminal.console import PROMPT
from antiphon.wire.elicitation import ElicitRequestParams
from tests.host.asks import origin, request
from tests.host.terminal.screenful import screenful


async def test_what_was_taken_back_inline_is_in_the_record():
    """A request, and a form; the decision after it is there as well."""
    with screenful() as person:
        host = Host(reviewer=TerminalReviewer(terminal=person.path, pause=0.0, color=False, undo=60.0, language="en"))
        for asked in (host(request(), origin()), host.elicit(ElicitRequestParams.form("Sure?", {}), origin("2"))):
            task = asyncio.create_task(asked)
            await person.expect(PROMPT)
            person.type("a\n")
            if host.audit.records("2"):
                await person.expect(PROMPT)
                person.type("a\n")
            await person.expect("takes it back")
            person.type("u\n")
            await person.expect(PROMPT)
            person.type("d\n")
            await asyncio.wait([task])
    told = [(record.ask, record.outcome) for record in host.audit.records() if record.step == "review"]
    assert told == [("1", "undone:approve"), ("1", "deny"), ("2", "undone:accept"), ("2", "deny")]


@pytest.mark.parametrize(
    "made",
    [
        lambda: Host(undo=0),
        lambda: ConfiguredHost(Config(review=Reviewing(undo=0.0)), {}, provider=make_named_provider("echo")),
    ],
    ids=["host", "configured"],
)
async def test_a_host_says_how_long_a_permission_can_be_taken_back(made, monkeypatch: pytest.MonkeyPatch):
    """With none, it counts at once."""
    with screenful() as person:
        monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: person.path)
        asked = asyncio.create_task(made()(request(), origin()))
        await person.expect(PROMPT)
        person.type("a\n")
        assert (await asked).text == "[echo] Describe a sweater"
        person.read_rest()
        assert "takes it back" not in person.seen
