"""One line about a review: names, times, and the first words that are new."""

from __future__ import annotations

import pytest

from antiphon.host.review.review import ElicitItem, ReviewItem
from antiphon.host.review.summary import clock, first_words, host_of, server_name, span
from antiphon.host.review.texts import texts
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from tests.host.asks import CHOICES, origin

EN = texts("en")


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
    ],
)
def test_the_host_is_where_a_browser_would_go(url: str, host: str):
    """Whatever else in the address looks like one."""
    assert host_of(url) == host


def test_times_are_short():
    """The clock runs down; a span has one unit."""
    assert [clock(seconds, EN) for seconds in (0, 65, 7500)] == ["ended", "1:05", "2h05"]
    assert [span(seconds, EN) for seconds in (-1, 59, 61, 7300, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]
    assert span(61, texts("zh")) == "1 分钟"


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


def test_of_an_answer_the_answer_is_new():
    """Not what it answers."""
    item = asked(("user", "Question"))
    result = CreateMessageResult(role="assistant", content=TextContent(text="  An answer\nwith lines"), model="m")
    answer = ReviewItem(
        origin=origin(), params=item.params, received=item.params, provider="echo", choices=CHOICES, result=result
    )
    assert first_words(answer) == "An answer with lines"
