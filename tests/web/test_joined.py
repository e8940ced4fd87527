"""What a page loads: a script and a style sheet, the rest of each, and later the fonts; joined, and kept for good."""

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
    # Those of Web Push are loaded where they are used.
    for path in {*STATIC.rglob("*.js")} - {*STATIC.glob("push/*.js")}:
        joined = [JOINED["doorway.js"]] if path.name == "doorway.js" else [JOINED["page.js"], JOINED["rest.js"]]
        lines = re.sub(r"^export |^import .*|^ *//.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert any({*lines.split("\n")} <= {*each.split("\n")} for each in joined), path
    styles = "".join(text for name, text in JOINED.items() if name.endswith(".css")).split("\n")
    for path in STATIC.rglob("*.css"):
        rules = re.sub(r" */\*.*?\*/\n?", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert set(rules.split("\n")) <= {"", *styles}, path


def test_the_rest_is_given_what_it_needs_of_the_first_script():
    """It fetches no module of its own: the same names are given and taken, and none is declared a second time."""
    given = re.findall(r"^globalThis\.antiphon = (.+);$", JOINED["page.js"], re.MULTILINE)
    assert given == re.findall(r"^const (.+) = globalThis\.antiphon;$", JOINED["rest.js"], re.MULTILINE)
    assert {"ask", "go", "later"} <= {*re.findall(r"\w+", given[0])} <= {*declared_names(JOINED["page.js"])}


@pytest.mark.parametrize("name", ["page.js", "rest.js", "doorway.js"])
def test_a_joined_script_is_one_module(name: str):
    """It fetches no other one, exports nothing, and no two of its sources declare the same name."""
    assert re.findall(r"^(?:import|export) .*", JOINED[name], re.MULTILINE) == []
    assert [name for name, times in Counter(declared_names(JOINED[name])).items() if times > 1] == []


def test_a_script_stands_behind_what_it_imports():
    """A script of the page is the last of its own, because it runs what the others declare."""
    place = JOINED["page.js"].index
    assert place("const view =") < place("function freeze()") < place('addEventListener("popstate"')
    assert JOINED["rest.js"].index("function follow(") < JOINED["rest.js"].index("function suggest(")


async def test_a_browser_keeps_what_is_joined():
    """Its address changes with its content; another address has nothing."""
    async with desk() as page:
        markup = (await page.get("/")).text
        found = {*re.findall(r'"(/static/\w+/\w+\.(?:js|css))"', markup)}
        assert found == {f"{JOINED_AT}/{name}" for name in JOINED if name != "doorway.js"}
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
    """Its policy allows exactly these, by their digests; no other page has them, or allows anything in itself.

    What it does not need before it is shown is in no page at first: its script fetches it.
    """
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
        for left_out in (f'"{JOINED_AT}/rest.js"', f'"{JOINED_AT}/rest.css"', '<dialog id="help"'):
            assert (left_out in opened.text, left_out in later.text) == (False, True)
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
