"""What a page loads: one script, one style sheet, and later the fonts; joined from their sources, and kept for good."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter

import pytest

from antiphon.web.page_guards import CSP
from antiphon.web.render import JOINED, JOINED_AT, STATIC
from tests.web.pages import desk, visitor

DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+|\{[^}]*\}|\[[^\]]*\])", re.MULTILINE)


def declared_names(text: str) -> list[str]:
    """Return the names that a script declares at its top."""
    return [each for found in DECLARED.findall(text) for each in re.findall(r"\w+", found)]


def test_every_source_is_in_what_is_loaded():
    """What each script does, and each rule of a style sheet."""
    for path in STATIC.rglob("*.js"):
        joined = JOINED["doorway.js" if path.name == "doorway.js" else "page.js"].split("\n")
        lines = re.sub(r"^export |^import .*|^ *//.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert {*lines.split("\n")} <= {*joined}, path
    styles = JOINED["page.css"] + JOINED["fonts.css"]
    assert all(path.read_text(encoding="utf-8") in styles for path in STATIC.rglob("*.css"))


@pytest.mark.parametrize("name", ["page.js", "doorway.js"])
def test_a_joined_script_is_one_module(name: str):
    """It fetches no other one, exports nothing, and no two of its sources declare the same name."""
    assert re.findall(r"^(?:import|export) .*", JOINED[name], re.MULTILINE) == []
    assert [name for name, times in Counter(declared_names(JOINED[name])).items() if times > 1] == []


def test_a_script_stands_behind_what_it_imports():
    """The page's own script is the last, because it runs what the others declare."""
    place = JOINED["page.js"].index
    assert place("const view =") < place("function freeze()") < place("function suggest(")


async def test_a_browser_keeps_what_is_joined():
    """Its address changes with its content; another address has nothing."""
    async with desk() as page:
        markup = (await page.get("/")).text
        found = {*re.findall(r'"(/static/\w+/\w+\.(?:js|css))"', markup)}
        assert found == {f"{JOINED_AT}/{name}" for name in ("page.js", "page.css", "fonts.css")}
        for name, text in JOINED.items():
            answer = await page.get(f"{JOINED_AT}/{name}")
            assert answer.text == text
            assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
            assert answer.headers["Content-Type"].partition(";")[0] in ("text/javascript", "text/css")
            assert (await page.get(f"/static/0123456789abcdef/{name}")).status_code == 404
        assert (await page.get(f"{JOINED_AT}/keys.js")).status_code == 404


@pytest.mark.parametrize("name", ["page.js", "page.css"])
def test_what_may_stand_in_a_page_ends_no_tag(name: str):
    """Or the rest of it would be shown as text."""
    assert re.findall(r"</(?:script|style)|<!--", JOINED[name], re.IGNORECASE) == []


async def test_the_page_at_the_printed_address_has_its_files_in_itself():
    """Its policy allows exactly these, by their digests; no other page has them, or allows anything in itself."""
    async with desk() as page:
        async with visitor(base_url=page.running.origin) as browser:
            opened = await browser.get(page.running.address(), headers={"Sec-Fetch-Dest": "document"})
        inlined = re.findall(r"<(?:style|script)[^>]*>(.+?)</(?:style|script)>", opened.text, re.DOTALL)
        assert inlined == [JOINED["page.css"], JOINED["page.js"]]
        digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inlined]
        policy = opened.headers["Content-Security-Policy"]
        assert f"style-src 'self' 'sha256-{digests[0]}';" in policy
        assert f"script-src 'self' 'sha256-{digests[1]}';" in policy
        assert "unsafe" not in policy
        later = await page.get("/")
        assert "<style" not in later.text
        assert later.headers["Content-Security-Policy"] == CSP


async def test_the_first_request_comes_with_a_page_that_is_opened():
    """A script that fetches the queue gets the queue; a page of an empty queue has no request."""
    async with desk() as page:
        opened = {"Sec-Fetch-Dest": "document"}
        assert "<template" not in (await page.get("/", **opened)).text
        first, _ = await page.asked(text="First")
        await page.asked(text="Second")
        assert f'<template id="ahead" data-path="/review/{first.id}">' in (await page.get("/", **opened)).text
        assert "<template" not in (await page.get("/")).text
        assert "<template" not in (await page.get("/", **{"X-Part": "queue"})).text
