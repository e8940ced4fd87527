"""Notices to services, by the real Apprise, to stand-ins that speak what the services document."""

from __future__ import annotations

import asyncio
import email
import logging
from contextlib import asynccontextmanager
from email import policy

import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import (
    Approve,
    ConfiguredHost,
    MemoryStore,
    Policy,
    Question,
    Queue,
    Rule,
    Scripted,
    configured_host,
    digest,
)
from antiphon.host.config import Config
from antiphon.host.config.settings import NoticeTarget, Notify
from antiphon.host.configured_host import make_notices, queue_in
from antiphon.host.review import notify
from antiphon.host.review.notify import MAX_LISTED, SERVICE_PAUSE, Notices, ServiceNotices, digest_link, separate_links
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin, request
from tests.support.network import until
from tests.support.notice_services import TOKENS, TakenNotice, notice_services

SECRET = "AKIAIOSFODNN7EXAMPLE"


@asynccontextmanager
async def asking(*targets: NoticeTarget, rules: tuple[Rule, ...] = (), page: str | None = None):
    """Make a host that tells these, with a function that asks for the call of a tool and leaves it waiting."""
    config = Config(notify=Notify(targets=targets, page=page), policy=Policy(rules=rules))
    store, waiting = MemoryStore(), []
    queue = queue_in(store, config)
    host = ConfiguredHost(config, {}, provider=Scripted([]), reviewer=queue, store=store)

    def ask(name: str = "pay", **arguments):
        call = host.confirm(
            CallToolRequestParams.of(name, arguments), origin(str(len(waiting)), call=f"{len(waiting)}")
        )
        waiting.append(asyncio.create_task(call))

    yield host, queue, ask
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting or [asyncio.create_task(asyncio.sleep(0))])
    await host.aclose()


async def wait_for(queue: Queue, number: int) -> list[Question]:
    """Return the questions that wait, once there are so many."""
    async for _ in queue.changes():
        if len(found := await queue.pending()) >= number:
            return found
    raise AssertionError("unreachable")


def ntfy(services, **more) -> NoticeTarget:
    """Name the stand-in of ntfy."""
    return NoticeTarget(url=f"ntfy://127.0.0.1:{services.port}/team", **more)


async def taken(services) -> TakenNotice:
    """Wait for a notice."""
    async with asyncio.timeout(60):
        return await services.taken.get()


@pytest.mark.parametrize("service", ["slack", "telegram", "mail", "ntfy"])
async def test_a_person_is_told_by_each_service(service: str, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A question waits: which server, which tool, and by default not even that."""
    async with notice_services(tmp_path) as services:
        for name, value in services.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TOKEN", TOKENS[0] if service == "slack" else TOKENS[1])
        url = {
            "slack": "slack://${TOKEN}/",
            "telegram": "tgram://${TOKEN}/4711/",
            "mail": f"mailto://127.0.0.1:{services.mail_port}/?from=antiphon@shop.example&to=ann@shop.example&mode=insecure",
            "ntfy": f"ntfy://127.0.0.1:{services.port}/team",
        }[service]
        async with asking(NoticeTarget(url=url, show="tool")) as (_, _, ask):
            ask("pay", amount=5)
            said = await taken(services)
    assert said.service == service
    assert said.to == {"slack": "", "telegram": "4711", "mail": "ann@shop.example", "ntfy": "team"}[service]
    text = said.text
    if service == "mail":
        text = email.message_from_string(text, policy=policy.default).get_body().get_content()
    assert "A question waits for you." in text
    assert "catalogue.py · pay" in text
    assert "amount" not in text


async def test_what_is_shown_is_what_the_user_allows(tmp_path):
    """Nothing: that something waits. All: the arguments, too, with secrets masked and no links."""
    async with notice_services(tmp_path) as services:
        targets = ntfy(services), ntfy(services, show="all")
        async with asking(*targets) as (_, _, ask):
            ask("pay", to="https://evil.example/x", key=SECRET, note="@everyone " + "x" * 5_000)
            one, other = sorted([(await taken(services)).text, (await taken(services)).text], key=len)
    assert one == "A question waits for you."
    assert "catalogue.py" in other
    assert "https:/ /evil. example/x" in other
    assert SECRET not in other
    assert "@ everyone" in other
    assert "… (+4," in other
    assert len(other) < 2_000


async def test_a_notice_leads_to_each_question_that_it_describes(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """By a link of its own, which nobody but the notice has."""
    monkeypatch.setattr(notify, "SERVICE_PAUSE", 0.0)
    async with notice_services(tmp_path) as services:
        page = "https://review.example.org"
        async with asking(ntfy(services), page=page) as (_, queue, ask):
            services.free.clear()
            ask()
            await services.heard.wait()
            ask("one"), ask("two")
            waiting = await wait_for(queue, 3)
            services.free.set()
            await taken(services)
            first, *links = (await taken(services)).text.splitlines()
            assert first == "2 new questions wait for you."
            for link, question in zip(links, reversed(waiting[1:]), strict=True):
                secret = link.removeprefix(f"{page}/link?secret=")
                assert (
                    await queue._store.take_timed_row("link", digest_link("review.example.org", secret)) == question.id
                )


async def test_a_request_is_summed_up_with_its_secrets_masked(tmp_path):
    """Its first words, as the queue shows them."""
    async with notice_services(tmp_path) as services, asking(ntfy(services, show="all")) as (host, _, _):
        asked = asyncio.create_task(host(request(f"Describe {SECRET}"), origin()))
        said = await taken(services)
        asked.cancel()
        await asyncio.wait([asked])
    assert "Describe [AWS access key]" in said.text


async def test_a_notice_goes_to_the_people_whom_a_rule_names(tmp_path):
    """A target with ``to`` hears only what rules leave to these people; one without hears everything."""
    rules = (Rule(effect="ask", name="pay", to=("group:finance",)), Rule(effect="ask"))
    async with notice_services(tmp_path) as services:
        targets = ntfy(services, to=("group:finance",)), ntfy(services, to=("group:sales",)), ntfy(services)
        async with asking(*targets, rules=rules) as (_, queue, ask):
            ask("pay")
            await taken(services)
            await taken(services)
            assert [sender._task is not None for sender in queue._notify.senders] == [True, False, True]
            ask("look")
            [pay, look] = await wait_for(queue, 2)
            for question, concerned in ((pay, [True, False, True]), (look, [False, False, True])):
                assert [sender.concerns(question.item) for sender in queue._notify.senders] == concerned


def test_to_means_every_list_of_the_rules_that_match():
    """The demands of all rules count together, so a target has to reach somebody of each."""
    from antiphon.host.checks.people import Demands
    from antiphon.host.review.review import ToolItem

    def concerns(*to: str, demands: tuple[tuple[str, ...], ...]) -> bool:
        target = NoticeTarget(url="ntfy://127.0.0.1/x", to=to)
        item = ToolItem(
            origin=origin(), params=CallToolRequestParams.of("x"), choices=frozenset(), demands=Demands(to=demands)
        )
        return ServiceNotices(target, target.url, MemoryStore(), "1").concerns(item)

    assert concerns("group:a", demands=(("group:a", "group:b"),))
    assert not concerns("group:a", demands=(("group:a",), ("group:b",)))
    assert concerns("group:a", "group:b", demands=(("group:a",), ("group:b",)))
    assert concerns("group:a", demands=(("*",),))
    assert not concerns("group:a", demands=())
    assert concerns(demands=())


async def test_nobody_is_told_of_what_a_rule_decides():
    """No question waits, so no notice is sent."""
    rules = (Rule(effect="allow", name="look"), Rule(effect="deny", name="pay"))
    async with asking(NoticeTarget(url="ntfy://127.0.0.1:9/x"), rules=rules) as (host, queue, _):
        assert await host.confirm(CallToolRequestParams.of("look"), origin("1"))
        with pytest.raises(Rejected):
            await host.confirm(CallToolRequestParams.of("pay"), origin("2"))
        [sender] = queue._notify.senders
        assert sender._task is None


async def test_a_flood_of_questions_is_one_notice_with_a_count(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """The latest are described, the others counted; a person's phone does not ring a thousand times."""
    monkeypatch.setattr(notify, "SERVICE_PAUSE", 0.0)
    async with notice_services(tmp_path) as services, asking(ntfy(services, show="tool")) as (_, queue, ask):
        services.free.clear()
        ask()
        await services.heard.wait()
        for _ in range(30):
            ask()
        await wait_for(queue, 31)
        services.free.set()
        first, second = (await taken(services)).text, (await taken(services)).text
        assert first.startswith("A question waits for you.")
        lines = second.splitlines()
        assert lines[0] == "30 new questions wait for you."
        assert len(lines) == MAX_LISTED + 2
        assert lines[-1] == f"and {30 - MAX_LISTED} more"
        assert services.taken.empty()
    assert SERVICE_PAUSE == 20.0


async def test_what_was_decided_in_the_meantime_is_left_out(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A notice that nobody needs any more is not sent."""
    monkeypatch.setattr(notify, "SERVICE_PAUSE", 0.0)
    async with notice_services(tmp_path) as services, asking(ntfy(services)) as (_, queue, ask):
        services.free.clear()
        ask()
        await services.heard.wait()
        ask("one"), ask("two")
        for each in (await wait_for(queue, 3))[1:]:
            await queue.decide(each.id, Approve(digest=digest(each.item.params)), hash=each.hash)
        services.free.set()
        [sender] = queue._notify.senders
        await sender._task
        assert services.taken.qsize() == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("slackk://SECRET-TOKEN", "Apprise knows no service"),
        ("ntfy://SECRET-TOKEN@127.0.0.1:9/x", "could not be reached"),
    ],
)
async def test_a_failure_is_logged_once_and_without_secrets(
    url: str, said: str, caplog: pytest.LogCaptureFixture, monkeypatch
):
    """The decision is made all the same, and nothing that Apprise quotes is repeated."""
    monkeypatch.setattr(notify, "SERVICE_PAUSE", 0.0)
    with caplog.at_level(logging.DEBUG):
        async with asking(NoticeTarget(url=url)) as (_, queue, ask):
            [sender] = queue._notify.senders
            for number in (1, 2):
                ask()
                await wait_for(queue, number)
                await sender._task
    assert [said in each.getMessage() for each in caplog.records if "notify" in each.getMessage()] == [True]
    assert "[[notify.targets]] 1 failed" in caplog.text
    assert "SECRET" not in caplog.text


async def test_a_service_that_does_not_answer_holds_nobody_up(tmp_path):
    """The decision counts at once; the process that waits for the service is killed at the end."""
    async with notice_services(tmp_path) as services, asking(ntfy(services)) as (_, queue, ask):
        services.free.clear()
        ask()
        await services.heard.wait()
        [waiting] = await queue.pending()
        await queue.decide(waiting.id, Approve(digest=digest(waiting.item.params)), hash=waiting.hash)
        assert (await queue.get(waiting.id)).state in ("decided", "done")
        await queue._notify.aclose()
        services.free.set()


async def test_who_closes_notices_can_be_cancelled(monkeypatch: pytest.MonkeyPatch):
    """That is not taken for the end of the notice, which still ends in its own time."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def send_slowly(*_: str) -> None:
        try:
            has_begun.set()
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    monkeypatch.setattr(notify, "send_by_apprise", send_slowly)
    async with asking(NoticeTarget(url="ntfy://127.0.0.1:9/x")) as (_, queue, ask):
        ask()
        await has_begun.wait()
        [sender] = queue._notify.senders
        sending, closing = sender._task, asyncio.create_task(queue._notify.aclose())
        await until(sending.cancelling)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not sending.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await sending


def test_without_its_packages_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    """When the host is made, not when the first notice fails."""
    monkeypatch.setattr(configured_host, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"antiphon\[notices\]"):
        make_notices(MemoryStore(), Config(notify=Notify(targets=(NoticeTarget(url="ntfy://127.0.0.1/x"),))))


def test_a_variable_that_is_not_set_is_named():
    """With the table that has it; the address is not repeated."""
    targets = (NoticeTarget(url="ntfy://127.0.0.1/x"), NoticeTarget(url="ntfy://${NTFY}@secret.example/x"))
    with pytest.raises(ConfigError, match=r"^\[\[notify.targets\]\] 2: url: the environment variable NTFY is not set$"):
        make_notices(MemoryStore(), Config(notify=Notify(targets=targets)), {})
    made = make_notices(MemoryStore(), Config(notify=Notify(targets=targets)), {"NTFY": "tk_1"})
    assert isinstance(made, Notices)
    assert [sender._url for sender in made.senders] == ["ntfy://127.0.0.1/x", "ntfy://tk_1@secret.example/x"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("delete_row", "delete_row"),
        ("https://evil.example/a", "https:/ /evil. example/a"),
        ("www.evil.example", "www. evil. example"),
        ("<!channel> <@U1>", "< !channel> < @ U1>"),
        ("3.14 of 10.0.0.1", "3.14 of 10.0.0.1"),
        ("a\nb", "a⟦U+000A⟧b"),
    ],
)
def test_nothing_of_a_strangers_text_is_a_link_or_a_mention(text: str, shown: str):
    """Chats make links of what looks like one, and ring for a mention."""
    assert separate_links(text) == shown
