"""A person's browser, for a sign-in; as a program (``python browser.py ADDRESS``) what ``BROWSER`` names."""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urljoin

import aiohttp

__all__ = ["Browser"]


class Browser:
    """A person's browser: it keeps cookies and follows redirects, to the last page of the sign-in."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    async def __call__(self, address: str) -> str | None:
        """Sign in."""
        self.pages.append(address)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
            for _ in range(12):
                async with web.get(address, allow_redirects=False) as response:
                    if "location" not in response.headers:
                        # The program's own page: it has the answer.
                        assert "You may close this page" in await response.text()
                        return None
                    address = urljoin(address, response.headers["location"])
        raise AssertionError("the pages lead nowhere")


if __name__ == "__main__":
    asyncio.run(Browser()(sys.argv[1]))
