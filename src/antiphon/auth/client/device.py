"""A person signs in on another device, for machines without a browser (RFC 8628)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from antiphon.auth.client.addresses import checked_address
from antiphon.auth.client.exchange import Answer, Refused, TokenAnswer
from antiphon.auth.client.grants import Wanted
from antiphon.errors import Unauthorized

MAX_WAIT = 1800.0
"""Seconds to wait at most, whatever the server allows."""

MIN_PAUSE = 1.0
MAX_PAUSE = 60.0
"""Longest pause between two polls in seconds."""

_PAUSE = 5.0
"""Seconds between two polls if the server names none (RFC 8628, section 3.2), and by how much the pause grows after
each ``slow_down`` (section 3.5)."""


class DevicePage(Struct, frozen=True, kw_only=True):
    """What a person has to do: open ``address`` on any device and enter ``code``."""

    address: str
    code: str
    complete: str | None = None
    """The address with the code in it, for a link or a QR code."""


class Device:
    """Sign in on another device: ``OAuth(grant=Device(tell))``.

    Args:
        tell: async function that shows the page to a person; it must return at once.
    """

    name = "device"
    grant_type = "urn:ietf:params:oauth:grant-type:device_code"
    needs_person = True

    def __init__(self, tell: Callable[[DevicePage], Awaitable[None]]) -> None:
        self._tell = tell
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        server = wanted.endpoint.server
        if not server.device_authorization_endpoint:
            raise Unauthorized(f"{server.issuer} does not let people sign in on another device: use a browser")
        form = {"scope": wanted.scope, "resource": wanted.resource}
        if wanted.endpoint.identity.secret is None:
            form["client_id"] = wanted.endpoint.identity.client_id
        answer = await wanted.endpoint.post(server.device_authorization_endpoint, form)
        code, page, pause, lasts = _read_device_page(answer)
        await self._tell(page)
        return await self._poll(wanted, code, pause, lasts)

    async def _poll(self, wanted: Wanted, code: str, pause: float, lasts: float) -> TokenAnswer:
        form = {"grant_type": self.grant_type, "device_code": code, "resource": wanted.resource}
        waited = 0.0
        while waited < lasts:
            await self._sleep(pause)
            waited += pause
            try:
                return await wanted.endpoint.request(form)
            except Refused as refused:
                if refused.error == "slow_down":
                    pause = min(pause + _PAUSE, MAX_PAUSE)
                elif refused.error != "authorization_pending":
                    raise
        raise Unauthorized(f"signing in failed: nobody completed it within {lasts:g} s")


def _read_device_page(answer: Answer) -> tuple[str, DevicePage, float, float]:
    said = answer.json()
    code, address, shown = said.get("device_code"), said.get("verification_uri"), said.get("user_code")
    readable = isinstance(shown, str) and 0 < len(shown) <= 64 and shown.isprintable()
    if answer.status != 200 or not isinstance(code, str) or not isinstance(address, str) or not readable:
        raise Unauthorized("signing in failed: the authorization server gave no code for another device")
    checked_address(address, "the page for the other device")
    complete = said.get("verification_uri_complete")
    if isinstance(complete, str):
        checked_address(complete, "the page for the other device")
    page = DevicePage(address=address, code=str(shown), complete=complete if isinstance(complete, str) else None)
    pause = max(MIN_PAUSE, min(_read_number(said.get("interval"), _PAUSE), MAX_PAUSE))
    return code, page, pause, min(_read_number(said.get("expires_in"), MAX_WAIT), MAX_WAIT)


def _read_number(value: object, usual: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else usual
