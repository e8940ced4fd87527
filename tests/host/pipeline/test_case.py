"""The words the server hears, and what stays here."""

from __future__ import annotations

import logging

import pytest

from antiphon.host import Host, Scripted
from antiphon.host.pipeline.case import SAMPLING, Case
from tests.host.asks import Person, approve, origin


def case(host: Host) -> Case:
    """Open a case at the desk of a host."""
    return Case(desk=host._desk, origin=origin(), method=SAMPLING)


def test_a_refusal_names_its_reason_and_is_recorded():
    """2025-11-25 client/sampling: code -1, "User rejected sampling request"."""
    host = Host(reviewer=None)
    error = case(host).refusal("policy")
    assert (error.code, error.message, error.data) == (-1, "User rejected sampling request", {"reason": "policy"})
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
