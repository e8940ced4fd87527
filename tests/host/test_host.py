"""``Host``: parts, defaults, and what a client can declare with it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.host import Echo, Host, Manual, Policy, Rule, Scripted
from antiphon.host.terminal import TerminalReviewer
from tests.host.asks import Person, approve, origin, request


async def test_by_default_a_person_is_asked_at_the_terminal():
    """Echo answers, the terminal asks, nothing is allowed beforehand."""
    host = Host()
    assert isinstance(host.provider, Echo)
    assert isinstance(host.reviewer, TerminalReviewer)
    assert host.policy == Policy()
    assert await host.grants.all() == []


def test_parts_are_named_or_given():
    """Providers by name or by value."""
    scripted = Scripted([])
    assert isinstance(Host("manual").provider, Manual)
    assert Host(scripted).provider is scripted


async def test_a_class_of_reviewers_makes_one():
    """Its own ``review`` belongs to what it makes."""

    class Maker(Person):
        def __init__(self, host: Host) -> None:
            super().__init__(approve)
            self.host = host

    host = Host(Scripted(["ok"]), reviewer=Maker)
    assert host.reviewer.host is host
    assert (await host(request(), origin())).text == "ok"


@pytest.mark.parametrize("wrong", [{"provider": "gpt"}, {"reviewer": "web"}, {"review": "sometimes"}])
def test_a_part_that_does_not_exist_is_named(wrong: dict):
    """And the message says what does."""
    with pytest.raises(ConfigError, match=next(iter(wrong.values()))):
        Host(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"provider": 5}, 'provider is "echo", "manual" or a Provider; 5 has no name, tools, personal, complete'),
        ({"provider": Echo}, "provider is a class: make one, as in Echo()"),
        ({"policy": "allow"}, "Host(policy=) must be Policy or None, got 'allow'"),
        ({"limits": 5}, "Host(limits=) must be Limits or None, got 5"),
        ({"budget": 5}, "Host(budget=) must be Budget or None, got 5"),
        ({"redaction": True}, "Host(redaction=) must be Redaction or None, got True"),
        ({"model_api": True}, "model_api is antiphon.model_api.serve_model_api or None, not True"),
        ({"store": "host.db"}, "store is a Store, not a path: open_store('host.db') makes one"),
        (
            {"reviewer": id},
            'reviewer is "terminal", in open_host "queue", a Reviewer, its maker or None, not <built-in function id>',
        ),
        (
            {"reviewer": "page"},
            'reviewer is "terminal", in open_host "queue", a Reviewer, its maker or None, not \'page\'',
        ),
    ],
)
def test_a_part_of_another_type_is_named_at_once(wrong: dict, said: str):
    """Not at the first request, as a failure of the store; and ``budget=5`` would bound nothing."""
    with pytest.raises(ConfigError) as refused:
        Host(**wrong)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "wrong", [{"undo": -1}, {"undo": 61}, {"undo": 5, "reviewer": None}, {"undo": 5, "reviewer": Person(approve)}]
)
def test_the_time_to_take_a_permission_back_is_bounded(wrong: dict):
    """And is only for those whom the host itself asks."""
    with pytest.raises(ConfigError, match="undo"):
        Host(**wrong)


async def test_review_never_allows_what_would_be_asked():
    """But a deny rule still denies."""
    rules = (Rule(effect="deny", over_tokens=1000), Rule(effect="ask", tools=False))
    host = Host(reviewer=None, review="never", policy=Policy(rules=rules))
    assert (await host(request("hello"), origin())).text == "[echo] hello"
    assert [rule.effect for rule in host.policy.rules] == ["deny", "allow"]


def test_capabilities_follow_from_the_parts():
    """Tools as the provider takes them, elicitation where there is somebody, context never."""
    full = Host(Scripted([]), reviewer=Person(approve)).capabilities
    assert full.sampling is not None
    assert (full.sampling.tools, full.sampling.context) == ({}, None)
    assert full.elicitation is not None
    assert (full.elicitation.form, full.elicitation.url) == ({}, {})
    small = Host("manual", reviewer=None).capabilities
    assert small.sampling is not None
    assert small.sampling.tools is None
    assert small.elicitation is None


def test_a_host_without_a_terminal_loads_no_terminal():
    """What a headless program never uses it never pays for."""
    code = (
        "import sys; from antiphon.host.host import Host; Host(reviewer=None); "
        "heavy = {'antiphon.host.terminal', 'webbrowser', 'difflib', 'rich'}; "
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_about_answering_has_arguments_that_exist():
    """Its table is what people copy names from."""
    page = (Path(__file__).parents[2] / "docs/how-to/answering-safely.md").read_text(encoding="utf-8")
    table = page.partition("| argument | default |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {"provider", "reviewer", "store"} < named <= {*inspect.signature(Host).parameters}
