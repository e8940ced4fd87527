"""Stand-ins for services that notices go to, as each documents its protocol: Slack, Telegram, ntfy, mail."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl

from tests.support.certificates import write_certificate

TOKENS = ("T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "123456789:AAEexampleTokenOfATelegramBot12345")
HOSTS = ("hooks.slack.com", "api.telegram.org")


class TakenNotice(NamedTuple):
    """What a service has taken."""

    service: str
    to: str
    text: str


class NoticeServices:
    """The services at one port of 127.0.0.1: mail at another; those of the Internet through it as a proxy."""

    def __init__(self, place: str, context: ssl.SSLContext) -> None:
        self.taken: asyncio.Queue[TakenNotice] = asyncio.Queue()
        self.status = 200
        self.heard = asyncio.Event()
        """Set by each request."""
        self.free = asyncio.Event()
        self.free.set()
        self.port = self.mail_port = 0
        self.place = place
        self._context = context
        self._serving: set[asyncio.Task[None] | None] = set()

    async def aclose(self) -> None:
        """End the connections that are open."""
        for each in self._serving:
            each.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which Slack and Telegram are found here."""
        return {
            "HTTPS_PROXY": f"http://127.0.0.1:{self.port}",
            "REQUESTS_CA_BUNDLE": self.place,
            "NO_PROXY": "127.0.0.1",
        }

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; after CONNECT as the host that it names."""
        host = "127.0.0.1"
        self._serving.add(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.split(b"\r\n")[0].decode().split()
                if method == "CONNECT":
                    host = path.partition(":")[0]
                    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                    await writer.drain()
                    await writer.start_tls(self._context)
                    continue
                length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
                body = await reader.readexactly(length)
                self.heard.set()
                await self.free.wait()
                status, answer = self.status, b""
                if status == 200:
                    status, answer = self._take(host, method, path, head.decode(), body)
                writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, len(answer)) + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def _take(self, host: str, method: str, path: str, head: str, body: bytes) -> tuple[int, bytes]:
        if method != "POST":
            return 405, b""
        if host == "hooks.slack.com":
            # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
            said = json.loads(body)
            if path != f"/services/{TOKENS[0]}":
                return 404, b"no_service"
            text = "\n".join([said.get("text", ""), *(each["text"] for each in said.get("attachments", ()))])
            self.taken.put_nowait(TakenNotice("slack", said.get("channel", ""), text))
            return 200, b"ok"
        if host == "api.telegram.org":
            # https://core.telegram.org/bots/api#sendmessage
            said = json.loads(body) if "application/json" in head else dict(parse_qsl(body.decode()))
            if path != f"/bot{TOKENS[1]}/sendMessage" or not said.get("chat_id") or len(said["text"]) > 4096:
                return 400, b'{"ok":false,"error_code":400,"description":"Bad Request"}'
            self.taken.put_nowait(TakenNotice("telegram", str(said["chat_id"]), said["text"]))
            return 200, b'{"ok":true,"result":{"message_id":1,"date":0,"chat":{"id":1,"type":"private"}}}'
        # https://docs.ntfy.sh/publish/#publish-as-json
        said = json.loads(body)
        self.taken.put_nowait(TakenNotice("ntfy", said["topic"], said["message"]))
        return 200, json.dumps({"id": "1", "event": "message", "topic": said["topic"]}).encode()

    async def serve_mail(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take mail (RFC 5321)."""
        to = ""
        writer.write(b"220 mail.example\r\n")
        while line := (await reader.readline()).decode().strip():
            verb = line.upper().split()[0]
            if verb == "RCPT":
                to = line.partition("<")[2].partition(">")[0]
            if verb == "DATA":
                writer.write(b"354 go on\r\n")
                text = await reader.readuntil(b"\r\n.\r\n")
                self.taken.put_nowait(TakenNotice("mail", to, text.decode()))
            writer.write(b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n")
            await writer.drain()
            if verb == "QUIT":
                break
        writer.close()


@asynccontextmanager
async def notice_services(folder):
    """Serve them within a block; ``folder`` gets their certificate."""
    place, key = write_certificate(folder, "services", also=HOSTS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place, key)
    services = NoticeServices(str(place), context)
    async with (
        await asyncio.start_server(services.serve_http, "127.0.0.1", 0) as web,
        await asyncio.start_server(services.serve_mail, "127.0.0.1", 0) as mail,
    ):
        services.port, services.mail_port = (each.sockets[0].getsockname()[1] for each in (web, mail))
        yield services
        await services.aclose()
