"""Notices that a question waits, by services such as Slack, Telegram, e-mail and ntfy.

Owns their content, and that failures have no effect: each address has one request at a time, at most one more is
queued, and nothing waits for it. The user's configuration has the addresses. Apprise speaks to the services, in a
process of its own for each notice (``apprise_process``).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from secrets import token_urlsafe
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.errors import TooCostly
from antiphon.host.checks.people import Demands, check_name
from antiphon.host.checks.risk import mask_to_json
from antiphon.host.checks.visible import inert_line
from antiphon.host.review import summary
from antiphon.host.review.apprise_process import DELIVERED, UNKNOWN
from antiphon.host.review.question import AnyItem, Question, question_of
from antiphon.host.review.review import ReviewItem, ToolItem
from antiphon.host.store.base import Store
from antiphon.machine.asyncio_tasks import end_tasks

SERVICE_TIMEOUT = 30.0
"""Seconds for a notice to a service, with the start of its process: beyond that the process is killed."""
SERVICE_PAUSE = 20.0
"""Least seconds between two notices to one service: a server that asks all the time rings a phone three times a
minute."""
MAX_WAITING = 1_000
"""Most questions that are known until the next notice, the latest; of others it knows how many they were."""
MAX_LISTED = 3
"""Most questions that one notice describes: the latest; it counts the others. Some services take 4,096 bytes."""
MAX_TEXT = 900
"""Most characters of what is asked in one notice, for all its questions together; the rest is counted."""
LINK_AGE = 24 * 3600.0
"""Seconds for which the link of a notice can be followed, once."""
MAX_LINKS = 1_000
"""Most links of notices that nobody has followed yet; those that end first are deleted."""
_LINKS = re.compile(r"[<@]|/(?=/)|(?<=\w)[.\u3002\uff0e\uff61](?=[^\W\d])")
"""What makes a link or a mention of somebody else's words, in a chat or in mail."""

_log = logging.getLogger("antiphon.host")


class NoticeTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A service that tells people that a question waits: one ``[[notify.targets]]`` table."""

    url: str
    """Its address, as Apprise writes them; ``${NAME}`` stands for an environment variable, such as a token.
    ``webpush://ann@example.org`` tells browsers in which people ask for it; push services learn this e-mail address."""
    show: Literal["nothing", "tool", "all"] = "nothing"
    """What it learns: that a question waits; also the names of server and tool; or also what is asked, with secrets
    masked."""
    to: tuple[str, ...] = ()
    """Whom it reaches, as rules name them in ``to``: it then tells only of questions that rules leave to these people.
    By default it tells of every question."""

    def __post_init__(self) -> None:
        if not re.match(r"[a-z][a-z0-9+.-]*://|\$\{", self.url, re.IGNORECASE):
            raise ValueError("url is an address as Apprise writes them: ntfy://..., slack://..., mailto://...")
        if self.is_push and not re.fullmatch(r"webpush://[^\s@/]+@[\w-]+(\.[\w-]+)+", self.url):
            raise ValueError("url is webpush:// with your e-mail address, which push services want to know")
        for name in self.to:
            check_name(name)

    @property
    def is_push(self) -> bool:
        """Whether it tells browsers, by Web Push."""
        return self.url.startswith("webpush:")


class PageLinks(msgspec.Struct, frozen=True):
    """Makes the links of notices. Where people sign in, a link is the question's address, and lets nobody in."""

    store: Store
    page: str | None
    """Its address; ``None`` if that is not known."""
    signs_in: bool
    clock: Callable[[], float] = time.time

    async def make(self, id: str) -> str:
        """Return a new link to a question; empty if the page's address is not known."""
        page = (self.page or "").rstrip("/")
        if self.signs_in or not page:
            return f"{page}/review/{id}" if page else ""
        secret = token_urlsafe(32)
        digest = digest_link(urlsplit(page).netloc, secret)
        await self.store.keep_timed_row("link", digest, id, self.clock() + LINK_AGE, most=MAX_LINKS)
        return f"{page}/link?secret={secret}"


def digest_link(page: str, secret: str) -> str:
    """Return the digest under which a link is kept. ``page``: its host, so that no other page takes the secret."""
    return hashlib.sha256(f"{page.lower()} {secret}".encode("utf-8", "surrogatepass")).hexdigest()


class NotDelivered(Exception):
    """A notice could not be sent; the message is ours, and names no address."""


class ServiceNotices:
    """Sends notices to one service in the background. Call it for each question; it returns at once."""

    def __init__(self, target: NoticeTarget, url: str, store: Store, name: str, links: PageLinks | None = None) -> None:
        """Name the service as the log may know it.

        ``url``: its address with all secrets; ``links`` leads to the questions in ``store``.
        """
        self.name = name
        self._target = target
        self._url = url
        self._store = store
        self._links = links
        self._texts = summary.load_texts(summary.terminal_language(None))
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING)
        self._count = 0
        self._last = float("-inf")
        self._has_failed = False
        """Whether the last notice could not be sent, so that this is logged only once."""
        self._task: asyncio.Task[None] | None = None

    def __call__(self, id: str, item: AnyItem) -> None:
        """Note that a question has come; needs a running event loop."""
        if not self.concerns(item):
            return
        self._waiting.append(id)
        self._count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_notices())

    def concerns(self, item: AnyItem) -> bool:
        """Return whether this service is told of a question."""
        demands = item.demands if isinstance(item, ToolItem) else Demands()
        to = {*self._target.to, "*"}
        return not self._target.to or (bool(demands.to) and all(not to.isdisjoint(names) for names in demands.to))

    async def aclose(self) -> None:
        """Cancel what was not sent yet."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await end_tasks(task)

    async def _send_notices(self) -> None:
        while self._waiting:
            await asyncio.sleep(max(0.0, self._last + SERVICE_PAUSE - time.monotonic()))
            latest, count = [*self._waiting], self._count
            self._waiting.clear()
            self._count = 0
            self._last = time.monotonic()
            try:
                await self._tell(latest, count)
                self._has_failed = False
            except Exception as error:
                # The address may contain a secret, and so may an error that quotes it: neither is logged.
                if not self._has_failed:
                    said = str(error) if isinstance(error, NotDelivered) else type(error).__name__
                    _log.warning("%s failed: %s", self.name, said)
                self._has_failed = True

    async def _tell(self, latest: Sequence[str], count: int) -> None:
        """Send one notice about the latest of ``count`` questions."""
        if text := await self._write_text(latest, count):
            await self.send_text(text)

    async def _write_text(self, latest: Sequence[str], count: int) -> str:
        """Describe the latest of ``count`` questions; empty if all were decided in the meantime."""
        latest = latest[-MAX_LISTED:]
        rows = [await self._store.review(id) for id in latest]
        waiting = [question_of(row) for row in rows if row is not None and row.state == "pending" and not row.held]
        count -= len(latest) - len(waiting)
        if not waiting:
            return ""
        words = self._texts
        parts = [words("notice.one") if count == 1 else words("notice.several", n=count)]
        for each in reversed(waiting):
            parts.append(await self._describe(each, MAX_TEXT // len(waiting)))
            parts.append("" if self._links is None else await self._links.make(each.id))
        if (more := count - len(waiting)) > 0 and self._target.show != "nothing":
            parts.append(words("notice.more", n=more))
        return "\n".join(filter(None, parts))

    async def send_text(self, text: str) -> None:
        """Send a text, at once; raise ``NotDelivered`` if the service did not take it in time."""
        try:
            async with asyncio.timeout(SERVICE_TIMEOUT):
                await send_by_apprise(self._url, "Antiphon", text)
        except TimeoutError:
            raise NotDelivered(f"it takes more than {SERVICE_TIMEOUT:g} s") from None

    async def _describe(self, question: Question, most: int) -> str:
        item, words = question.item, self._texts
        if item is None or self._target.show == "nothing":
            return ""
        who = summary.who_of(item.origin)
        subject = item.params.name if isinstance(item, ToolItem) else who.subject
        if self._target.show == "tool":
            return f"{inert_line(who.name)} · {separate_links(summary.cut_name(subject)) or words(who.without_call)}"
        costs = item.costs if isinstance(item, ReviewItem) and item.result is None else None
        headline = summary.headline_of(msgspec.structs.replace(who, call=separate_links(subject)), costs, words)
        try:
            text = await describe_masked(item, words)
        except TooCostly:
            text = words("notice.long")
        return f"{inert_line(headline)}\n{cut_text(text, most)}"


async def describe_masked(item: AnyItem, words: summary.Texts) -> str:
    """Return what is asked, with secrets masked: the arguments of a call, or the first words; and what is risky.

    Raises ``TooCostly``: it is too long to be searched for secrets.
    """
    params = await mask_to_json(item.params)
    if isinstance(item, ToolItem):
        arguments = msgspec.json.decode(params, type=dict[str, msgspec.Raw]).get("arguments", b"")
        said = bytes(arguments).decode()
    elif isinstance(item, ReviewItem) and item.result is not None:
        masked = msgspec.json.decode(await mask_to_json(item.result), type=type(item.result))
        said = summary.first_words(msgspec.structs.replace(item, result=masked))
    else:
        said = summary.first_words(
            msgspec.structs.replace(item, params=msgspec.json.decode(params, type=type(item.params)))
        )
    risks = " · ".join(words.risk(risk) for risk in item.risks if risk.level == "warning")
    return f"{risks} · {said}" if risks else said


def cut_text(text: str, most: int) -> str:
    """Return the beginning of somebody's text as one line that has no links, and the number of further characters."""
    more = f"\u2026 (+{len(text) - most:,})" if len(text) > most else ""
    # Marks are longer than the characters that they stand for.
    return separate_links(text[:most])[: 2 * most] + more


def separate_links(text: str) -> str:
    """Return somebody's text as one line in which no program finds a link or a mention: blanks separate its parts."""
    return _LINKS.sub(r"\g<0> ", inert_line(text))


class Notices:
    """All that is told of questions. Call it for each question; it returns at once."""

    def __init__(self, senders: Sequence[ServiceNotices]) -> None:
        self.senders = senders

    def __call__(self, id: str, item: AnyItem) -> None:
        """Note that a question has come; needs a running event loop."""
        for sender in self.senders:
            sender(id, item)

    async def aclose(self) -> None:
        """Cancel what was not sent yet."""
        for sender in self.senders:
            await sender.aclose()


async def send_by_apprise(url: str, title: str, body: str) -> None:
    """Send a plain text to a service, in a process of its own that is killed when the caller stops waiting.

    Raises ``NotDelivered``: Apprise does not know the service, or has not reached it.
    """
    # In a program packed into one file, this would start the program itself again.
    if getattr(sys, "frozen", False) or not sys.executable:
        raise NotDelivered("there is no Python interpreter to start")
    program = f"import sys; sys.path[:] = {sys.path!r}; from antiphon.host.review.apprise_process import main; main()"
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", program), stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
    )
    try:
        await process.communicate(msgspec.json.encode([url, title, body]))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == UNKNOWN:
        raise NotDelivered("Apprise knows no service with such an address")
    if process.returncode != DELIVERED:
        raise NotDelivered("the service could not be reached, or did not take the notice")
