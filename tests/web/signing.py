"""A page on which people sign in, an OpenID provider that each test may spoil, and the browsers of several people."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from antiphon.host import Host, MemoryStore, Queue, Scripted
from antiphon.host.checks.policy_rules import Policy, Rule
from antiphon.host.config.settings import Config, Reviewing, SignIn
from antiphon.host.review.question import Question
from antiphon.web.page_server import RunningPage, running_page
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin
from tests.support.issuer import Issuer
from tests.support.ports import free_port
from tests.web.pages import visitor

CLIENT = "review-page"
PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"name": "Ann", "email": "ann@example.org", "email_verified": True, "groups": ["finance"]},
    "bob": {"name": "Bob", "email": "bob@example.org", "email_verified": True, "groups": ["finance"]},
    "cy": {"name": "Cy", "groups": ["lookers"]},
    "dee": {"name": "Dee", "groups": ["platform"]},
    "eve": {"name": "Eve", "email": "ann@example.org", "email_verified": False, "groups": ["strangers"]},
    "fay": {"name": "Fay", "groups": ["reviewers"]},
}
"""Claims by subject: two of finance, one who may only look, an admin, one without a role, and another reviewer."""
ROLES: dict[Any, tuple[str, ...]] = {
    "viewer": ("group:lookers",),
    "reviewer": ("group:finance", "group:reviewers", "ann@example.org"),
    "admin": ("group:platform",),
}


class Provider(Issuer):
    """An OpenID provider. ``claims`` of the next ID token, and ``made``, the token itself, are for a test to spoil."""

    def __init__(self) -> None:
        super().__init__()
        self.forms = ("/.well-known/openid-configuration",)
        self.claims: dict[str, Any] = {}
        self.how: dict[str, Any] = {}
        """Key, algorithm, header of ID tokens, if they are to be others."""
        self.codes: dict[str, dict[str, str]] = {}
        """What each code was given out for; one is used once."""
        self.people: dict[str, str] = {}
        """The subject of each code."""

    def answer(self, path: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """Answer at a path, as issuers do."""
        self.metadata = {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "end_session_endpoint": f"{self.url}/end",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        if path == "/token" and path not in self.bodies and not self.down:
            return self.exchange({name: values[0] for name, values in form.items()})
        return super().answer(path, form)

    def agree(self, address: str, subject: str) -> str:
        """Sign somebody in, and return the address to which the browser is sent back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = f"code-{len(self.codes)}-{subject}"
        self.codes[code], self.people[code] = asked, subject
        back = urlencode({"code": code, "state": asked["state"], "iss": self.url})
        return f"{asked['redirect_uri']}?{back}"

    def exchange(self, form: dict[str, str]) -> tuple[int, bytes]:
        """Exchange a code, once, and for whoever has its verifier."""
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or asked["code_challenge"] != challenge.rstrip(b"=").decode():
            return 400, b'{"error":"invalid_grant"}'
        subject = self.people[form["code"]]
        said = {"aud": CLIENT, "sub": subject, "nonce": asked["nonce"], **PEOPLE[subject], **self.claims}
        token = self.token(
            header={"typ": "JWT", **self.how.get("header", {})},
            **{name: value for name, value in self.how.items() if name != "header"},
            **{name: value for name, value in said.items() if value is not None},
        )
        answer = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": token}
        return 200, json.dumps(answer).encode()


class Browser:
    """The browser of one person."""

    def __init__(self, team: Team, client: httpx.AsyncClient) -> None:
        self.team = team
        self.client = client
        self.csrf = ""

    async def start(self, path: str = "/") -> str:
        """Open the page, and return the provider's address to which it leads."""
        page = await self.client.get(path, follow_redirects=False)
        assert page.status_code == 303, page.text
        begun = await self.client.get(page.headers["location"], follow_redirects=False)
        return begun.headers["location"]

    async def come_back(self, address: str) -> httpx.Response:
        """Follow the provider's redirect to the page, as a browser does that comes from another site."""
        return await self.client.get(address, headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False)

    async def sign_in(self, subject: str, path: str = "/") -> httpx.Response:
        """Sign somebody in; returns what the page has answered to the redirect."""
        entered = await self.come_back(self.team.provider.agree(await self.start(path), subject))
        page = await self.client.get("/")
        if found := re.search(r'<meta name="csrf" content="([^"]+)"', page.text):
            self.csrf = found[1]
        return entered

    async def post(self, path: str, data: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Do something, as the page's script does."""
        sent = {"X-CSRF-Token": self.csrf, "Origin": self.team.origin, "Accept": "application/json", **headers}
        return await self.client.post(path, data=data or {}, headers=sent)

    async def decide(self, question: Question, action: str, digest: str = "", **fields: Any) -> httpx.Response:
        """Decide a question as it is shown now."""
        page = await self.client.get(f"/review/{question.id}")
        found = {name: re.findall(rf'name="{name}" value="([^"]*)"', page.text) for name in ("hash", "digest")}
        shown = await self.team.queue.get(question.id)
        session = self.team.running.page.access.session(self.client.cookies.get("antiphon-session"))
        assert session is not None
        stamp = session.stamp(f"{question.id}:{shown.hash}", self.team.now - 1)
        mine = digest or next(iter(found["digest"]), "")
        form = {"hash": shown.hash, "digest": mine, "shown": stamp, **fields}
        return await self.post(f"/review/{question.id}/{action}", form)


class Team:
    """A page on which people sign in, a host that has calls of tools confirmed there, and a clock that tests set."""

    def __init__(self, running: RunningPage, provider: Provider, host: Host, stack: AsyncExitStack) -> None:
        self.running = running
        self.provider = provider
        self.host = host
        self.queue = running.page.site.queue
        self.origin = running.origin
        self.stack = stack
        self.ahead = 0.0
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def now(self) -> float:
        """The time on the page's clock."""
        return time.time() + self.ahead

    async def browser(self, subject: str = "") -> Browser:
        """Make a browser, in which somebody may be signed in."""
        made = Browser(self, await self.stack.enter_async_context(visitor(base_url=self.origin)))
        if subject:
            entered = await made.sign_in(subject)
            assert entered.status_code == 200, entered.text
        return made

    async def asked(
        self, name: str = "pay", who: Origin | None = None, **arguments: Any
    ) -> tuple[Question, asyncio.Task[bool | ChangedCall]]:
        """Let an agent call a tool; returns the question once it waits, and the caller's waiting."""
        before = {question.id for question in await self.queue.pending()}
        params = CallToolRequestParams.of(name, arguments)
        task = asyncio.create_task(self.host.confirm(params, who or origin(str(len(self.tasks)))))
        self.tasks.append(task)
        async for _ in self.queue.changes():
            for question in await self.queue.pending():
                if question.id not in before:
                    return question, task
            if task.done():
                task.result()
        raise AssertionError


@asynccontextmanager
async def team(
    *rules: Rule, undo: float = 0.0, hours: float = 8.0, issuer: str = "", url: str = "", **more: Any
) -> AsyncIterator[Team]:
    """Serve a page on which the people of ``PEOPLE`` sign in, for a block.

    ``issuer``: that of a real provider; ``passwords`` instead: a file of people.
    """
    async with AsyncExitStack() as stack:
        provider = Provider()
        url = url or f"http://team.localhost:{free_port()}"
        if "passwords" not in more:
            if not issuer:
                await stack.enter_async_context(provider.open())
            more |= {"issuer": issuer or provider.url, "client_id": CLIENT}
        sign_in = SignIn(url=url, roles=ROLES, hours=hours, **more)
        config = Config(review=Reviewing(undo=undo, sign_in=sign_in))
        store = MemoryStore()
        host = Host(Scripted(["ok"] * 50), reviewer=Queue(store), store=store, policy=Policy(rules=rules))
        running = await stack.enter_async_context(running_page(store, config=config))
        made = Team(running, provider, host, stack)
        access = running.page.access
        access.clock = access.steady = lambda: made.now
        site = running.page.site
        site.clock = lambda: made.now
        if site.sign_in is not None:
            site.sign_in.clock = lambda: made.now
        try:
            yield made
        finally:
            for task in made.tasks:
                task.cancel()
            await asyncio.gather(*made.tasks, return_exceptions=True)


async def begin(team: Team, subject: str = "ann") -> tuple[Browser, str]:
    """Let somebody sign in at the provider; returns the browser, and the address to which it is sent back."""
    browser = await team.browser()
    return browser, team.provider.agree(await browser.start(), subject)


async def is_let_in(browser: Browser) -> bool:
    """Return whether a browser has a session."""
    return (await browser.client.get("/settings", follow_redirects=False)).status_code == 200
