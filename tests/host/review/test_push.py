"""Web Push: who is told, what travels, which addresses are refused, and what a hostile push service can do."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import time
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from antiphon.auth.client import fetch
from antiphon.errors import ConfigError
from antiphon.host import Host, MemoryStore, Policy, Queue, Rule, Scripted, open_store
from antiphon.host.checks.people import Person
from antiphon.host.config.settings import Config, NoticeTarget, Notify, Reviewing, SignIn
from antiphon.host.configured_host import make_notices
from antiphon.host.review import notify, push
from antiphon.host.review.notify import NotDelivered
from antiphon.host.review.push import MAX_DEVICES, MAX_EACH, MAX_PAYLOAD, PUSH_AGE, PushDevice
from antiphon.host.review.review import ToolItem
from antiphon.host.store.base import Store
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin
from tests.support.network import let_deadlines_pass
from tests.support.push_service import PushService, Subscriber, push_service

CONTACT = "ann@example.org"


def person(name: str, *groups: str, role: str = "reviewer") -> Person:
    """Make somebody who has signed in."""
    return Person(issuer="https://id.example.org", subject=name, groups=frozenset(groups), role=role)


def settings(show: str = "tool", **more: object) -> Notify:
    """Configure Web Push, with the stand-in's host as one of our own network."""
    return Notify(targets=(NoticeTarget(url=f"webpush://{CONTACT}", show=show, **more),), push_hosts=("127.0.0.1",))


class Pushing:
    """A host whose questions are told to devices."""

    def __init__(
        self, store: Store, service: PushService, notices: Notify, rules: tuple[Rule, ...], sign_in: SignIn | None
    ) -> None:
        self.store = store
        self.service = service
        self.notices = make_notices(store, Config(notify=notices, review=Reviewing(sign_in=sign_in)))
        [self.devices] = self.notices.senders
        self.queue = Queue(store, notify=self.notices)
        self.host = Host(Scripted([]), reviewer=self.queue, store=store, policy=Policy(rules=rules))
        self.calls: list[asyncio.Task[object]] = []

    async def subscribe(self, who: Person | None = None) -> Subscriber:
        """Let somebody's browser be told, and take its first notice."""
        browser = Subscriber(self.service)
        await self.devices.change_device(browser.subscription(), who, "First")
        assert browser.read(await self.service.taken.get()) == ("/settings", "First")
        return browser

    async def ask(self, name: str = "pay", principal: str | None = None, **arguments: object) -> str:
        """Let a call of a tool wait, and return the id of its question."""
        known, number = {each.id for each in await self.queue.pending()}, str(len(self.calls))
        who = msgspec.structs.replace(origin(number, call=number), principal=principal)
        self.calls.append(asyncio.create_task(self.host.confirm(CallToolRequestParams.of(name, arguments), who)))
        async for _ in self.queue.changes():
            for each in await self.queue.pending():
                if each.id not in known:
                    return each.id
        raise AssertionError("unreachable")

    async def finish(self) -> None:
        """Wait until all that is to be sent was sent."""
        if self.devices._task is not None:
            await self.devices._task


@asynccontextmanager
async def pushing(*rules: Rule, store: Store | None = None, sign_in: SignIn | None = None, **more: object):
    """Make a host for a block."""
    async with push_service() as service:
        rules = rules or (Rule(effect="ask"),)
        made = Pushing(store or MemoryStore(), service, settings(**more), rules, sign_in)
        yield made
        await made.queue.aclose()
        for each in made.calls:
            each.cancel()
        await asyncio.gather(*made.calls, return_exceptions=True)


async def test_a_notice_says_who_sent_it_and_only_its_browser_can_read_it():
    """As RFC 8030, 8291 and 8292 have it; it leads to the question, and lets nobody in."""
    async with pushing() as made:
        browser, other = await made.subscribe(), Subscriber(made.service)
        id = await made.ask("pay")
        notice = await made.service.taken.get()
        assert browser.read(notice) == (f"/review/{id}", "A question waits for you.\ncatalogue.py · pay")
        with pytest.raises(Exception, match="Decryption error"):
            other.read(notice)
        assert notice.path == browser.path
        assert {
            "ttl": str(PUSH_AGE),
            "content-encoding": "aes128gcm",
            "urgency": "high",
        }.items() <= notice.headers.items()
        claims = notice.read_claims()
        assert (claims["aud"], claims["sub"]) == (f"http://127.0.0.1:{made.service.port}", f"mailto:{CONTACT}")
        assert 0 < claims["exp"] - time.time() <= 24 * 3600
        assert notice.headers["authorization"].endswith(f"k={await made.devices.public_key()}")


async def test_people_are_told_of_what_they_may_decide():
    """By the rules, the same as when they decide: not their own calls, and nothing that needs another person."""
    rules = (Rule(effect="ask", name="pay", to=("group:finance",)), Rule(effect="ask"))
    ann, bob, eve = person("ann", "finance"), person("bob"), person("eve", "finance", role="viewer")
    async with pushing(*rules) as made:
        browsers = {name: await made.subscribe(who) for name, who in (("ann", ann), ("bob", bob), ("", None))}
        await made.devices.change_device(Subscriber(made.service).subscription(), eve, "First")
        await made.service.taken.get()
        for name, principal, told in (
            ("pay", None, {"ann"}),
            ("look", None, {"ann", "bob", ""}),
            ("pay", ann.principal, set()),
            ("look", bob.principal, {"ann", ""}),
        ):
            made.devices._last = float("-inf")
            await made.ask(name, principal)
            await made.finish()
            paths = {made.service.taken.get_nowait().path for _ in range(made.service.taken.qsize())}
            assert {each for each, browser in browsers.items() if browser.path in paths} == told, (name, principal)
            assert len(paths) == len(told)


async def test_people_whom_the_settings_name_no_longer_are_not_told():
    """Their devices stay for a month, their access does not; nor are those told who asked when nobody signed in."""
    roles = {"reviewer": ("group:finance",), "viewer": ("sub:bob",)}
    sign_in = SignIn(url="https://page.example", issuer="https://id.example.org", client_id="page", roles=roles)
    async with pushing(sign_in=sign_in) as made:
        ann = await made.subscribe(person("ann", "finance"))
        for who in (None, person("bob"), person("eve", "sales"), person("cy", role="admin")):
            await made.subscribe(who)
        await made.ask()
        await made.finish()
        assert [made.service.taken.get_nowait().path for _ in range(made.service.taken.qsize())] == [ann.path]


async def test_a_device_stays_its_persons_when_their_groups_change():
    """So the same button ends it, and pressing it anew replaces what the person was."""
    async with pushing() as made:
        before, now = person("ann", "finance", role="admin"), person("ann")
        browser = await made.subscribe(before)
        assert [each.person for each in await made.devices.list_devices(now)] == [before]
        await made.devices.change_device(browser.subscription(), now, "Again")
        assert [each.person for each in await made.devices.list_devices()] == [now]
        await made.devices.change_device(browser.subscription(), msgspec.structs.replace(before, name="Ann A."), "")
        assert await made.devices.list_devices() == []


async def test_several_questions_are_one_notice_with_each_persons_own_count(monkeypatch: pytest.MonkeyPatch):
    """Those of others are neither counted nor described, however many there are."""
    monkeypatch.setattr(notify, "SERVICE_PAUSE", 0.0)
    rules = (
        Rule(effect="ask", name="pay", to=("group:finance",)),
        Rule(effect="ask", name="look", to=("group:sales",)),
    )
    async with pushing(*rules) as made:
        ann, bob = await made.subscribe(person("ann", "finance")), await made.subscribe(person("bob", "sales"))
        made.service.free.clear()
        made.service.heard.clear()
        await made.ask("pay")
        await made.service.heard.wait()
        paid = await made.ask("pay")
        for _ in range(5):
            await made.ask("look")
        made.service.free.set()
        await made.finish()
        notices = [made.service.taken.get_nowait() for _ in range(made.service.taken.qsize())]
        assert ann.read(notices[-2 if notices[-1].path == bob.path else -1]) == (
            f"/review/{paid}",
            "A question waits for you.\ncatalogue.py · pay",
        )
        path, text = bob.read(next(each for each in notices if each.path == bob.path))
        assert (path, text.splitlines()[0], text.splitlines()[-1]) == (
            "/",
            "5 new questions wait for you.",
            "and 2 more",
        )
        assert "pay" not in text


async def test_what_many_people_are_told_is_described_once(monkeypatch: pytest.MonkeyPatch):
    """A team of a thousand costs no more than one person: the text is searched for secrets once."""
    described: list[str] = []
    describe = notify.describe_masked

    async def count(item: ToolItem, words: object) -> str:
        described.append(item.params.name)
        return await describe(item, words)

    monkeypatch.setattr(notify, "describe_masked", count)
    async with pushing(show="all") as made:
        for name in ("ann", "bob", "cy"):
            await made.subscribe(person(name))
        await made.ask("pay")
        await made.finish()
        assert (described, made.service.taken.qsize()) == (["pay"], 3)


async def test_the_text_of_a_server_is_plain_and_short():
    """Whatever it writes, a push service takes the notice, and no line of it begins another path."""
    hostile = ("\u202e\n/evil\n<b>\U0001f600" * 2_000)[:9_000]
    async with pushing(show="all") as made:
        browser = await made.subscribe()
        id = await made.ask("x" * 128, to="https://evil.example", text=hostile, key="AKIAIOSFODNN7EXAMPLE")
        notice = await made.service.taken.get()
        path, text = browser.read(notice)
        assert path == f"/review/{id}"
        assert len(notice.body) <= 4096
        assert len(text.encode()) <= MAX_PAYLOAD
        assert "\u202e" not in text
        assert "AKIA" not in text
        assert "https://evil.example" not in text
        assert text.count("\n") == 2
        await made.devices.send_text("\U0001f600" * 2_000)
        notice = await made.service.taken.get()
        path, text = browser.read(notice)
        assert (path, {*text}, len(notice.body) <= 4096) == ("/settings", {"\U0001f600"}, True)


@pytest.mark.parametrize(
    "subscription",
    [
        "",
        "null",
        "[]",
        '{"endpoint": "https://push.example.org/1"}',
        '{"endpoint": "https://push.example.org/1", "keys": {}}',
        '{"endpoint": "https://push.example.org/1", "keys": {"p256dh": "", "auth": ""}}',
        "x" * 1_000_000,
        json.dumps(
            {"endpoint": "https://push.example.org/" + "x" * 1_000, "keys": {"p256dh": "A" * 87, "auth": "A" * 22}}
        ),
        json.dumps({"endpoint": "https://push.example.org/1", "keys": {"p256dh": "A" * 87, "auth": "A" * 22}}),
        json.dumps({"endpoint": "https://push.example.org/1", "keys": {"p256dh": "B" * 22, "auth": "A" * 22}}),
        json.dumps({"endpoint": "https://a b/1", "keys": {"p256dh": "A" * 87, "auth": "A" * 22}}),
    ],
)
async def test_what_is_no_subscription_is_refused(subscription: str):
    """Nothing is kept, and nothing sent."""
    async with pushing() as made:
        with pytest.raises(NotDelivered):
            await made.devices.change_device(subscription, None, "First")
        assert await made.devices.list_devices() == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.2:{port}/push/{id}",
        "http://localhost:{port}/push/{id}",
        "http://[::ffff:127.0.0.1]:{port}/push/{id}",
        "https://127.0.0.2:{port}/push/{id}",
        "https://0.0.0.0:{port}/push/{id}",
        "https://10.0.0.1/push/{id}",
        "https://192.168.1.1/push/{id}",
        "https://169.254.169.254/latest/{id}",
        "https://[fd00::1]/push/{id}",
        "https://[64:ff9b::7f00:1]/push/{id}",
        "https://push.localhost:{port}/push/{id}",
        "http://push.example.org/push/{id}",
        "ftp://127.0.0.1:{port}/push/{id}",
        "file:///etc/passwd#{id}",
        "http://user:secret@127.0.0.1:{port}/push/{id}",
    ],
)
async def test_an_address_in_our_network_is_refused_unless_it_is_named(endpoint: str, monkeypatch: pytest.MonkeyPatch):
    """It is a browser that names it, so nothing is connected to there."""
    monkeypatch.setattr(push, "PUSH_TIMEOUT", 5.0)
    async with pushing() as made:
        with pytest.raises(NotDelivered, match="no public address"):
            await made.devices.change_device(Subscriber(made.service, endpoint).subscription(), None, "First")
        assert not made.service.heard.is_set()
        assert await made.devices.list_devices() == []


async def test_a_browser_says_nothing_of_who_it_is():
    """Neither whose it is, nor how long it is told."""
    async with pushing() as made:
        browser, forged = Subscriber(made.service), msgspec.to_builtins(person("boss", "finance", role="admin"))
        await made.devices.change_device(browser.subscription(person=forged, until=9e9), person("ann"), "First")
        [device] = await made.devices.list_devices()
        assert device.person == person("ann")
        assert device.until < time.time() + push.DEVICE_AGE + 1


async def test_nobody_displaces_or_removes_anothers_device():
    """The same address of another person is another device; the same of the same person is one."""
    async with pushing() as made:
        browser = await made.subscribe(person("ann"))
        for who in (person("bob"), person("bob"), person("ann")):
            await made.devices.change_device(browser.subscription(), who, "First")
        assert sorted(str(each.person) for each in await made.devices.list_devices()) == [
            str(person("ann")),
            str(person("bob")),
        ]
        await made.devices.change_device(browser.subscription(), person("bob"), "")
        await made.devices.change_device(browser.subscription(), person("eve"), "")
        [left] = await made.devices.list_devices()
        assert left.person == person("ann")


async def test_a_person_has_some_devices_and_the_host_a_thousand(monkeypatch: pytest.MonkeyPatch):
    """The one that ends first goes; all that are left are told, not all at the same moment."""
    async with pushing() as made:
        for number in range(MAX_DEVICES + 5):
            body = PushDevice(
                endpoint=Subscriber(made.service).endpoint,
                keys={"p256dh": msgspec.json.decode(SAMPLE)["keys"]["p256dh"], "auth": "A" * 22},
                person=person(str(number % 200)),
                until=time.time() + 1_000 + number,
            )
            encoded = msgspec.json.encode(body).decode()
            await made.store.keep_timed_row("device", body.id, encoded, body.until, most=MAX_DEVICES)
        assert len(await made.devices.list_devices()) == MAX_DEVICES
        await made.ask()
        await made.finish()
        assert made.service.taken.qsize() == MAX_DEVICES
        assert 1 < made.service.most_open <= push.MAX_SENDING
        for _ in range(MAX_EACH + 3):
            await made.devices.change_device(Subscriber(made.service).subscription(), person("ann"), "First")
        mine = await made.devices.list_devices(person("ann"))
        assert len(mine) == MAX_EACH
        assert len(await made.devices.list_devices()) == MAX_DEVICES


SAMPLE = Subscriber(PushService()).subscription()


@pytest.mark.parametrize("status", [404, 410])
async def test_a_device_that_its_push_service_has_forgotten_is_dropped(status: int, caplog: pytest.LogCaptureFixture):
    """Its person has ended it in the browser. The log repeats no address."""
    async with pushing() as made:
        browser = await made.subscribe()
        made.service.status = status
        with caplog.at_level(logging.DEBUG, "antiphon"):
            await made.ask()
            await made.finish()
        assert await made.devices.list_devices() == []
        assert f"1 of 1 devices were not reached: its push service answered {status}" in caplog.text
        assert browser.path not in caplog.text


@pytest.mark.parametrize("status", [301, 307, 400, 403, 413, 429, 500])
async def test_any_other_refusal_keeps_the_device(status: int):
    """And leads nowhere else."""
    async with pushing() as made:
        await made.subscribe()
        made.service.status = status
        await made.ask()
        await made.finish()
        assert len(await made.devices.list_devices()) == 1
        assert made.service.taken.empty()
        with pytest.raises(NotDelivered, match=f"answered {status}"):
            await made.devices.change_device(Subscriber(made.service).subscription(), None, "First")
        assert len(await made.devices.list_devices()) == 1


async def test_a_push_service_that_hangs_or_floods_costs_nothing(monkeypatch: pytest.MonkeyPatch):
    """A decision does not wait for it, other devices are told, and of its answer no more is read than of any other."""
    monkeypatch.setattr(push, "PUSH_TIMEOUT", 600.0)
    monkeypatch.setattr(fetch, "PATIENCE", 1e6)
    async with pushing() as made, push_service() as hanging:
        hanging.status, hanging.answer = 201, b"x" * 100_000_000
        with pytest.raises(NotDelivered, match="did not answer"):
            await made.devices.change_device(Subscriber(hanging).subscription(), None, "First")
        hanging.answer = b""
        await made.devices.change_device(Subscriber(hanging).subscription(), None, "First")
        browser = await made.subscribe()
        hanging.free.clear()
        hanging.heard.clear()
        id = await made.ask()
        await hanging.heard.wait()
        assert browser.read(await made.service.taken.get())[0] == f"/review/{id}"
        made.calls[0].cancel()
        await asyncio.wait(made.calls)
        let_deadlines_pass(600)
        await made.finish()
        assert len(await made.devices.list_devices()) == 2


def modes_in(folder: Path) -> set[int]:
    """Return the permissions of the files of a folder."""
    return {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}


async def test_devices_and_the_key_outlive_a_restart_in_a_private_file(tmp_path: Path):
    """Two processes that begin at the same moment have one key, and each can tell the devices of the other."""
    place = tmp_path / "host.db"
    async with push_service() as service:
        stores = [open_store(place) for _ in range(3)]
        devices = [make_notices(store, Config(notify=settings())).senders[0] for store in stores]
        keys = await asyncio.gather(*(each.public_key() for each in devices))
        assert len(set(keys)) == 1
        browser = Subscriber(service)
        await devices[0].change_device(browser.subscription(), person("ann", "finance"), "First")
        [device] = await devices[1].list_devices()
        assert device.person == person("ann", "finance")
        await devices[2].send_text("Second")
        for said in (("/settings", "First"), ("/settings", "Second")):
            assert browser.read(await service.taken.get()) == said
        for store in stores:
            await store.aclose()
    assert modes_in(tmp_path) == {0o600}


async def test_a_device_ends():
    """After a month it is told no longer."""
    now = [time.time()]
    store = MemoryStore(clock=lambda: now[0])
    async with pushing(store=store) as made:
        await made.subscribe()
        assert len(await made.devices.list_devices()) == 1
        now[0] += push.DEVICE_AGE + 1
        assert await made.devices.list_devices() == []


@pytest.mark.parametrize("url", ["webpush://", "webpush://ann", "webpush://ann@example", "webpush://ann@example.org/x"])
def test_a_target_without_an_address_of_yours_is_a_mistake(url: str):
    """Push services want to know whom they can write to."""
    with pytest.raises(ValueError, match="your e-mail address"):
        NoticeTarget(url=url)


def test_two_targets_that_push_are_a_mistake():
    """Each browser would be told twice."""
    target = NoticeTarget(url=f"webpush://{CONTACT}")
    with pytest.raises(ValueError, match="at most once"):
        Notify(targets=(target, target))


def test_without_its_packages_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    """When the host is made."""
    monkeypatch.setattr(push, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"antiphon\[notices\]"):
        make_notices(MemoryStore(), Config(notify=settings()))
