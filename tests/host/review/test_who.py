"""Who asks, and for what."""

from __future__ import annotations

import msgspec

from antiphon.host.budget import DOLLAR
from antiphon.host.review.shown import show
from antiphon.host.review.texts import texts
from antiphon.host.review.who import headline_of, task_text, who_of
from antiphon.wire.common import Implementation
from antiphon.wire.origin import OriginTask, Round
from tests.host.asks import origin
from tests.host.review.questions import question


def test_it_says_who_asks_and_why():
    """What the user configured, what the server calls itself, the call with its arguments, and the round."""
    who = origin(server=Implementation(name="Shop", version="2"), round=Round(n=2, max=64))
    shown = show(question(who=who)).who
    assert (shown.target, shown.kind, shown.claims, shown.round) == (
        "python catalogue.py",
        "command",
        "Shop 2",
        (2, 64),
    )
    assert (shown.call, '"sku":7' in shown.arguments) == ("tools/call describe", True)
    background = show(question(who=origin(call=None))).who
    assert (background.call, background.without_call) == ("", "who.background")
    assert show(question(who=origin(call=None, unclear=True))).who.without_call == "who.unclear"


def test_what_is_known_of_a_task_is_one_line():
    """Its age, how often it has asked and what that has cost: in words that fit the number, as far as it is known."""
    english, chinese = texts("en"), texts("zh")
    new = OriginTask(name="t", ask="a", started=1_000.0)
    assert task_text(new, english, 11_800.0) == "task, started 3 h ago · its first ask"
    later = msgspec.structs.replace(new, asks=4, money=DOLLAR * 12 // 100, tokens=9)
    assert task_text(later, english, 11_800.0) == "task, started 3 h ago · 4 asks before this one · $0.12 so far"
    assert task_text(later, chinese, 11_800.0) == "任务，3 小时前开始 · 此前已询问 4 次 · 已花费 $0.12"
    found = OriginTask(name="t", ask="a", first=1_000.0, asks=1, tokens=9)
    assert task_text(found, english, 1_060.0) == (
        "task, asked for the first time 1 min ago · 1 ask before this one · 9 tokens so far"
    )
    assert task_text(OriginTask(name="t", ask="a"), english, 0.0) == "task · its first ask"
    assert " · task" in headline_of(who_of(origin(task=new)), None, english)


def test_secrets_in_what_a_server_says_of_its_task_are_masked():
    """As in all else that it says."""
    task = who_of(origin(task=OriginTask(name="t", ask="a", says="The password: hunter2-Xyz"))).task
    assert task is not None
    assert "hunter2" not in task.says
