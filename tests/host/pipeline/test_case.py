"""The words the server hears, and what stays here."""

from __future__ import annotations

import logging

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError, InternalError, Rejected
from antiphon.host import Deny, Host, Limits, Policy, Scripted
from antiphon.host.checks.policy import Effect
from antiphon.host.pipeline.case import SAMPLING, Case
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.failure import to_wire
from tests.host.asks import Person, approve, origin, request


def case(host: Host) -> Case:
    """Open a case at the desk of a host."""
    return Case(desk=host._desk, origin=origin(), method=SAMPLING)


def test_a_refusal_names_its_reason_and_is_recorded():
    """2025-11-25 client/sampling: code -1, "User rejected sampling request"."""
    host = Host(reviewer=None)
    error = case(host).refusal("policy")
    told = to_wire(error)
    assert (told.code, told.message, told.data) == (-1, "User rejected sampling request", {"reason": "policy"})
    assert [(record.step, record.outcome) for record in host.audit.records()] == [("refused", "policy")]


def test_a_failure_says_nothing_and_its_log_is_masked(caplog: pytest.LogCaptureFixture):
    """Neither the server nor the log learns a key."""
    with caplog.at_level(logging.ERROR, logger="antiphon.host"):
        error = case(Host(reviewer=None)).failure("401 for https://api.example/?key=abcdefgh1234")
    assert (error.code, error.message, error.data) == (-32603, "The client could not answer the request", None)
    assert "401 for" in caplog.text
    assert "abcdefgh1234" not in caplog.text


def test_a_desk_is_headless_without_a_reviewer_or_without_a_terminal():
    """Asked anew each time: a terminal may come and go."""
    person = Person(approve)
    desk = Host(Scripted([]), reviewer=person)._desk
    assert not desk.headless
    person.available = False
    assert desk.headless
    assert Host(reviewer=None)._desk.headless


@pytest.mark.parametrize(("default", "looked"), [("allow", 0), ("deny", 0), ("ask", 1)])
def test_a_person_is_looked_for_only_if_one_is_needed(default: Effect, looked: int):
    """To find a terminal opens a device, which takes longer than the decision."""
    person = Leaving()
    host = Host(Scripted([]), policy=Policy(default=default), reviewer=person)
    assert case(host).verdict(request()).reason == ("no-reviewer" if looked else "default")
    assert person.looked == looked


class Leaving(Person):
    """A person who is never there, and counts how often somebody looked."""

    def __init__(self) -> None:
        self.looked = 0
        super().__init__(approve)

    @property
    def available(self) -> bool:
        """See ``Reviewer.available``."""
        self.looked += 1
        return False

    @available.setter
    def available(self, value: bool) -> None:
        del value


def asking() -> Server:
    """Make a server that asks, and repeats what it is told."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe something."""
        try:
            return (await ctx.sample("Describe a hat")).text
        except Rejected as refused:
            return f"told: {refused.message} {refused.data}"

    return server


async def test_a_refusal_that_nobody_made_names_cause_and_remedy_here():
    """In words for our own caller; a person's own refusal says what it always did."""
    with pytest.raises(Rejected, match=r"nobody can be asked.*web=True") as caught:
        await Host(reviewer=None)(request(), origin())
    assert caught.value.told == "User rejected sampling request"
    with pytest.raises(Rejected, match="a limit of this host is reached: max_tokens"):
        await Host(reviewer=None, limits=Limits(max_tokens=1))(request(), origin())
    with pytest.raises(Rejected, match="User rejected sampling request"):
        await Host(reviewer=Person(lambda item: Deny()))(request(), origin())


async def test_the_wire_keeps_the_words_of_the_specification():
    """Whoever refused: the server hears -1 and the reason, and nothing of this side."""
    async with Client(asking(), sampling=Host(reviewer=None), revision="2025-11-25") as client:
        told = (await client.call_tool("describe")).text
    assert told == "told: User rejected sampling request {'reason': 'no-reviewer'}"


async def test_our_own_caller_hears_the_cause_where_the_call_is_given_up():
    """On 2026-07-28 a round has no error member: the caller gets the error itself."""
    async with Client(asking(), sampling=Host(reviewer=None), revision="2026-07-28") as client:
        with pytest.raises(Rejected, match="nobody can be asked"):
            await client.call_tool("describe")


async def test_a_cause_that_can_be_mended_is_logged_once(caplog: pytest.LogCaptureFixture):
    """The server cannot tell it, and one line is enough; a limit is no fault of the setup."""
    host = Host(reviewer=None)
    for number in range(3):
        with pytest.raises(Rejected):
            await host(request(), origin(str(number)))
    await host.elicit(ElicitRequestParams.form("?", {"properties": {}}), origin("9"))
    logged = [record.getMessage() for record in caplog.records if record.name == "antiphon.host"]
    assert len(logged) == 1
    assert "nobody can be asked" in logged[0]


async def test_a_package_that_is_missing_is_named_to_our_own_caller():
    """With the command that installs it; the server hears that it could not be answered."""

    class Bare(Scripted):
        async def complete(self, params, *, model=None):
            raise ConfigError("models of vendors need more packages: pip install something")

    with pytest.raises(InternalError, match="pip install") as caught:
        await Host(Bare([]), review="never", reviewer=None)(request(), origin())
    assert to_wire(caught.value).message == "The client could not answer the request"
