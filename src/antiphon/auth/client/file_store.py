"""Logins in an encrypted file (mode 0600) that all processes of a user share.

Owns the file, its lock and its key. The key is in the system's keyring if there is one, so that a copy of the file (in
a backup, for example) is unreadable; otherwise the key is next to the file, and the file says so. The lock is held only
while the file is read and written, never during a request.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon.auth.client.store import Document
from antiphon.errors import ConfigError
from antiphon.machine.files import keep_from_others, read_file, replace_file
from antiphon.machine.public_names import describe_install

log = logging.getLogger("antiphon.auth")

T = TypeVar("T")

MAX_FILE = 16 * 1024 * 1024
"""Bytes of the file at most; a thousand logins have about four megabytes."""

LOCK_PATIENCE = 30.0
"""Seconds to wait for the lock; each process holds it for some milliseconds."""

KEYRING_PATIENCE = 60.0
"""Seconds to wait for the keyring, which may ask the person to unlock it."""

_SERVICE = "antiphon logins"
_LOOK = 0.01
_BESIDE = "beside this file, since the system has no keyring: whoever can read the folder can read the logins"
_IN_KEYRING = "in the system's keyring"


class _Sealed(Struct, frozen=True, kw_only=True):
    """The content of the file."""

    antiphon: str
    version: int
    key: str
    """Where the key is, for people who open the file."""
    nonce: str
    sealed: str


class FileLogins:
    """Keeps logins in a file that all processes of a user may share: ``OAuth(store=FileLogins(path))``.

    Args:
        path: the file; it and its folder are made when first needed. The command line keeps its logins in the file
            ``logins`` of its state folder.
        keyring: whether to keep the key in the system's keyring, if there is one; ``True`` by default.
    """

    def __init__(self, path: str | Path, *, keyring: bool = True) -> None:
        self.path = Path(path).expanduser()
        self._keyring = keyring
        self._key: bytes | None = None
        self._seen: tuple[int, int, int] | None = None
        self._kept = Document()
        self._own = threading.Lock()

    def __repr__(self) -> str:
        return f"FileLogins({str(self.path)!r})"

    async def read(self) -> Document:
        """See ``LoginStore.read``. The file is read again only if its size or time has changed.

        Raises:
            ConfigError: it cannot be read.
        """
        if self._stamp() != self._seen:
            await asyncio.to_thread(self._reload)
        return self._kept.copied()

    async def change(self, how: Callable[[Document], T]) -> T:
        """See ``LoginStore.change``. The file is written only if the logins have changed.

        Raises:
            ConfigError: it cannot be read or written, or the lock was not released in time.
        """
        return await asyncio.to_thread(self._change, how)

    def _change(self, how: Callable[[Document], T]) -> T:
        try:
            from filelock import FileLock, Timeout
        except ImportError:
            raise ConfigError(f"logins in a file need the extra: {describe_install('auth')}") from None
        lock = FileLock(f"{self.path}.lock", timeout=LOCK_PATIENCE, poll_interval=_LOOK, mode=0o600)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock:
                document = self._load()
                before = msgspec.json.encode(document)
                result = how(document)
                data = msgspec.json.encode(document)
                if data != before:
                    self._write(data)
                return result
        except Timeout:
            raise ConfigError(f"{self.path}: another process has held its lock for {LOCK_PATIENCE:g} s") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _reload(self) -> None:
        with self._own:
            # Taken before reading, so that a change during the reading is noticed the next time.
            stamp = self._stamp()
            self._kept = self._load()
            self._seen = stamp

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    # --- the file -----------------------------------------------------------------------------------------------

    def _load(self) -> Document:
        try:
            data = read_file(self.path, MAX_FILE + 1)
        except FileNotFoundError:
            return Document()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from None
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError(f"{self.path} needs packages to be read: {describe_install('auth')}") from None
        known = self._key
        try:
            read = msgspec.json.decode(data, type=_Sealed)
            key = self._key_for(in_keyring=read.key == _IN_KEYRING, make=False)
            nonce, sealed = base64.b64decode(read.nonce), base64.b64decode(read.sealed)
            return msgspec.json.decode(AESGCM(key).decrypt(nonce, sealed, _encode_header(read.key)), type=Document)
        except (msgspec.DecodeError, ValueError, InvalidTag):
            if known is not None:
                # Perhaps the file was deleted and made anew, with another key, since this process read its key.
                self._key = None
                return self._load()
            raise ConfigError(
                f"{self.path}: is damaged, or encrypted with another key: delete it and sign in again "
                "(antiphon login URL)"
            ) from None

    def _write(self, data: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        there = self.path.exists()
        place = _IN_KEYRING if not there and self._has_keyring() else _BESIDE
        if there:
            place = msgspec.json.decode(read_file(self.path, MAX_FILE), type=_Sealed).key
        key = self._key_for(in_keyring=place == _IN_KEYRING, make=not there)
        nonce = secrets.token_bytes(12)
        sealed = AESGCM(key).encrypt(nonce, data, _encode_header(place))
        said = _Sealed(antiphon="logins", version=1, key=place, nonce=_decode_text(nonce), sealed=_decode_text(sealed))
        replace_file(self.path, msgspec.json.encode(said))

    # --- the key ------------------------------------------------------------------------------------------------

    def _key_for(self, *, in_keyring: bool, make: bool) -> bytes:
        if self._key is None or make:
            self._key = self._keyring_key(make=make) if in_keyring else self._file_key(make=make)
        return self._key

    def _has_keyring(self) -> bool:
        """Return whether there is a keyring that stores what it is given."""
        if not self._keyring:
            return False
        import keyring

        try:
            return float(keyring.get_keyring().priority) >= 1
        except Exception:
            # The exceptions of keyring back ends differ by system.
            return False

    def _keyring_key(self, *, make: bool) -> bytes:
        import keyring

        name = str(self.path.absolute())

        def ask_for_key() -> str | None:
            if make:
                keyring.set_password(_SERVICE, name, _decode_text(secrets.token_bytes(32)))
            return keyring.get_password(_SERVICE, name)

        found = _ask_keyring(ask_for_key)
        if found is None:
            raise ConfigError(
                f"{self.path}: its key is in the system's keyring, which cannot be read here: unlock it, or name "
                "another file"
            )
        return base64.b64decode(found)

    def _file_key(self, *, make: bool) -> bytes:
        beside = self.path.with_name(f"{self.path.name}.key")
        if make:
            replace_file(beside, _decode_text(secrets.token_bytes(32)).encode())
        try:
            if keep_from_others(beside):
                log.warning("Sign in again if they may have read it")
            return base64.b64decode(read_file(beside, MAX_FILE))
        except OSError as error:
            raise ConfigError(f"{beside}: cannot be read: {error.strerror}") from None


def _ask_keyring(ask: Callable[[], str | None]) -> str | None:
    """Ask a keyring, which may wait for a person or hang; ``None`` if it fails."""
    found: list[str | None] = []

    def run() -> None:
        try:
            found.append(ask())
        except Exception:
            # Locked, declined or missing: each back end raises its own exceptions.
            found.append(None)

    thread = threading.Thread(target=run, daemon=True, name="antiphon-keyring")
    thread.start()
    thread.join(KEYRING_PATIENCE)
    return found[0] if found else None


def _encode_header(place: str) -> bytes:
    return json.dumps(["antiphon logins", 1, place]).encode()


def _decode_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
