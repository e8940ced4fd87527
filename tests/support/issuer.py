"""An issuer of access tokens on loopback: metadata, keys and answers about tokens, each of which a test may spoil."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.support.asgi import running

RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}, private=True)
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True)


def signed(header, claims, key, algorithm=None):
    """Sign anything as a JSON Web Token, whatever its header says of itself."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    signature = jws.JWSRegistry.algorithms[algorithm or header["alg"]].sign(text.encode(), key)
    return f"{text}.{b64(signature)}"


def b64(data):
    """Encode as JOSE does."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """What the issuer says, and who has asked. ``url``: its identifier, once it runs."""

    def __init__(self, path=""):
        self.path = path
        self.url = ""
        self.keys = [RSA, EC, ED]
        self.down = False
        self.metadata = {}
        """What its metadata says besides, or instead."""
        self.answers = {}
        """What it says of a token, by the token."""
        self.asked = []
        """Each request: its path, and what was posted."""
        self.bodies = {}
        """What it sends at a path instead: status and bytes."""
        self.forms = ("/.well-known/oauth-authorization-server{path}",)
        """Where its metadata is."""

    @asynccontextmanager
    async def open(self):
        """Run it."""
        async with running(self) as place:
            self.url = f"http://{place}{self.path}"
            yield self

    async def __call__(self, scope, receive, send):
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        headers = dict(scope["headers"])
        self.asked.append((scope["path"], parse_qs(body.decode()), headers.get(b"authorization")))
        status, data = self.answer(scope["path"], parse_qs(body.decode()))
        extra = [(b"location", f"{self.url}/elsewhere".encode())] if status == 302 else []
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data)), *extra]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": data})

    def answer(self, path, form):
        """Say what is at a path."""
        if self.down:
            return 500, b"{}"
        if path in self.bodies:
            return self.bodies[path]
        if path in [each.format(path=self.path) for each in self.forms]:
            said = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/jwks",
                "introspection_endpoint": f"{self.url}/introspect",
            }
            return 200, json.dumps({**said, **self.metadata}).encode()
        if path == f"{self.path}/jwks":
            return 200, json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode()
        if path == f"{self.path}/introspect":
            return 200, json.dumps(self.answers.get(form["token"][0], {"active": False})).encode()
        return 404, b"{}"

    @property
    def paths(self):
        """What was asked for, in order."""
        return [path for path, _, _ in self.asked]

    def token(self, *, key=RSA, alg=None, header=None, without=(), **claims):
        """Make a token; ``claims`` say what is different, ``without`` what is not there."""
        algorithm = alg or {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[key.key_type]
        now = int(time.time())
        said = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "client_id": "cli",
            "exp": now + 600,
            "iat": now,
            "jti": uuid.uuid4().hex,
            **claims,
        }
        head = {"alg": algorithm, "typ": "at+jwt", "kid": key.as_dict(private=False)["kid"], **(header or {})}
        return signed(
            {name: value for name, value in head.items() if value is not None},
            {name: value for name, value in said.items() if name not in without},
            key,
            algorithm,
        )


AUDIENCE = "https://mcp.example.com/mcp"
"""What tokens of the tests are for."""


class Sender:
    """Whoever holds the key that a token is bound to."""

    def __init__(self, key=None, algorithm="ES256"):
        self.key = key or ECKey.generate_key("P-256", private=True)
        self.algorithm = algorithm

    @property
    def bound(self):
        """What its tokens say of its key."""
        return {"jkt": self.key.thumbprint()}

    def proof(self, token, *, key=None, header=None, without=(), **claims):
        """Make a proof for a POST to the usual place; ``claims`` say what is different."""
        said = {
            "jti": uuid.uuid4().hex,
            "htm": "POST",
            "htu": AUDIENCE,
            "iat": int(time.time()),
            "ath": b64(hashlib.sha256(token.encode()).digest()),
            **claims,
        }
        head = {
            "alg": self.algorithm,
            "typ": "dpop+jwt",
            "jwk": (key or self.key).as_dict(private=False),
            **(header or {}),
        }
        return signed(
            {name: value for name, value in head.items() if value is not None},
            {name: value for name, value in said.items() if name not in without},
            self.key,
            self.algorithm,
        )

    def headers(self, token, **changed):
        """Make the two headers of a request."""
        return {"authorization": f"DPoP {token}", "dpop": self.proof(token, **changed)}
