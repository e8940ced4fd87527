"""The button by which a browser is told of questions: who may press it, and what the page serves for it."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from html import unescape

from antiphon.host import MemoryStore
from antiphon.host.config.settings import Config, NoticeTarget, Notify
from antiphon.host.review.push import DeviceNotices
from antiphon.web.page_guards import CSP, MAX_BODY, WORKER
from tests.support.push_service import PushService, Subscriber, push_service
from tests.web.pages import Desk, desk, visitor
from tests.web.signing import team

PUSHING = Config(notify=Notify(targets=(NoticeTarget(url="webpush://ann@example.org"),), push_hosts=("127.0.0.1",)))


@asynccontextmanager
async def told():
    """Serve a page that can tell devices, with a push service."""
    async with push_service() as service, desk(config=PUSHING) as page:
        yield page, service


def known(text: str) -> list[str]:
    """Return the devices of which the settings say that they are told."""
    return unescape(re.search(r'data-known="([^"]*)"', text)[1]).split()


async def press(page: Desk, browser: Subscriber, on: str = "true", **headers: str):
    """Press the button, as the page's script does."""
    return await page.post("/settings/device", {"subscription": browser.subscription(), "on": on}, **headers)


async def test_the_button_tells_a_browser_and_tells_it_no_longer():
    """The first notice shows that it works; the settings know the browser again."""
    async with told() as (page, service):
        browser = Subscriber(service)
        settings = (await page.get("/settings")).text
        assert known(settings) == []
        assert re.search(r'data-key="([\w-]{87})"', settings)[1] == await page.running.page.site.devices.public_key()
        pressed = await press(page, browser)
        assert pressed.json() == {"done": "This device is told. A first notice is on its way."}
        assert browser.read(await service.taken.get()) == ("/settings", "This is a test: notices arrive here.")
        assert known((await page.get("/settings")).text) == [browser.endpoint]
        assert (await press(page, browser, "false")).json() == {"done": "This device is told no longer."}
        assert known((await page.get("/settings")).text) == []
        assert service.taken.empty()


async def test_a_browser_that_cannot_be_told_is_not_kept():
    """The person hears why, in the language of the page."""
    async with told() as (page, service):
        service.status = 403
        refused = await press(page, Subscriber(service), **{"Accept-Language": "zh-CN"})
        assert refused.status_code == 422
        assert refused.json() == {"problem": "无法在此设备上通知：", "detail": "its push service answered 403"}
        inside = await press(page, Subscriber(service, "https://10.0.0.1/{id}"))
        assert (inside.status_code, "no public address" in inside.json()["detail"]) == (422, True)
        assert known((await page.get("/settings")).text) == []


async def test_nobody_else_can_press_it():
    """Neither without a session, nor from another page, nor without our form, nor with a form of any size."""
    async with told() as (page, service):
        browser = Subscriber(service)
        for headers in ({"Origin": "https://evil.example"}, {"X-CSRF-Token": "x"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await press(page, browser, **headers)).status_code == 403
        async with visitor(base_url=page.running.origin) as stranger:
            sent = {"Origin": page.running.origin, "X-CSRF-Token": page.csrf}
            data = {"subscription": browser.subscription(), "on": "true"}
            assert (await stranger.post("/settings/device", data=data, headers=sent)).status_code == 401
        large = await page.post("/settings/device", {"subscription": "x" * MAX_BODY, "on": "true"})
        assert large.status_code == 413
        assert not service.heard.is_set()
        assert await page.running.page.site.devices.list_devices() == []


async def test_a_viewer_is_not_told_and_people_have_their_own():
    """Each sees only their own devices, and removes only these."""
    async with push_service() as service, team() as made:
        made.running.page.site.devices = DeviceNotices(PUSHING.notify.targets[0], MemoryStore(), "", ["127.0.0.1"])
        ann, bob, viewer = [await made.browser(name) for name in ("ann", "bob", "cy")]
        browser = Subscriber(service)
        data = {"subscription": browser.subscription(), "on": "true"}
        assert (await viewer.post("/settings/device", data)).status_code == 403
        assert "data-known" not in (await viewer.client.get("/settings")).text
        assert (await ann.post("/settings/device", data)).status_code == 200
        assert known((await ann.client.get("/settings")).text) == [browser.endpoint]
        assert known((await bob.client.get("/settings")).text) == []
        await bob.post("/settings/device", {**data, "on": "false"})
        assert known((await ann.client.get("/settings")).text) == [browser.endpoint]


async def test_without_cookies_or_settings_there_is_no_button():
    """Under 127.0.0.1 a session belongs to one tab; without a target nobody would be told."""
    async with told() as (page, service):
        token = page.running.address().partition("token=")[2]
        async with visitor(base_url=page.running.plain) as plain:
            session = (await plain.post("/open", data={"token": token}, headers={"Origin": page.running.plain})).json()
            sent = {"X-Antiphon-Session": session["session"], "Origin": page.running.plain}
            settings = await plain.get("/settings", headers=sent)
            assert "data-known" not in settings.text
            csrf = re.search(r'<meta name="csrf" content="([^"]+)"', settings.text)[1]
            data = {"subscription": Subscriber(service).subscription(), "on": "true"}
            pressed = await plain.post("/settings/device", data=data, headers={**sent, "X-CSRF-Token": csrf})
            assert pressed.status_code == 404
    async with desk() as page:
        assert "data-known" not in (await page.get("/settings")).text
        assert (await press(page, Subscriber(PushService()))).status_code == 404


async def test_the_worker_is_for_the_whole_page_and_nothing_else_is():
    """Its policy is as strict as that of the page, and neither it nor the manifest needs a session."""
    async with told() as (page, _), visitor(base_url=page.running.origin) as stranger:
        for path, allowed in ((WORKER, "/"), ("/static/push/device.js", None), ("/static/page.js", None)):
            served = await stranger.get(path)
            assert (served.status_code, served.headers.get("Service-Worker-Allowed")) == (200, allowed)
            assert served.headers["Content-Security-Policy"] == CSP
        assert "manifest-src 'self'" in CSP
        assert "unsafe" not in CSP
        manifest = await stranger.get("/static/push/manifest.webmanifest")
        assert manifest.json()["scope"] == manifest.json()["start_url"] == "/"
        assert (await page.get("/")).text.count("push/") == 0
