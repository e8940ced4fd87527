"""The person of the checks: at the review page in a browser of their own, and with the command ``antiphon review``."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from typing import Any

import httpx

from antiphon.web.site import ARMING
from tests.web.pages import Here

Fields = dict[str, list[str]]


class Forms(HTMLParser):
    """The forms of a page: where each is sent, with the fields as the page fills them in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Fields]] = []
        self.labels: dict[str, str] = {}
        """The names of the arguments, by the fields that hold them."""
        self._area: str | None = None
        self._label: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form, or a field of it."""
        named = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append((named.get("action", ""), {}))
        elif tag == "label":
            self._label = named.get("for")
        elif not self.found or "name" not in named:
            return
        elif tag == "textarea":
            self._area = named["name"]
        elif tag == "input" and (named.get("type") != "checkbox" or "checked" in named):
            self.found[-1][1].setdefault(named["name"], []).append(named.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a text."""
        if tag == "textarea":
            self._area = None
        elif tag == "label":
            self._label = None

    def handle_data(self, data: str) -> None:
        """Note a text that the page fills in, or the name of an argument."""
        if self._area is not None:
            self.found[-1][1][self._area] = [data.removeprefix("\n")]
        elif self._label is not None and data.strip():
            self.labels.setdefault(data.strip(), self._label)

    def form(self, action: str, *holding: str) -> Fields:
        """Return the fields of the form that is sent there and has these fields."""
        return next(
            fields
            for path, fields in self.found
            if path.partition("?")[0] == action and all(name in fields for name in holding)
        )


class Person:
    """A person at the page."""

    def __init__(self, address: str) -> None:
        self._address = address
        origin = re.match(r"http://[^/]+", address)
        assert origin is not None
        self.origin = origin[0]
        # A kept connection may be closed by the page just as it is used again, which browsers hide.
        found = Here(limits=httpx.Limits(max_keepalive_connections=0))
        self.browser = httpx.AsyncClient(transport=found, base_url=self.origin, timeout=60)

    async def enter(self) -> None:
        """Open the page by the address that was printed."""
        page = await self.browser.get(self._address, follow_redirects=True)
        assert page.status_code == 200, page.text

    async def look(self, path: str) -> Forms:
        """Read a page."""
        page = await self.browser.get(path)
        assert page.status_code == 200, page.text
        return Forms(page.text)

    async def send(self, path: str, fields: Fields, **headers: str) -> httpx.Response:
        """Send a form, as the browser does."""
        sent = {"Origin": self.origin, "Accept": "application/json", **headers}
        return await self.browser.post(path, data=fields, headers=sent)

    async def decide(self, id: str, action: str, given: Fields | None = None, *, at: str = "") -> httpx.Response:
        """Read a question, and decide it with its form on the page.

        Args:
            id: the question.
            action: the last part of the address to which the form is sent.
            given: what is typed or chosen; fields of arguments by the argument's name.
            at: a page of the question in place of its first.
        """
        page = await self.look(f"/review/{id}{at}")
        fields = page.form(f"/review/{id}/{action}", *(("scope", "when") if at.startswith("/like") else ()))
        for name, value in (given or {}).items():
            fields[page.labels.get(name, name)] = value
        # The page refuses a permission that comes before anybody can have read what it is for.
        await asyncio.sleep(ARMING + 0.05)
        return await self.send(f"/review/{id}/{action}", fields)

    async def close(self) -> None:
        """Close the browser."""
        await self.browser.aclose()


def settle(answer: httpx.Response) -> None:
    """Raise unless a decision was accepted."""
    assert answer.status_code == 200, f"{answer.status_code}: {answer.text}"


def typed(**values: Any) -> Fields:
    """Write fields as a person types them."""
    return {name: [str(value)] for name, value in values.items()}
