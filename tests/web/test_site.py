"""What a browser keeps of its own: language, theme, name."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request

from antiphon.host import MemoryStore
from antiphon.web.access import Access
from antiphon.web.site import Site


def asked(cookies: str = "", **headers: str) -> Request:
    """Make a request with these cookies."""
    sent = {"cookie": cookies, **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items() if value]
    return Request({"type": "http", "headers": raw, "antiphon.session": session})


access = Access()
session = access.session(access.redeem(access.issue()))
site = Site(MemoryStore(), access)


def test_the_language_is_the_browsers_until_one_is_chosen():
    """A cookie with another word is no choice."""
    assert site.texts(asked(accept_language="zh")).language == "zh"
    assert site.texts(asked("antiphon-language=en", accept_language="zh")).language == "en"
    assert site.texts(asked("antiphon-language=../zh")).language == "en"


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
