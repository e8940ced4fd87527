"""Web Push: notices that a question waits, to browsers in which a person asked for them on the review page.

Owns the subscriptions of these browsers and the key that signs for them, which are in the store, so that whichever
process asks can send; and who is told of which question. Nothing of a notice lets anybody in.

A browser names the address to which its notices go, which may be anybody's. So each connection has to be public, and
its response is bounded, as for the requests of a sign-in.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import msgspec

from antiphon.errors import ConfigError, Unauthorized
from antiphon.host.checks.people import Person, Role, find_role
from antiphon.host.review.notify import NotDelivered, NoticeTarget, ServiceNotices
from antiphon.host.review.question import NotAllowed, check_decider, question_of
from antiphon.host.review.review import Approve
from antiphon.host.store.base import Store
from antiphon.machine.public_names import describe_install

DEVICE_AGE = 30 * 24 * 3600.0
"""Seconds for which a device is told after its person asked for it: as long as a session of the page lasts."""
MAX_DEVICES = 1_000
"""Most devices that are told; those that end first are dropped."""
MAX_EACH = 10
"""Most devices of one person, or of all who have not signed in; the one that ends first is dropped."""
PUSH_AGE = 24 * 3600
"""Seconds for which a push service keeps a notice for a device that is off."""
PUSH_TIMEOUT = 10.0
"""Seconds for one push service to take a notice."""
MAX_SENDING = 50
"""Most notices that are sent at the same time."""
MAX_PAYLOAD = 3_900
"""Most bytes of a notice: push services take 4,096 when it is encrypted (RFC 8030, section 7.2)."""


_Roles = Mapping[Role, Collection[str]]
_Key = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{22,87}\Z")]


class PushDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that is told of questions; its first members are those of a subscription as browsers write it."""

    endpoint: Annotated[str, msgspec.Meta(max_length=1_000, pattern=r"^\S+\Z")]
    """Where its push service takes notices."""
    keys: dict[Literal["p256dh", "auth"], _Key]
    """With what notices to it are encrypted (RFC 8291)."""
    person: Person | None = None
    """Who asked for them, as signed in then; ``None`` where nobody signs in."""
    until: float = 0.0
    """Seconds since the epoch at which it is told no longer."""

    @property
    def id(self) -> str:
        """Its id, which differs between two people, so that nobody replaces another's device."""
        return hashlib.sha256(f"{self.endpoint} {self.person and self.person.principal}".encode()).hexdigest()


class DeviceNotices(ServiceNotices):
    """Sends notices to the devices of people who may decide a question, and keeps these devices."""

    def __init__(
        self, target: NoticeTarget, store: Store, name: str, hosts: Sequence[str] = (), roles: _Roles | None = None
    ) -> None:
        """Name the target as the log may know it. ``hosts``: see ``Notify.push_hosts``."""
        if find_spec("pywebpush") is None:
            raise ConfigError(f"webpush:// in [[notify.targets]] needs more packages: {describe_install('notices')}")
        super().__init__(target, target.url, store, name)
        self._named = frozenset(hosts)
        self._roles = roles
        self._sending = asyncio.Semaphore(MAX_SENDING)
        self._keeping = asyncio.Lock()
        self._key: Any = None

    async def list_devices(self, *people: Person | None) -> list[PushDevice]:
        """Return the devices, or those of some people; those that end first come first."""
        rows = await self._store.timed_rows("device")
        devices = (msgspec.json.decode(row, type=PushDevice) for row in rows.values())
        owners = [person and person.principal for person in people]
        return [each for each in devices if not people or (each.person and each.person.principal) in owners]

    async def change_device(self, subscription: str, person: Person | None, text: str) -> None:
        """Keep a browser that takes a first notice; without ``text``, tell it no longer.

        Raises ``NotDelivered``: its push service does not take the notice, or it sent no subscription; nothing is kept.
        """
        try:
            named = msgspec.json.decode(subscription, type=PushDevice)
        except msgspec.DecodeError:
            raise NotDelivered("the browser has sent no subscription") from None
        device = msgspec.structs.replace(named, person=person, until=time.time() + DEVICE_AGE)
        if text:
            await self._push(device, text, "/settings")
        async with self._keeping:
            await self._store.take_timed_row("device", device.id)
            if not text:
                return
            mine = await self.list_devices(person)
            for each in mine[: max(0, len(mine) + 1 - MAX_EACH)]:
                await self._store.take_timed_row("device", each.id)
            body = msgspec.json.encode(device).decode()
            await self._store.keep_timed_row("device", device.id, body, device.until, most=MAX_DEVICES)

    async def _push(self, device: PushDevice, text: str, path: str) -> None:
        """Send a notice that leads to a path of the page; a device that its push service has forgotten is dropped.

        Raises ``NotDelivered``: the push service did not take it.
        """
        import pywebpush  # pyright: ignore[reportMissingTypeStubs]
        from py_vapid import VapidException  # pyright: ignore[reportMissingTypeStubs]

        from antiphon.auth.boundary import check_address
        from antiphon.auth.client.fetch import open_fetch

        pusher: Any = pywebpush
        try:
            url = check_address(device.endpoint, "a subscription")
            fetching = open_fetch(url, is_public=True, named=self._named)
            async with self._sending, asyncio.timeout(PUSH_TIMEOUT), fetching as fetch:
                payload = f"{path}\n{text}".encode()[:MAX_PAYLOAD].decode(errors="ignore").encode()
                body = pusher.WebPusher(msgspec.to_builtins(device)).encode(payload)["body"]
                headers = await self._sign(str(url.origin())) | {"TTL": str(PUSH_AGE), "Urgency": "high"}
                headers |= {"Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream"}
                status = (await fetch.request("POST", url, headers, body)).status
        except (Unauthorized, TimeoutError, ValueError, pusher.WebPushException, VapidException):
            raise NotDelivered("its push service has no public address, or did not answer") from None
        if status in (404, 410):
            await self._store.take_timed_row("device", device.id)
        if not 200 <= status < 300:
            raise NotDelivered(f"its push service answered {status}")

    async def public_key(self) -> str:
        """Return the key with which browsers subscribe, as each signature names it (RFC 8292, section 3.2)."""
        return (await self._sign("https://none.example"))["Authorization"].rpartition("k=")[2]

    async def _sign(self, audience: str) -> dict[str, str]:
        """Return the header that says who sends (VAPID), with a key that is made when it is first needed."""
        if self._key is None:
            import py_vapid  # pyright: ignore[reportMissingTypeStubs]

            vapid: Any = py_vapid.Vapid
            made = vapid()
            made.generate_keys()
            # Another process may have been faster: then its key stays.
            await self._store.keep_timed_row("key", "vapid", made.private_pem().decode(), math.inf, most=1)
            self._key = vapid.from_pem((await self._store.timed_rows("key"))["vapid"].encode())
        # At most 24 hours from now (RFC 8292, section 2), on both clocks.
        until = int(time.time()) + 12 * 3600
        return self._key.sign({"aud": audience, "exp": until, "sub": f"mailto:{self._url.partition('://')[2]}"})

    async def send_text(self, text: str) -> None:
        """Send a text to all devices, at once; raise ``NotDelivered`` if one did not take it, or there is none."""
        if not (devices := await self.list_devices()):
            raise NotDelivered("no device is told yet: a button in the settings of the review page changes that")
        await self._send_all([(device, text, "/settings") for device in devices])

    async def _tell(self, latest: Sequence[str], count: int) -> None:
        """Send each person's devices one notice about the questions that this person may decide."""
        devices = [each for each in await self.list_devices() if each.person or not self._roles]
        own: dict[Person | None, list[str]] = {device.person: [] for device in devices}
        for id in latest if own else ():
            row = await self._store.review(id)
            if row is None or (item := question_of(row).item) is None:
                continue
            for person, ids in own.items():
                with suppress(NotAllowed, Unauthorized):
                    by = find_role(person, self._roles) if person and self._roles else person
                    check_decider(by, item, Approve(digest=""))
                    ids.append(id)
        notices = {
            ids: (await self._write_text(ids, len(ids)), f"/review/{ids[0]}" if len(ids) == 1 else "/")
            for ids in {tuple(each) for each in own.values()}
        }
        await self._send_all([(device, *said) for device in devices if (said := notices[tuple(own[device.person])])[0]])

    async def _send_all(self, notices: Sequence[tuple[PushDevice, str, str]]) -> None:
        sent = await asyncio.gather(*(self._push(*each) for each in notices), return_exceptions=True)
        if failed := [each for each in sent if each is not None]:
            said = failed[0] if isinstance(failed[0], NotDelivered) else type(failed[0]).__name__
            raise NotDelivered(f"{len(failed)} of {len(sent)} devices were not reached: {said}")
