"""What a browser keeps of its own: language, theme, name."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host import MemoryStore, Queue
from antiphon.host.config.settings import SignIn
from antiphon.host.review.keymap import keys_on
from antiphon.host.review.review import ToolItem
from antiphon.web.page_guards import BrowserSession, PageAccess
from antiphon.web.render import STATIC
from antiphon.web.site import ARMING, LISTED, MAX_LISTS, OutcomeLists, Site
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin
from tests.host.store.stores import review
from tests.web.pages import desk


def asked(cookies: str = "", *, plain: bool = False, **headers: str) -> Request:
    """Make a request with these cookies."""
    sent = {"cookie": cookies, **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items() if value]
    scope = {"type": "http", "headers": raw, "antiphon.session": session, "antiphon.plain": plain}
    return Request(scope)


store = MemoryStore()
site = Site(store, PageAccess(store, "one"))
session = BrowserSession(number=1, secret="secret")


def test_the_language_is_the_browsers_until_one_is_chosen():
    """A cookie with another word is no choice."""
    assert site.texts(asked(accept_language="zh")).language == "zh"
    assert site.texts(asked("antiphon-language=en", accept_language="zh")).language == "en"
    assert site.texts(asked("antiphon-language=../zh")).language == "en"


async def queue_up(held: MemoryStore, count: int) -> None:
    """Let so many questions wait."""
    for number in range(count):
        item = encode_value(ToolItem(origin=origin(), params=CallToolRequestParams(name="order"), choices=frozenset()))
        await held.put_review(
            msgspec.structs.replace(
                review(f"{number:05}"), kind="tool", item=item.decode(), fingerprint=str(number), expires=None
            )
        )


async def test_of_very_many_browsers_only_the_last_ones_have_a_list():
    """Each link of a notice is another browser, and their number has no end."""
    held = MemoryStore()
    await queue_up(held, 1)
    lists = OutcomeLists(Queue(held))
    [question] = await Queue(held).pending()
    for number in range(MAX_LISTS + 1):
        await lists.add(number, [question], "done.approve")
    assert [len(lists.of(number)) for number in (0, 1, MAX_LISTS)] == [0, 1, 1]


async def test_the_page_says_how_many_wait_beyond_its_list():
    """The list has the oldest questions; the number is that of all."""
    held = MemoryStore()
    await queue_up(held, LISTED + 2)
    page = Site(held, PageAccess(held, "one"))
    assert len(await page.pending()) == LISTED
    assert (page.rows.count, page.waiting) == (LISTED, LISTED + 2)


async def test_a_long_queue_has_pages(monkeypatch: pytest.MonkeyPatch):
    """Each says how many follow, and links to them; filter and order go with the link."""
    monkeypatch.setattr("antiphon.web.site.LISTED", 2)
    held = MemoryStore()
    await queue_up(held, 5)
    async with desk(store=held) as page:
        path, seen, left = "/?order=expiry", list[str](), list[str]()
        while path:
            part = (await page.get(path, **{"X-Part": "queue"})).text
            seen += sorted(re.findall(r'data-row="([^"]+)"', part))
            [beyond] = re.findall(r'<p id="beyond"[^>]*>(.*?)</p>', part)
            left.append(beyond.partition(" ")[0])
            path = "".join(html.unescape(link) for link in re.findall(r'href="([^"]+)"', beyond))
            assert "order=expiry" in path or not path
        assert (await page.get("/?after=nobody&earlier=x")).status_code == 200
        question = (await page.get(f"/review/{seen[-1]}?order=oldest&after={seen[1]}&earlier=2")).text
        assert f'data-row="{seen[2]}"' in question
        assert f'data-row="{seen[0]}"' not in question
    assert seen == [question.id for question in await Queue(held).pending()]
    assert left == ["3", "1", "0"]


def test_the_theme_is_the_systems_until_one_is_chosen():
    """And only one that there is."""
    assert site.theme(asked()) == "auto"
    assert site.theme(asked("antiphon-theme=dark")) == "dark"
    assert site.theme(asked("antiphon-theme=pink")) == "auto"


def test_whoever_has_no_name_has_a_number():
    """For the record: which browser it was."""
    assert site.by(asked()) == "page 1"
    assert site.by(asked(f"antiphon-name={quote('Ada 女士')}")) == "Ada 女士"
    assert len(site.by(asked(f"antiphon-name={'x' * 400}"))) == 40


def test_no_name_is_taken_from_a_cookie_that_others_can_set():
    """Under a plain name every port of this machine sets cookies, and the name is in the record."""
    assert site.by(asked("antiphon-name=Mallory", plain=True)) == "page 1"


def test_what_was_sent_just_now_is_decided_too_soon():
    """For as long as a hand needs that was not aimed; a stamp of something else never counts."""
    now = site.clock()
    # A stamp has whole milliseconds, and so may be ahead of the clock.
    for shown in (now, now + 0.0006):
        assert site.too_soon(asked(), "one", session.stamp("one", shown))
    assert not site.too_soon(asked(), "one", session.stamp("one", now - ARMING - 0.1))
    assert site.too_soon(asked(), "one", session.stamp("two", now - 60))
    assert site.too_soon(asked(), "one", "")
    # The clock was set back by an hour since then, which must not keep anybody from deciding for an hour.
    assert not site.too_soon(asked(), "one", session.stamp("one", now + 3600))


def test_every_key_that_is_listed_does_something():
    """In the script, or by a button of a template."""
    script = "".join((STATIC / name).read_text() for name in ("keys.js", "rest/further_keys.js"))
    templates = "".join(path.read_text() for path in (STATIC.parent / "templates").rglob("*.html"))
    listed = [key.action for key in keys_on("page")]
    assert "approve" in listed
    assert [
        action
        for action in listed
        if f"  {action}: (" not in script and f'"{action}"' not in script and f"key('{action}')" not in templates
    ] == []


def test_no_neighbouring_host_chooses_the_keys_of_an_encrypted_page():
    """A subdomain can plant a cookie for the whole domain, but none with this prefix."""
    settings = SignIn(
        url="https://r.example.org", issuer="https://id.example.org", client_id="x", roles={"admin": ("*",)}
    )
    safe = Site(store, PageAccess(store, "one", settings=settings))
    assert safe.find_chosen_keys(asked("antiphon-keys=approve%3Dd")) == (True, {})
    response = Response()
    safe.keep(response, asked(), "keys", "approve=d")
    kept = response.headers["set-cookie"]
    assert kept.startswith("__Host-antiphon-keys=")
    assert "Secure" in kept
    assert safe.find_chosen_keys(asked(kept.partition(";")[0])) == (True, {"approve": "d"})
