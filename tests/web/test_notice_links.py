"""Links of notices: a preview uses nothing up, each opens one question once, and nothing else is let in by them."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import string
from contextlib import asynccontextmanager

import httpx
import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import Host, MemoryStore, Policy, Queue, Rule, Scripted
from antiphon.host.config.settings import Config, NoticeTarget, Notify, Reviewing, SignIn
from antiphon.host.configured_host import make_notices
from antiphon.host.review.notify import LINK_AGE, MAX_LINKS, PageLinks
from antiphon.host.review.question import PendingCall
from antiphon.host.review.review import Deny
from antiphon.web.page_guards import LINK_SESSION_AGE
from antiphon.web.page_server import ReviewPage
from antiphon.wire.tools import CallToolRequestParams
from tests.cli.program import COMMAND, ROOT, SHOP, environment
from tests.host.asks import origin
from tests.support.notice_services import notice_services
from tests.support.ports import free_port
from tests.web.pages import routes_of, visitor

PAGE = "https://review.example.org"
CONFIGURATION = """
[models.echo]
provider = "echo"
model = "echo"

[notify]
page = "http://links.localhost:{port}"

[[notify.targets]]
url = "ntfy://127.0.0.1:{ntfy}/team"
show = "all"

[review]
undo = 0
"""
NAMED = "0123.localhost:8700"


class Linked:
    """A page to which links lead, with a host whose questions wait, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.config = Config(notify=Notify(page=PAGE))
        self.page = ReviewPage(
            self.store, name="0123", named=NAMED, plain=["127.0.0.1:8700"], config=self.config, clock=lambda: self.now
        )
        self.page.access.steady = lambda: self.now
        self.queue = Queue(self.store, clock=lambda: self.now)
        self.host = Host(
            Scripted([]), reviewer=self.queue, store=self.store, policy=Policy(rules=(Rule(effect="ask"),))
        )
        self.links = PageLinks(self.store, PAGE, signs_in=False, clock=lambda: self.now)
        self.calls: list[asyncio.Task[object]] = []

    async def ask(self, name: str):
        """Let a call of a tool wait, and return its question."""
        params, number = CallToolRequestParams.of(name, {"amount": 5}), len(self.calls) + 1
        self.calls.append(asyncio.create_task(self.host.confirm(params, origin(str(number), call=str(number)))))
        async for _ in self.queue.changes():
            if len(found := await self.queue.pending()) == number:
                return found[-1]
        raise AssertionError("unreachable")

    def browser(self, base: str = PAGE) -> httpx.AsyncClient:
        """Make a browser, which says where its forms come from."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.page), base_url=base, headers={"Origin": base})


@asynccontextmanager
async def linked():
    """Make the page for a block."""
    made = Linked()
    yield made
    for each in made.calls:
        each.cancel()
    await asyncio.gather(*made.calls, return_exceptions=True)


async def open_link(browser: httpx.AsyncClient, link: str) -> httpx.Response:
    """Open a link as a person does: look at the page, then press its button."""
    page = await browser.get(link)
    secret = re.search(r'name="secret" value="([^"]*)"', page.text)[1]
    return await browser.post("/link", data={"secret": secret})


def fields_of(page: str, action: str) -> dict[str, str]:
    """Read the hidden fields of a form, as a browser without scripts sends them."""
    form = re.search(rf'<form[^>]*action="[^"]*{action}[^"]*".*?</form>', page, re.DOTALL)[0]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))


async def test_a_link_opens_its_question_and_a_person_decides_there():
    """Without the page's script, which would follow the whole queue."""
    async with linked() as made, made.browser() as browser:
        question, other = await made.ask("pay"), await made.ask("look")
        opened = await open_link(browser, await made.links.make(question.id))
        assert (opened.status_code, opened.headers["location"]) == (303, f"/review/{question.id}")
        cookie = opened.headers["set-cookie"]
        assert cookie.startswith(f"__Host-antiphon-link-{question.id}=")
        assert {"HttpOnly", "Max-Age=3600", "Path=/", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
        page = (await browser.get(opened.headers["location"])).text
        assert ">pay</b>" in page
        assert "<script" not in page
        made.now += 1
        done = await browser.post(f"/review/{question.id}/approve", data=fields_of(page, "/approve"))
        assert done.status_code == 303, done.text
        assert other.id not in done.headers["location"]
        assert await made.calls[0]
        assert (await made.queue.get(question.id)).by == "link 1"
        assert done.headers["location"].startswith(f"/review/{question.id}?said=")
        assert (await browser.get(done.headers["location"])).status_code == 200


async def test_a_preview_neither_uses_a_link_up_nor_decides():
    """Whatever a chat's program fetches: only the button's form does something."""
    async with linked() as made, made.browser() as browser:
        question = await made.ask("pay")
        link = await made.links.make(question.id)
        for method in ("GET", "HEAD", "GET"):
            seen = await browser.request(method, link, headers={"User-Agent": "Slackbot-LinkExpanding 1.0"})
            assert (seen.status_code, "set-cookie" in seen.headers) == (200, False)
            assert "pay" not in seen.text
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            refused = await browser.post("/link", data={"secret": link.partition("=")[2]}, headers=headers)
            assert refused.status_code == 403
        assert (await made.queue.get(question.id)).state == "pending"
        assert (await open_link(browser, link)).status_code == 303


async def test_a_link_is_followed_once_by_whoever_comes_first():
    """Two at the same moment, and everybody after that."""
    async with linked() as made, made.browser() as one, made.browser() as other:
        link = await made.links.make((await made.ask("pay")).id)
        both = await asyncio.gather(open_link(one, link), open_link(other, link))
        assert sorted(each.status_code for each in both) == [303, 403]
        assert (await open_link(other, link)).status_code == 403


async def test_no_forged_altered_replayed_or_expired_link_passes():
    """0 of 10,000; and then the real one does."""
    async with linked() as made, made.browser() as browser:
        first, second = await made.ask("pay"), await made.ask("look")
        link = await made.links.make(first.id)
        secret = link.partition("secret=")[2]
        used = (await made.links.make(second.id)).partition("secret=")[2]
        assert await made.page.access.follow_link(used)
        elsewhere = PageLinks(made.store, "https://review.example.net", signs_in=False, clock=lambda: made.now)
        readdressed = (await elsewhere.make(first.id)).partition("secret=")[2]
        seed = random.Random(7)
        letters = string.ascii_letters + string.digits + "-_"
        forged = {used, readdressed, "", first.id, second.id, secret + "=", secret.swapcase(), secret[::-1]}
        forged |= {
            secret[:at] + seed.choice(letters) + secret[at + 1 :] for at in range(len(secret)) for _ in range(100)
        }
        forged |= {secret[:at] for at in range(len(secret))} | {secret + each for each in letters}
        while len(forged) < 10_000:
            forged.add("".join(seed.choices(letters, k=len(secret))))
        forged.discard(secret)
        passed = [each for each in forged if await made.page.access.follow_link(each) is not None]
        assert passed == []
        for each in seed.sample(sorted(forged), 200):
            answer = await browser.post("/link", data={"secret": each})
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        made.now += LINK_AGE - 1
        late = await made.links.make(first.id)
        assert (await open_link(browser, link)).status_code == 303
        made.now += LINK_AGE
        assert (await open_link(browser, late)).status_code == 403


async def test_a_links_session_sees_and_decides_its_question_alone():
    """Neither the queue, nor other questions, nor anything that lasts."""
    async with linked() as made, made.browser() as browser:
        first, second = await made.ask("pay"), await made.ask("secret-tool")
        await open_link(browser, await made.links.make(first.id))
        own = f"/review/{first.id}"
        page = (await browser.get(own)).text
        assert "secret-tool" not in page
        assert second.id not in page
        for part in ("edit", "like", "withdrawn?reach=call", "withdrawn?reach=server", "text/raw", "?after=0"):
            seen = await browser.get(f"{own}/{part}".replace("/?", "?"), headers={"X-Part": "detail"})
            assert "secret-tool" not in seen.text, part
            assert second.id not in seen.text, part
        made.now += 1
        for path, _ in routes_of(made.page):
            asked = path.replace("{id}", second.id).replace("{identity}", first.identity)
            if re.search(r"\{|^/link", asked):
                continue
            seen = await browser.get(asked)
            away = (401, "") if asked.startswith("/review/") else (303, own)
            assert (seen.status_code, seen.headers.get("location", "").partition("?")[0]) == away, path
        csrf = {"csrf": fields_of(page, "/approve")["csrf"]}
        for path in ("/grants/1/revoke", "/unblock", "/servers/block", "/several", "/alike", "/settings/invite"):
            assert (await browser.post(path, data=csrf)).status_code == 403
        for path in (f"/review/{second.id}/approve", f"/review/{second.id}/deny", f"{own}x/deny"):
            assert (await browser.post(path, data={**fields_of(page, "/approve")})).status_code == 401
        undo = await browser.post("/undo", data={**csrf, "of": f"{second.id} 1.0"})
        assert undo.status_code == 401
        for action, more in (
            ("approve", {"scope": "always"}),
            ("deny", {"reach": "server"}),
            ("deny", {"reach": "call"}),
        ):
            done = await browser.post(f"{own}/{action}", data={**fields_of(page, "/approve"), **more})
            assert done.status_code == 403, (action, more)
            assert "A link decides one question" in done.text
        assert [each.state for each in await made.queue.pending()] == ["pending", "pending"]
        assert (await browser.post(f"{own}/deny", data=fields_of(page, "/deny"))).status_code == 303


async def test_links_opened_side_by_side_are_each_for_their_own_question():
    """Each tab decides, and takes back, what its own link is for; the session of one is none of the other's."""
    async with linked() as made, made.browser() as browser:
        made.page.site.queue = Queue(made.store, clock=lambda: made.now, undo=30.0)
        asked = [await made.ask("pay"), await made.ask("look")]
        for each in asked:
            assert (await open_link(browser, await made.links.make(each.id))).status_code == 303
        forms = [fields_of((await browser.get(f"/review/{each.id}")).text, "/approve") for each in asked]
        made.now += 1
        crossed = await browser.post(f"/review/{asked[0].id}/approve", data=forms[0] | {"csrf": forms[1]["csrf"]})
        assert crossed.status_code == 403
        for number, (question, form) in enumerate(zip(asked, forms, strict=True), 1):
            done = await browser.post(f"/review/{question.id}/approve", data=form)
            assert done.headers["location"].startswith(f"/review/{question.id}?said="), done.text
            assert (await made.queue.get(question.id)).by == f"link {number}"
        both = [f"{each.id} {(await made.queue.get(each.id)).decided}" for each in asked]
        together = await browser.post("/undo", data={"csrf": forms[0]["csrf"], "of": both})
        assert together.status_code == 403
        for form, named in zip(forms, both, strict=True):
            assert (await browser.post("/undo", data={"csrf": form["csrf"], "of": named})).status_code == 303
        assert [each.state for each in await made.queue.pending()] == ["pending", "pending"]
        assert (await browser.get("/")).headers["location"].partition("?")[0] == f"/review/{asked[1].id}"


async def test_a_session_of_a_link_lasts_no_longer_though_the_clock_is_set_back():
    """An hour is an hour, whatever the machine says it is."""
    async with linked() as made, made.browser() as browser:
        question = await made.ask("pay")
        await open_link(browser, await made.links.make(question.id))
        made.page.access.steady = lambda: 1_000_000.0 + LINK_SESSION_AGE
        made.now -= 1800
        assert (await browser.get(f"/review/{question.id}")).status_code == 401


async def test_a_tab_whose_link_has_ended_shows_no_other_question():
    """A person who loads it again would decide about something else than what the tab was opened for."""
    async with linked() as made, made.browser() as browser:
        old, new = await made.ask("pay"), await made.ask("look")
        await open_link(browser, await made.links.make(old.id))
        form = fields_of((await browser.get(f"/review/{old.id}")).text, "/approve")
        made.now += LINK_SESSION_AGE - 1
        await open_link(browser, await made.links.make(new.id))
        made.now += 2
        again = await browser.get(f"/review/{old.id}")
        late = await browser.post(f"/review/{old.id}/approve", data=form)
        undo = await browser.post("/undo", data={"csrf": form["csrf"], "of": f"{old.id} 1.0"})
        assert (again.status_code, late.status_code, undo.status_code) == (401, 401, 401)
        assert (
            again.text
            == late.text
            == undo.text
            == "This link was used already, or has ended. Open the review page itself.\n"
        )
        assert (await browser.get(f"/review/{new.id}")).status_code == 200


async def test_a_link_takes_back_its_own_decision_and_no_other():
    """Or it would unblock a server that somebody else has just blocked."""
    async with linked() as made, made.browser() as browser:
        made.page.site.queue = queue = Queue(made.store, clock=lambda: made.now, undo=30.0)
        question = await made.ask("pay")
        own = f"/review/{question.id}"
        await open_link(browser, await made.links.make(question.id))
        form = fields_of((await browser.get(own)).text, "/approve")
        made.now += 1
        await queue.decide_all({question.id: Deny(reach="server")}, {question.id: question.hash}, by="owner")
        named = {"csrf": form["csrf"], "of": f"{question.id} {(await queue.get(question.id)).decided}"}
        refused = await browser.post("/undo", data=named)
        assert refused.status_code == 403, refused.headers
        assert [each.identity for each in await made.store.blocks()] == [question.identity]
        await queue.undo(question.id, by="owner")
        assert (await browser.post(f"{own}/approve", data=form)).status_code == 303
        named["of"] = f"{question.id} {(await queue.get(question.id)).decided}"
        assert (await browser.post("/undo", data=named)).status_code == 303
        assert (await queue.get(question.id)).state == "pending"


async def test_a_session_of_a_link_is_of_its_own_name_and_ends():
    """Cookies of the page's other names count for nothing there, nor the other way round."""
    async with linked() as made, made.browser() as browser:
        question = await made.ask("pay")
        await open_link(browser, await made.links.make(question.id))
        [secret] = browser.cookies.values()
        for base in (f"http://{NAMED}", "http://127.0.0.1:8700"):
            async with made.browser(base) as other:
                for name in ("antiphon-session", "antiphon-link", "__Host-antiphon-link"):
                    other.cookies.set(name, secret)
                seen = await other.get(f"/review/{question.id}", headers={"X-Antiphon-Session": secret})
                assert seen.status_code == 401
                assert (await other.get("/link?secret=x")).status_code in (401, 404)
        owner = await made.page.access.redeem(made.page.access.issue())
        async with made.browser() as other:
            for name in ("antiphon-session", "antiphon-link", "__Host-antiphon-link"):
                other.cookies.set(name, owner)
            seen = await other.get(f"/review/{question.id}", headers={"X-Antiphon-Session": owner})
            assert seen.status_code == 401
            assert "This link was used already" in seen.text
        made.now += LINK_SESSION_AGE
        assert (await browser.get(f"/review/{question.id}")).status_code == 401


async def test_a_decision_that_comes_as_the_question_expires_is_too_late():
    """It is said to have expired, though nobody has written that down yet."""
    async with linked() as made, made.browser() as browser:
        with PendingCall(0.0, 600.0), pytest.raises(Rejected):
            await made.host.confirm(CallToolRequestParams.of("pay", {"amount": 5}), origin("1"))
        [question] = await made.queue.pending()
        own = f"/review/{question.id}"
        await open_link(browser, await made.links.make(question.id))
        form = fields_of((await browser.get(own)).text, "/approve")
        made.now += 600
        late = await browser.post(f"{own}/approve", data=form)
        assert late.status_code == 409
        assert "Too late: this request is expired." in late.text
        assert (await made.store.review(question.id)).decision is None


async def test_a_link_does_not_answer_for_people_whom_a_rule_wants():
    """Whoever follows one has proven nothing."""
    async with linked() as made, made.browser() as browser:
        rules = Policy(rules=(Rule(effect="ask", to=("group:finance",)),))
        made.host = Host(Scripted([]), reviewer=made.queue, store=made.store, policy=rules)
        question = await made.ask("pay")
        opened = await open_link(browser, await made.links.make(question.id))
        page = (await browser.get(opened.headers["location"])).text
        made.now += 1
        csrf = re.search(r'<meta name="csrf" content="([^"]+)"', page)[1]
        refused = await browser.post(f"/review/{question.id}/deny", data={"csrf": csrf, "hash": question.hash})
        assert refused.status_code == 403
        assert "people who have signed in" in refused.text


async def test_where_people_sign_in_a_link_is_an_address_and_no_more():
    """Nothing of it is a secret, and two pages are refused."""
    sign_in = SignIn(
        url="https://team.example.org/", issuer="https://id.example.org", client_id="x", roles={"viewer": ("*",)}
    )
    store, notify = MemoryStore(), Notify(targets=(NoticeTarget(url="ntfy://127.0.0.1:9/x"),))
    for config, link in (
        (Config(notify=notify, review=Reviewing(sign_in=sign_in)), "https://team.example.org/review/12ab"),
        (Config(notify=notify), ""),
    ):
        [sender] = make_notices(store, config).senders
        assert await sender._links.make("12ab") == link
    with pytest.raises(ConfigError, match="remove it"):
        make_notices(store, Config(review=Reviewing(sign_in=sign_in), notify=Notify(page=PAGE)))


@pytest.mark.parametrize(
    "page",
    [
        "http://review.example.org",
        "http://127.0.0.1:8700",
        "https://x.example/path",
        "https://x.example?q",
        "review",
        "https://",
    ],
)
def test_an_address_that_is_not_safe_is_refused(page: str):
    """A link is a secret on its way."""
    with pytest.raises(ValueError, match="page is an https address"):
        Notify(page=page)
    assert Notify(page="http://links.localhost:8700/").page


async def test_links_that_nobody_follows_are_bounded():
    """Those that end first leave."""
    async with linked() as made:
        first = (await made.links.make("1")).partition("secret=")[2]
        made.now += 1
        second = (await made.links.make("2")).partition("secret=")[2]
        for _ in range(MAX_LINKS - 1):
            made.now += 1
            await made.links.make("3")
        assert await made.page.access.follow_link(first) is None
        assert (await made.page.access.follow_link(second)).only == "2"


async def test_a_person_who_is_told_elsewhere_lets_a_call_go_on(tmp_path):
    """The whole way: server, call, notice, page and decision, each in a process of its own."""
    port = free_port()
    async with notice_services(tmp_path) as services:
        settings = tmp_path / "antiphon.toml"
        settings.write_text(CONFIGURATION.format(port=port, ntfy=services.port), encoding="utf-8")
        options = ["--config", str(settings), "--store", str(tmp_path / "host.db")]
        web = [*COMMAND, "review", "web", "--port", str(port), "--no-open", *options]
        page = await asyncio.create_subprocess_exec(*web, stderr=-1, cwd=ROOT, env=environment())
        assert b"Review page" in await page.stderr.readline()
        words = [*COMMAND, "call", SHOP, "describe", "product=hat", "--review", "queue", *options]
        call = await asyncio.create_subprocess_exec(*words, stdout=-1, stderr=-1, cwd=ROOT, env=environment())
        said, headline, facts, link = (await services.taken.get()).text.splitlines()
        assert said == "A question waits for you."
        assert "describe" in headline
        assert "Describe hat" in facts
        base = f"http://links.localhost:{port}"
        assert link.startswith(f"{base}/link?secret=")
        async with visitor(base_url=base, headers={"Origin": base}) as browser:
            opened = await open_link(browser, link)
            shown = (await browser.get(opened.headers["location"])).text
            assert "Describe hat" in shown
            decision = opened.headers["location"] + "/approve", fields_of(shown, "/approve")
            # Nobody reads in less than 0.4 seconds, so that an earlier approval is refused.
            while (done := await browser.post(decision[0], data=decision[1])).status_code == 422:
                pass
            assert done.status_code == 303
        assert (await call.communicate())[0] == b"echo: [echo] Describe hat\n"
        page.send_signal(signal.SIGINT)
        await page.communicate()
