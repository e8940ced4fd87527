"""One line about a review: names, times, and the first words that are new."""

from __future__ import annotations

import re
import string
from pathlib import Path

import msgspec
import pytest

import antiphon.host.review
import antiphon.web
from antiphon.host.budget import DOLLAR
from antiphon.host.checks.risk import Risk
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.shown import collect_shown
from antiphon.host.review.summary import (
    LANGUAGES,
    Group,
    arrange_rows,
    choose_language,
    first_words,
    format_duration,
    format_time_left,
    groups_of,
    headline_of,
    host_of,
    load_texts,
    server_name,
    task_text,
    terminal_language,
    who_of,
)
from antiphon.web.page_texts import PAGE_WORDS
from antiphon.wire.common import Implementation
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import OriginTask, Round
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import CHOICES, origin, request, says
from tests.host.review.questions import question, waiting

EN = load_texts("en")


@pytest.mark.parametrize(
    ("target", "kind", "name"),
    [
        ("python shop.py", "command", "shop.py"),
        ("/usr/bin/python3.12 -u /srv/tools/shop.py --fast", "command", "shop.py"),
        ("python -m shop.server", "command", "shop.server"),
        ("npx -y @acme/server@1.2.3 /data", "command", "@acme/server@1.2.3"),
        ("uv run --with x shop.py", "command", "shop.py"),
        ("env A=1 node build/index.js", "command", "index.js"),
        ("/opt/shop/bin/shopd --stdio", "command", "shopd"),
        ("python", "command", "python"),
        ("'unclosed", "command", "'unclosed"),
        ("https://shop.example:8443/mcp/", "url", "shop.example:8443/mcp"),
        ("https://[broken", "url", "https://[broken"),
        ("the shop", "memory", "the shop"),
    ],
)
def test_a_server_is_known_by_its_program(target: str, kind: str, name: str):
    """Not by the interpreter that runs it, nor by its folder."""
    assert server_name(target, kind) == name


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://bank.example@evil.example/login?a=https://bank.example", "evil.example"),
        ("https://BANK.example:8443/x", "bank.example:8443"),
        ("https://[::1]:99999/", ""),
        ("mailto:ada@example.org", ""),
        ("https://evil.example\\@bank.example/", "evil.example"),
        ("https://evil.example\\.bank.example/", "evil.example"),
        ("https:///evil.example/bank.example", "evil.example"),
        ("https:\\\t/evil.example", "evil.example"),
    ],
)
def test_the_host_is_where_a_browser_would_go(url: str, host: str):
    """Whatever else in the address looks like one."""
    assert host_of(url) == host


def test_times_are_short():
    """The clock runs down; a span has one unit."""
    assert [format_time_left(seconds, EN) for seconds in (0, 65, 7500)] == ["ended", "1:05", "2h05"]
    assert [format_duration(seconds, EN) for seconds in (-1, 59, 61, 7300, 200_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]
    assert format_duration(61, load_texts("zh")) == "1 分钟"


def asked(*messages: tuple[str, object]) -> ReviewItem:
    """Make a request of these turns."""
    turns = [
        SamplingMessage(role=role, content=TextContent(text=said) if isinstance(said, str) else said)
        for role, said in messages
    ]
    params = CreateMessageRequestParams(messages=turns, max_tokens=5)
    return ReviewItem(origin=origin(), params=params, received=params, provider="echo", choices=CHOICES)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (asked(("user", "Describe\n a hat")), "Describe a hat"),
        (asked(("user", "Old"), ("assistant", "Said"), ("user", "New"), ("user", "Newer")), "New"),
        (asked(("user", " \u3000\n" * 3000 + "Delete all")), "Delete all"),
        (asked(("user", "\u200b" * 3000 + "Delete\u202e all")), "Delete all"),
        (asked(("user", "Old"), ("assistant", "Said last")), "Said last"),
        (asked(("user", "\u200b" * 30_000 + "Too far")), "text"),
        (asked(("user", ImageContent(data="AA==", mime_type="image/png"))), "image"),
        (
            asked(
                ("user", "Old"),
                ("assistant", "x"),
                ("user", [ToolResultContent(tool_use_id="1", content=[TextContent(text="Rain")])]),
            ),
            "Rain",
        ),
        (ElicitItem(origin=origin(), params=ElicitRequestParams.form("Your name?", {})), "Your name?"),
        (None, ""),
    ],
)
def test_first_words_are_the_first_new_ones(item, words: str):
    """Neither what was said before, nor what cannot be seen."""
    assert first_words(item) == words


def test_names_of_tools_that_only_look_alike_differ_in_a_row():
    """Each surface marks what is invisible; what was left out it could not mark."""
    params = CallToolRequestParams(name=" send\u200b_mail")
    item = ToolItem(origin=origin(), params=params, choices=CHOICES)
    assert inert_line(first_words(item)) == "send\u27e6U+200B\u27e7_mail"


def test_of_an_answer_the_answer_is_new():
    """Not what it answers."""
    item = asked(("user", "Question"))
    result = CreateMessageResult(role="assistant", content=TextContent(text="  An answer\nwith lines"), model="m")
    answer = ReviewItem(
        origin=origin(), params=item.params, received=item.params, provider="echo", choices=CHOICES, result=result
    )
    assert first_words(answer) == "An answer with lines"


HERE = Path(antiphon.host.review.__file__).parent
CATALOGUES = {name: msgspec.json.decode((HERE / "languages" / f"{name}.json").read_bytes()) for name in LANGUAGES}


def places(text: str) -> set[str]:
    """Name what is filled into a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_language_says_the_same():
    """With the same places to fill in; and Chinese is Chinese."""
    english = CATALOGUES["en"]
    for name, catalogue in CATALOGUES.items():
        assert catalogue.keys() == english.keys(), name
        assert all(text.strip() for text in catalogue.values())
        assert {key: places(text) for key, text in catalogue.items()} == {
            key: places(text) for key, text in english.items()
        }
    assert [key for key, text in CATALOGUES["zh"].items() if not re.search("[\u4e00-\u9fff]", text)] == []


def test_the_page_does_not_repeat_a_shared_text():
    """A word that stands in two catalogues would be changed in one of them only."""
    folder = Path(antiphon.web.__file__).parent / "languages"
    for name in LANGUAGES:
        own = msgspec.json.decode((folder / f"{name}.json").read_bytes())
        assert own.keys() & CATALOGUES[name].keys() == set()


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_terminal_s_language_is_that_of_its_locale(monkeypatch, variables: dict[str, str], language: str):
    """By the order of POSIX; one that is asked for goes before."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal_language(None) == language
    assert terminal_language("zh") == "zh"


def test_a_risk_is_told_in_both_languages():
    """In English as the host says it; in Chinese with the same figures."""
    risk = Risk(kind="hidden", level="warning", text="characters that cannot be seen (2 bidi, 1 tag), shown as marks")
    assert load_texts("en", PAGE_WORDS).risk(risk) == risk.text
    assert load_texts("zh", PAGE_WORDS).risk(risk) == "含有不可见字符（2 个改变方向的字符、1 个标签字符），已用标记显示"
    tokens = Risk(kind="tokens", level="warning", text="an answer of up to 9,000 tokens")
    assert "9,000" in load_texts("zh", PAGE_WORDS).risk(tokens)


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "de, fr;q=0.5", "en"),
        ("en", "zh-CN", "en"),
        ("xx", "zh", "zh"),
        (None, "", "en"),
    ],
)
def test_the_language_is_the_persons(chosen: str | None, accepted: str, language: str):
    """A choice counts most, then the browser's wish, then English."""
    assert choose_language(chosen, accepted) == language


def test_another_language_is_english():
    """Nothing is looked up by a name from outside."""
    assert load_texts("../../etc/passwd").language == "en"
    assert load_texts("zh").tag == "zh-Hans"
    assert not load_texts("en").has("key.nothing")


def test_it_says_who_asks_and_why():
    """What the user configured, what the server calls itself, the call with its arguments, and the round."""
    who = origin(server=Implementation(name="Shop", version="2"), round=Round(n=2, max=64))
    shown = collect_shown(question(who=who)).who
    assert (shown.target, shown.kind, shown.claims, shown.round) == (
        "python catalogue.py",
        "command",
        "Shop 2",
        (2, 64),
    )
    assert (shown.call, '"sku":7' in shown.arguments) == ("tools/call describe", True)
    background = collect_shown(question(who=origin(call=None))).who
    assert (background.call, background.without_call) == ("", "who.background")
    assert collect_shown(question(who=origin(call=None, unclear=True))).who.without_call == "who.unclear"


def test_what_is_known_of_a_task_is_one_line():
    """Its age, how often it has asked and what that has cost: in words that fit the number, as far as it is known."""
    english, chinese = load_texts("en"), load_texts("zh")
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
    assert task.says == "The [password]"


def test_the_queue_is_in_groups():
    """The asks of one round together, in the order in which the rounds began."""
    groups = groups_of([question(id="1"), question(id="2", group="h"), question(id="3")])
    assert [[row.id for row in group.rows] for group in groups] == [["1", "3"], ["2"]]


def test_a_summary_is_one_line_of_what_is_new():
    """Short; a picture alone is named by its kind."""
    row = groups_of([question(request(messages=[says("x" * 500), says("Second")]))])[0].rows[0]
    assert row.summary == "x" * 120
    picture = SamplingMessage(role="user", content=ImageContent.of(b"a", "image/png"))
    assert groups_of([question(request(messages=[picture]))])[0].rows[0].summary == "image"


def test_rows_are_filtered_and_sorted():
    """By server, call or first words, whatever the case; by age, time left, risks or cost."""
    first, second = who_of(origin(command=["python", "a.py"])), who_of(origin(command=["python", "b.py"]))
    groups = [
        Group(who=first, rows=(waiting("old", 1.0, expires=60.0), waiting("new", 2.0, warnings=1))),
        Group(who=second, rows=(waiting("dear", 3.0, worst=9, expires=50.0),)),
    ]

    def ids(order, wanted=""):
        return [each.id for group in arrange_rows(groups, order, wanted) for each in group.rows]

    assert ids("time") == ["old", "new", "dear"]
    assert ids("newest") == ["dear", "new", "old"]
    assert ids("expiry") == ["dear", "old", "new"]
    assert ids("risk") == ["new", "old", "dear"]
    assert ids("cost") == ["dear", "old", "new"]
    assert ids("time", "B.PY") == ["dear"]
    assert ids("time", "OF NEW") == ["new"]
    assert ids("time", "nothing") == []


def test_a_row_names_the_hash_that_its_decision_must_name():
    """So that what is decided in the list is what the list showed."""
    asked = question(hash="abc")
    assert groups_of([asked])[0].rows[0].hash == "abc"


def test_the_list_is_narrowed_to_a_kind_or_to_warnings():
    """Only prompts, only what warns; everything if nothing is named."""
    groups = groups_of([question(id="1"), question(id="2", result=None)])
    assert [row.id for group in arrange_rows(groups, "time", "", "request") for row in group.rows] == ["1", "2"]
    assert arrange_rows(groups, "time", "", "tool") == []
    assert arrange_rows(groups, "time", "", "risk") == []
