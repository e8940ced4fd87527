"""Requests to a token endpoint: client authentication, responses and refusals; and the revocation of tokens at logout.

RFC 6749, section 2.3; RFC 7523, section 2.2; RFC 7009. Repeats a request once if the server requires a DPoP nonce
(RFC 9449, section 8).
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote_plus

from msgspec import Struct
from yarl import URL

from antiphon.auth.boundary import check_address
from antiphon.auth.challenge import ProofKey
from antiphon.auth.client.fetch import Fetch, open_fetch
from antiphon.auth.client.store import Login
from antiphon.auth.metadata import Answer, ClientIdentity, Refused, ServerMetadata, TokenAnswer
from antiphon.errors import Unauthorized
from antiphon.machine.web_requests import make_printable

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# RFC 6749, appendix A.12: the characters of an access token, without the space that would end it in a header. RFC 6750
# has fewer, but Salesforce's tokens have a "!" and Laravel's a "|". The length is our own limit.
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def choose_method(identity: ClientIdentity, supported: Sequence[str] | None) -> str:
    """Choose the client authentication method.

    The registered method counts; otherwise the first supported one that we can use: a secret is not sent to a server
    that does not ask for it. A server that lists none supports ``client_secret_basic`` (RFC 8414, section 2). Raises
    ``Unauthorized`` if the server supports no method that we can use.
    """
    if identity.method is not None:
        return identity.method
    can: list[str] = []
    if identity.private_key is not None:
        can.append("private_key_jwt")
    if identity.secret is not None:
        can += ["client_secret_basic", "client_secret_post"]
    can.append("none")
    if len(can) == 1:
        return "none"
    chosen = next((one for one in can if supported is None or one in supported), None)
    if chosen is None:
        raise Unauthorized(
            f"signing in was stopped: the authorization server accepts none of {', '.join(can)} for "
            f"{identity.client_id}"
        )
    return chosen


class TokenEndpoint(Struct, eq=False):
    """The token endpoint of one authorization server, as one client uses it. ``key``: for DPoP-bound tokens."""

    _fetch: Fetch
    server: ServerMetadata
    identity: ClientIdentity
    _key: ProofKey | None = None

    def at(self, server: ServerMetadata, identity: ClientIdentity) -> TokenEndpoint:
        """Return the token endpoint of another server, for another client identity and without our DPoP key.

        Args:
            server: that server; only its ``token_endpoint`` is used.
            identity: the client there.
        """
        return TokenEndpoint(self._fetch, server, identity)

    async def request(self, form: Mapping[str, str | None]) -> TokenAnswer:
        """Request a token.

        Args:
            form: what to send; members without a value are left out.

        Raises:
            Refused: the authorization server refused.
            Unauthorized: there is no response, or it cannot be used.
        """
        answer = await self.post(self.server.token_endpoint, form)
        # GitHub and Slack refuse with status 200; NestJS grants with 201 unless told otherwise.
        if answer.status // 100 != 2 or answer.json().get("error"):
            raise refusal_of(answer, self.server.issuer)
        return _read_token(answer, wants_dpop=self._key is not None)

    async def post(self, address: str, form: Mapping[str, str | None]) -> Answer:
        """Post a form with client authentication; repeated once if the server requires a nonce.

        Args:
            address: URL of the endpoint, of the same server.
            form: what to send; members without a value are left out.
        """
        url = check_address(address, "the token endpoint")
        nonce: str | None = None
        answer: Answer | None = None
        for _ in range(2):
            headers, own = self._authentication()
            if self._key is not None:
                headers["DPoP"] = self._key.proof("POST", str(url), nonce=nonce)
            body = {name: value for name, value in {**form, **own}.items() if value is not None}
            answer = await self._fetch.post(url, body, headers)
            if answer.status == 200 or answer.json().get("error") != "use_dpop_nonce":
                break
            nonce = answer.headers.get("DPoP-Nonce")
        assert answer is not None
        return answer

    def _authentication(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and form members of the client authentication."""
        me = self.identity
        method = choose_method(me, self.server.token_endpoint_auth_methods_supported)
        if method == "client_secret_basic":
            pair = f"{quote_plus(me.client_id)}:{quote_plus(me.secret or '')}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}
        if method == "client_secret_post":
            return {}, {"client_id": me.client_id, "client_secret": me.secret or ""}
        if method == "private_key_jwt" and me.private_key is not None:
            return {}, {"client_assertion_type": _ASSERTION, "client_assertion": self._assertion(me.private_key)}
        if method == "none":
            return {}, {"client_id": me.client_id}
        raise Unauthorized(
            f"signing in was stopped: {me.client_id} would have to authenticate by {make_printable(method)}"
        )

    def _assertion(self, private_key: str) -> str:
        """Sign a client assertion (RFC 7523, section 3). Its audience is the issuer, so no other server can use it."""
        from joserfc import jwt
        from joserfc.jwk import ECKey, OKPKey, RSAKey

        me = self.identity
        now = int(time.time())
        claims = {
            "iss": me.client_id,
            "sub": me.client_id,
            "aud": self.server.issuer,
            "iat": now,
            "exp": now + 120,  # seconds: each is sent at once
            "jti": os.urandom(16).hex(),
        }
        kinds = {"ES": ECKey, "RS": RSAKey, "PS": RSAKey, "Ed": OKPKey}
        try:
            key = kinds[me.algorithm[:2]].import_key(private_key)
            return jwt.encode({"alg": me.algorithm, "typ": "JWT"}, claims, key, algorithms=[me.algorithm])
        except Exception as error:
            # The library's message may contain part of the key.
            kind = type(error).__name__
            raise Unauthorized(f"signing in was stopped: the private key cannot sign {me.algorithm} ({kind})") from None


def refusal_of(answer: Answer, issuer: str) -> Refused:
    """Describe a refusal by its error code alone, which has a known form; the server's text is not shown."""
    error = answer.json().get("error")
    code = error if isinstance(error, str) and _WORD.fullmatch(error) else ""
    said = code or f"HTTP {answer.status}"
    return Refused(f"signing in failed: {make_printable(issuer)} refused with {said}", error=code, status=answer.status)


def _read_token(answer: Answer, *, wants_dpop: bool) -> TokenAnswer:
    said = answer.json()
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token) or not isinstance(kind, str):
        raise Unauthorized("signing in failed: the authorization server answered without a token that can be sent")
    if kind.lower() not in (("dpop",) if wants_dpop else ("bearer", "dpop", "n_a")):
        raise Unauthorized(
            "signing in was stopped: the token is not bound to our key, as it has to be"
            if wants_dpop
            else "signing in failed: the token has an unknown type"
        )
    lasts, refresh, scope = said.get("expires_in"), said.get("refresh_token"), said.get("scope")
    if isinstance(lasts, str) and lasts.isascii() and lasts.isdigit() and len(lasts) < 12:
        lasts = int(lasts)
    return TokenAnswer(
        access_token=token,
        token_type="DPoP" if wants_dpop else "Bearer",
        expires_in=max(0.0, lasts) if isinstance(lasts, int | float) and lasts < 1e11 else None,
        refresh_token=refresh if isinstance(refresh, str) and 0 < len(refresh) <= 16384 else None,
        scopes=tuple(scope.split())[:256] if isinstance(scope, str) else None,
        raw=said,
    )


async def revoke_login(login: Login) -> bool:
    """Revoke the tokens of a login; return whether its server supports that. Raises ``Unauthorized`` if that fails."""
    address = login.metadata.revocation_endpoint
    if not address:
        return False
    named = frozenset({URL(login.metadata.issuer).host or ""} if login.is_issuer_set else ())
    async with open_fetch(URL(login.server), named=named) as fetch:
        endpoint = TokenEndpoint(fetch, login.metadata, login.identity)
        # Revoking the refresh token revokes the access token as well if the server supports that.
        tokens = [(login.refresh_token, "refresh_token"), (login.access_token, "access_token")]
        for token, kind in tokens:
            if token is not None:
                answer = await endpoint.post(address, {"token": token, "token_type_hint": kind})
                refused = None if answer.status // 100 == 2 else refusal_of(answer, login.metadata.issuer)
                # RFC 7009, section 2.2.1: a self-contained access token cannot be revoked; it expires soon.
                if refused is not None and refused.error != "unsupported_token_type":
                    raise refused
    return True
