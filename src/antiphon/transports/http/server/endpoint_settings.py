"""The limits and times of a Streamable HTTP endpoint, and TLS from files of a certificate and a key."""

from __future__ import annotations

import ssl
from pathlib import Path

from msgspec import Struct

from antiphon.channel import MAX_FRAME
from antiphon.errors import ConfigError


class EndpointSettings(Struct, frozen=True, kw_only=True):
    """Limits and times; the defaults suit a server on the user's machine as well as one behind a proxy."""

    max_body: int = MAX_FRAME
    """Most bytes of one POST."""
    body_timeout: float = 30.0
    """Seconds within which a body must have arrived."""
    idle_timeout: float = 1800.0
    """Seconds without a request after which a session ends."""
    max_sessions: int = 10_000
    max_open: int = 5_000
    """Most requests and streams open at once, on all connections together."""
    keep_alive: float = 15.0
    """Seconds of silence on a stream after which a comment is sent. Proxies time out after 30 s or more."""
    patience: float = 5.0
    """Seconds a request may take before its response begins as a stream, so that it can be kept alive."""
    stateless: bool = False
    """Keep no sessions: a legacy message is served by itself, wherever it comes, and nothing is asked of its client."""
    health: bool = False
    """Answer GET ``/healthz`` and ``/readyz``."""
    json_only: bool = False
    """Answer requests with JSON only: a handler can then neither notify nor ask the client during a call."""


def server_context(cert: str | Path, key: str | Path | None = None, password: str | None = None) -> ssl.SSLContext:
    """Make the TLS context of a server: TLS 1.2 or newer, HTTP/1.1.

    ``cert``: a PEM file with the server's certificate first, then its chain. ``key``: a PEM file; by default the key is
    in ``cert``. ``password``: of an encrypted key; nobody is asked for it at the terminal.

    Raises:
        ConfigError: a file is missing or cannot be read, or key and certificate do not belong together.
    """
    for each in (cert, key):
        if each is not None and not Path(each).is_file():
            raise ConfigError(f"TLS: no such file: {each}")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    asked: list[bool] = []

    def give() -> str:
        asked.append(True)
        return password or ""

    try:
        context.load_cert_chain(cert, key, give)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS: {_describe_problem(error, cert, key, needs_password=bool(asked))}") from None
    return context


def _describe_problem(
    error: OSError | ValueError, cert: str | Path, key: str | Path | None, *, needs_password: bool
) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key or cert} does not belong to the certificate in {cert}"
    if needs_password:
        return f"the key in {key or cert} is encrypted, and the password is missing or wrong"
    if isinstance(error, ssl.SSLError):
        where = cert if key is None else f"{cert} or {key}"
        return f"{where} holds no certificate and key in PEM form"
    return str(error)
