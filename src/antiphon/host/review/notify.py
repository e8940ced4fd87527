"""Notification that a question waits, by a webhook. It contains neither the question nor who asks.

Owns the content, and that failures have no effect: one request at a time, at most one more is queued, and nothing waits
for it. The user's configuration has the address.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec

from antiphon.host.store.base import ReviewKind

NOTICE_TIMEOUT = 5.0
"""Seconds a webhook has to answer; nothing waits for it."""
MIN_PAUSE = 2.0
"""Least seconds between two notices; questions in between are reported together."""

_WORDS: Mapping[ReviewKind, str] = {
    "request": "a server asks for a completion",
    "response": "an answer is ready to be looked at",
    "elicitation": "a server asks you something",
    "tool": "a tool is to be called",
}

_log = logging.getLogger("antiphon.host")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, as JSON: only our own words and numbers."""

    text: str
    """For people; the member that Slack and similar services show."""
    event: str = "review"
    kind: ReviewKind
    """Kind of the latest question."""
    id: str
    """Id of the latest question, for ``antiphon review show``; it gives no access by itself."""
    count: int
    """Number of questions since the last notice."""


class Webhook:
    """Sends a notice to an address when questions come. Call it for each question; it returns at once."""

    def __init__(
        self,
        url: str,
        *,
        send: Callable[[str, bytes], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the address. ``send`` posts a body to it, and raises if that fails; by default over HTTP."""
        self._url = url
        self._send = send or post_json
        self._clock = clock
        self._waiting: list[tuple[ReviewKind, str]] = []
        self._count = 0
        self._last = -MIN_PAUSE
        self._task: asyncio.Task[None] | None = None

    def __call__(self, kind: ReviewKind, id: str) -> None:
        """Note that a question has come; needs a running event loop."""
        self._waiting[:] = [(kind, id)]
        self._count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_notices())

    async def aclose(self) -> None:
        """Cancel what was not sent yet."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _send_notices(self) -> None:
        while self._waiting:
            await asyncio.sleep(max(0.0, self._last + MIN_PAUSE - self._clock()))
            [(kind, id)], count = self._waiting, self._count
            self._waiting.clear()
            self._count = 0
            more = f" ({count} questions)" if count > 1 else ""
            notice = Notice(text=f"Antiphon: {_WORDS[kind]}{more}", kind=kind, id=id, count=count)
            self._last = self._clock()
            try:
                async with asyncio.timeout(NOTICE_TIMEOUT):
                    await self._send(self._url, msgspec.json.encode(notice))
            except Exception as error:
                # The address may contain a secret, and so may an error that quotes it: neither is logged.
                _log.warning("the webhook of [notify] failed: %s", type(error).__name__)


async def post_json(url: str, body: bytes) -> None:
    """Post JSON to the user's address; redirects are not followed.

    Raises:
        Exception: the request failed.
    """
    # Imported here, because most hosts have no webhook.
    import aiohttp

    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post(url, data=body, allow_redirects=False) as response,
    ):
        # Only the status of the response is read.
        if response.status >= 300:
            raise OSError(f"status {response.status}")
