"""A stand-in for the push services of browsers' vendors, which speaks RFC 8030; and browsers that subscribe there."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import asynccontextmanager
from secrets import token_bytes, token_hex
from typing import NamedTuple

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey


class PushedNotice(NamedTuple):
    """What a push service has taken."""

    path: str
    headers: dict[str, str]
    body: bytes

    def read_claims(self) -> dict[str, object]:
        """Verify who has sent it (RFC 8292), and return the claims."""
        token, key = re.fullmatch(r"vapid t=([\w.-]+), ?k=([\w-]{87})", self.headers["authorization"]).groups()
        point = decode(key)
        numbers = {"x": encode(point[1:33]), "y": encode(point[33:])}
        signed = jwt.decode(token, ECKey.import_key({"kty": "EC", "crv": "P-256", **numbers}), algorithms=["ES256"])
        return signed.claims


class PushService:
    """The service at one port of 127.0.0.1."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[PushedNotice] = asyncio.Queue()
        self.status = 201
        self.answer = b""
        self.heard = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.port = 0
        self.open = self.most_open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one notice."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in rest)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.heard.set()
            await self.free.wait()
            method, path, _ = line.split()
            valid = method == "POST" and headers["ttl"].isdecimal() and headers["content-encoding"] == "aes128gcm"
            status = self.status if valid and len(body) <= 4096 else 400
            if status == 201:
                self.taken.put_nowait(PushedNotice(path, headers, body))
            said = f"Connection: close\r\nLocation: http://127.0.0.1:{self.port}/elsewhere\r\n"
            writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(self.answer)}\r\n{said}\r\n".encode())
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


class Subscriber:
    """A browser, with the keys of its subscription (RFC 8291)."""

    def __init__(self, service: PushService, at: str = "http://127.0.0.1:{port}/push/{id}") -> None:
        self.path = f"/push/{token_hex(8)}"
        self.endpoint = at.format(port=service.port, id=self.path.rpartition("/")[2])
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.auth = token_bytes(16)
        self.public = self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def subscription(self, **more: object) -> str:
        """Return what the browser's ``PushSubscription.toJSON`` gives."""
        keys = {"p256dh": encode(self.public), "auth": encode(self.auth)}
        return json.dumps({"endpoint": self.endpoint, "expirationTime": None, "keys": keys, **more})

    def read(self, notice: PushedNotice) -> tuple[str, str]:
        """Decrypt a notice; return the path to which it leads, and what it says."""
        plain = http_ece.decrypt(notice.body, private_key=self.private, auth_secret=self.auth, version="aes128gcm")
        path, _, text = plain.decode().partition("\n")
        return path, text


def encode(data: bytes) -> str:
    """Return bytes as base64url."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes of base64url."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@asynccontextmanager
async def push_service():
    """Serve it within a block."""
    service = PushService()
    async with await asyncio.start_server(service.serve, "127.0.0.1", 0) as server:
        service.port = server.sockets[0].getsockname()[1]
        yield service
        service.free.set()
