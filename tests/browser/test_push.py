"""Web Push in a real Chromium: the button, the notice that its worker shows, and where a tap leads."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Worker

from antiphon.host import ConfiguredHost, MemoryStore, Queue, Scripted
from antiphon.host.checks.people import Person
from antiphon.host.configured_host import make_notices
from antiphon.host.review.push import DeviceNotices
from antiphon.web.page_guards import SignedInPerson
from antiphon.wire.tools import CallToolRequestParams
from tests.browser.visits import visit
from tests.host.asks import origin
from tests.support.push_service import Subscriber, encode, push_service
from tests.web.pages import desk
from tests.web.signing import team
from tests.web.test_devices import PUSHING

pytestmark = pytest.mark.browser

HOME = Path(os.environ.get("ANTIPHON_BROWSER_DIR") or Path.home() / ".cache" / "antiphon-browser")
DECRYPT = """
const ece = require("http_ece");
const { key, auth, body } = JSON.parse(require("fs").readFileSync(0));
const keys = require("crypto").createECDH("prime256v1");
keys.setPrivateKey(key, "base64url");
const plain = ece.decrypt(Buffer.from(body, "base64url"), { version: "aes128gcm", privateKey: keys, authSecret: auth });
process.stdout.write(plain);
"""
# What a browser without a window and without the Internet cannot do: ask a vendor's push service for an address. All
# else is its own: the permission, the worker, and what is posted to the page.
STUBBED = """
PushManager.prototype.subscribe = async function (options) {
  window.asked = { only: options.userVisibleOnly, key: options.applicationServerKey };
  window.subscribed = %s;
  return this.getSubscription();
};
PushManager.prototype.getSubscription = async () => window.subscribed && {
  endpoint: window.subscribed.endpoint,
  toJSON: () => window.subscribed,
  unsubscribe: async () => { window.subscribed = null; return true; },
};
"""


async def decrypt_by_node(browser: Subscriber, body: bytes) -> str:
    """Decrypt a notice by http_ece, which nobody here wrote."""
    key = browser.private.private_numbers().private_value.to_bytes(32, "big")
    given = json.dumps({"key": encode(key), "auth": encode(browser.auth), "body": encode(body)}).encode()
    node = await asyncio.create_subprocess_exec(
        "node", "-e", DECRYPT, cwd=HOME, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await node.communicate(given)
    assert node.returncode == 0
    return said.decode()


async def worker_of(page: Page) -> tuple[object, str]:
    """Install the page's worker, and return a session of the developer tools with its registration."""
    await page.evaluate(
        """async () => {
            await navigator.serviceWorker.register("/static/push/worker.js", { scope: "/" });
            await navigator.serviceWorker.ready;
        }"""
    )
    session = await page.context.new_cdp_session(page)
    known: asyncio.Queue[str] = asyncio.Queue()
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda said: [known.put_nowait(each["registrationId"]) for each in said["registrations"]],
    )
    await session.send("ServiceWorker.enable")
    return session, await known.get()


async def allow(context: BrowserContext, address: str) -> None:
    """Allow notifications, as a person does."""
    await context.grant_permissions(["notifications"], origin=address)


async def deliver(page: Page, *pushed: str) -> list[list[str]]:
    """Have the page's worker get pushes, and return what its notices say.

    They are listed once all are shown: Chromium drops from its list what is on its way to the screen while it lists.
    """
    session, registration = await worker_of(page)
    address = await page.evaluate("location.origin")
    worker = await worker_in(page.context)
    await worker.evaluate(
        """() => {
            const registration = self.registration, show = registration.showNotification.bind(registration);
            self.notices = [];
            registration.showNotification = (...said) => {
                const shown = show(...said);
                self.notices.push(shown);
                return shown;
            };
        }"""
    )
    for data in pushed:
        given = {"origin": address, "registrationId": registration, "data": data}
        await session.send("ServiceWorker.deliverPushMessage", given)
    return await worker.evaluate(
        """async number => {
            while (self.notices.length < number) await new Promise((done) => setTimeout(done, 20));
            await Promise.all(self.notices);
            return (await self.registration.getNotifications()).map((each) => [each.title, each.body, each.data]);
        }""",
        len(pushed),
    )


async def worker_in(context: BrowserContext) -> Worker:
    """Wait for the page's worker, and return it."""
    while not context.service_workers:
        await context.wait_for_event("serviceworker")
    [worker] = context.service_workers
    return worker


async def test_a_person_is_told_on_a_device_and_a_tap_opens_the_question(chromium: Browser):
    """From the button to the question: what the push service gets is what the worker shows."""
    async with push_service() as service, desk(config=PUSHING) as desked:
        browser = Subscriber(service)
        async with visit(chromium, desked) as seen:
            page, context = seen.page, seen.page.context
            await allow(context, desked.running.origin)
            await context.add_init_script(STUBBED % browser.subscription())
            await page.goto(f"{desked.running.origin}/settings")
            await page.click("#device button:has-text('Tell me on this device')")
            await seen.said("This device is told.")
            assert await page.evaluate("window.asked") == {
                "only": True,
                "key": await desked.running.page.site.devices.public_key(),
            }
            first = await service.taken.get()
            assert await decrypt_by_node(browser, first.body) == "/settings\nThis is a test: notices arrive here."
            await page.wait_for_selector("#device button:has-text('Do not tell me')")

            notices = make_notices(desked.store, PUSHING)
            host = ConfiguredHost(
                PUSHING, {}, provider=Scripted([]), reviewer=Queue(desked.store, notify=notices), store=desked.store
            )
            call = asyncio.create_task(host.confirm(CallToolRequestParams.of("pay", {"amount": 5}), origin("1")))
            plain = await decrypt_by_node(browser, (await service.taken.get()).body)
            path, _, text = plain.partition("\n")
            assert re.fullmatch(r"/review/[\w-]+", path)

            assert await deliver(page, plain) == [["Antiphon", "A question waits for you.", path]]
            assert text == "A question waits for you."
            opened = await tap(context, path)
            assert opened == [path]
            await page.goto(f"{desked.running.origin}{path}")
            await page.wait_for_selector("#detail[data-id] >> text=pay")
            [waiting] = await desked.queue.pending()
            assert (path, waiting.state) == (f"/review/{waiting.id}", "pending")
            call.cancel()
            await asyncio.wait([call])
            await notices.aclose()


async def tap(context: BrowserContext, data: object) -> list[str]:
    """Tap a notice; returns where the worker leads. A browser opens windows only for a person's own tap."""
    worker = await worker_in(context)
    return await worker.evaluate(
        """async data => {
            const opened = [], closed = [];
            self.clients.openWindow = async (path) => void opened.push(path);
            const event = new ExtendableEvent("notificationclick");
            Object.defineProperty(event, "notification", { value: { data, close: () => closed.push(data) } });
            self.dispatchEvent(event);
            return closed.length ? opened : [];
        }""",
        data,
    )


async def test_a_tap_leads_nowhere_else(chromium: Browser):
    """Whatever a notice says: to a question of this page, its settings, or the queue; text stays text."""
    async with desk(config=PUSHING) as desked, visit(chromium, desked) as seen:
        page, context = seen.page, seen.page.context
        await allow(context, desked.running.origin)
        said = await deliver(page, "", "https://evil.example/\n<b>x</b>", "/review/1\n<img src=x onerror=alert(1)>")
        assert sorted(said) == [
            ["Antiphon", "", ""],
            ["Antiphon", "<b>x</b>", "https://evil.example/"],
            ["Antiphon", "<img src=x onerror=alert(1)>", "/review/1"],
        ]
        for path, leads in (
            ("/review/12ab", "/review/12ab"),
            ("/settings", "/settings"),
            *(
                (each, "/")
                for each in (
                    "",
                    "//evil.example",
                    "https://evil.example",
                    "/review/../sign-out",
                    "/link?secret=x",
                    None,
                )
            ),
        ):
            assert await tap(context, path) == [leads]


async def test_the_button_says_what_the_browser_refuses_and_what_was_ended(chromium: Browser):
    """Without permission nothing is asked of the host; pressed again, the device is told no longer."""
    async with push_service() as service, desk(config=PUSHING) as desked:
        browser = Subscriber(service)
        async with visit(chromium, desked) as seen:
            page, context = seen.page, seen.page.context
            await context.add_init_script("Notification.requestPermission = async () => 'denied';")
            await context.add_init_script(STUBBED % browser.subscription())
            await page.goto(f"{desked.running.origin}/settings")
            await page.click("#device button")
            await page.wait_for_selector("#device .problem >> text=does not allow notifications")
            assert not service.heard.is_set()
            await context.add_init_script("Notification.requestPermission = async () => 'granted';")
            await allow(context, desked.running.origin)
            service.status = 503
            await page.reload()
            await page.click("#device button")
            await page.wait_for_selector("#device .problem >> text=its push service answered 503")
            service.status = 201
            await page.click("#device button")
            await page.click("#device button:has-text('Do not tell me')")
            await seen.said("This device is told no longer.")
            await page.wait_for_selector("#device button:has-text('Tell me on this device')")
            assert await page.evaluate("window.subscribed") is None
            assert await desked.running.page.site.devices.list_devices() == []


@pytest.mark.parametrize("told", [False, True])
async def test_whoever_signs_out_is_told_no_longer(chromium: Browser, told: bool):
    """The browser gives up its address at the push service, which then refuses the next notice."""
    async with push_service() as service, team() as made:
        access = made.running.page.access
        made.running.page.site.devices = DeviceNotices(PUSHING.notify.targets[0], MemoryStore(), "", ["127.0.0.1"])
        ann = Person(issuer="https://id.example.org", subject="ann", role="reviewer")
        secret = access.admit(SignedInPerson(person=ann, then="/"))
        context = await chromium.new_context()
        await context.add_cookies([{"name": access.cookie, "value": secret, "url": made.origin}])
        await allow(context, made.origin)
        await context.add_init_script(STUBBED % Subscriber(service).subscription())
        page, ended = await context.new_page(), []
        await page.expose_function("ended", lambda: ended.append(1))
        await page.goto(f"{made.origin}/settings")
        if told:
            await page.click("#device button")
            await page.wait_for_selector("#device button:has-text('Do not tell me')")
        await page.wait_for_selector("#device button:enabled")
        await page.evaluate(
            "const was = window.subscribed;"
            "Object.defineProperty(window, 'subscribed', { get: () => was, set: () => ended() });"
        )
        async with page.expect_navigation(url=re.compile("signed-out")):
            await page.click("form[action='/sign-out'] button")
        assert len(ended) == told
        assert access.session(secret) is None
        await context.close()


async def test_the_page_can_be_installed(chromium: Browser):
    """The browser reads its manifest, and finds nothing wrong with it."""
    async with desk(config=PUSHING) as desked, visit(chromium, desked) as seen:
        await seen.page.goto(f"{desked.running.origin}/settings")
        await seen.page.wait_for_selector("head > link[rel=manifest]", state="attached")
        session = await seen.page.context.new_cdp_session(seen.page)
        manifest = await session.send("Page.getAppManifest")
        assert (manifest["errors"], json.loads(manifest["data"])["name"]) == ([], "Antiphon")
        assert (await session.send("Page.getInstallabilityErrors"))["installabilityErrors"] in (
            [],
            [{"errorId": "in-incognito", "errorArguments": []}],
        )
