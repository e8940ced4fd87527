"""TLS of a server: certificate and key from files, with clear error messages."""

from __future__ import annotations

import ssl
from pathlib import Path

from antiphon.errors import ConfigError

__all__ = ["server_context"]


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
        raise ConfigError(f"TLS: {_problem(error, cert, key, needs_password=bool(asked))}") from None
    return context


def _problem(error: OSError | ValueError, cert: str | Path, key: str | Path | None, *, needs_password: bool) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key or cert} does not belong to the certificate in {cert}"
    if needs_password:
        return f"the key in {key or cert} is encrypted, and the password is missing or wrong"
    if isinstance(error, ssl.SSLError):
        where = cert if key is None else f"{cert} or {key}"
        return f"{where} holds no certificate and key in PEM form"
    return str(error)
