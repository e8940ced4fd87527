"""``requestState``: authenticated, bound to its call, short-lived, and always refused with the same error.

2026-07-28 basic/patterns/mrtr: a server must treat it as attacker-controlled input. The state is authenticated and
bound to the caller, the method, the arguments and the server, so that it fits no other call. Keys are tried in order,
so that they can be rotated. With keys, a state is encrypted as well, as is all else that a server keeps or sends
outside its process: records, events, messages between processes. This needs ``antiphon[keys]``. A process without keys
makes one for itself and signs with it (HMAC-SHA256): its states hold a random id, a count and an expiry, and no secret.

Encrypted data begins with the mark of its format, XAES-256-GCM (https://c2sp.org/XAES-256-GCM), which derives a key
from the first half of a nonce. A process draws a new first half after 1,024 texts, and a new second half for each text.
Two equal nonces are as unlikely after 2**55 texts (100,000 years of ten thousand texts a second) as those of plain
AES-256-GCM after 2**32 (NIST SP 800-38D, section 8.3).
"""

from __future__ import annotations

import hmac
import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from hashlib import blake2b
from importlib.util import find_spec
from math import isinf
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from antiphon.errors import ConfigError, InvalidParams, OutcomeUnknown
from antiphon.machine.public_names import describe_install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_STATE = 512 * 1024
"""Longest state made and accepted, in characters. Without a journal it is below 200; a journal grows with what the call
learns. Clients refuse more than 1 MiB."""

SKEW = 30.0
"""Seconds by which the clocks of a server's processes may differ; a state is accepted that much longer."""

_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_+/", b"+/**")
"""The URL-safe alphabet of base64, and back (RFC 4648, section 5); what only the other alphabet has becomes invalid."""

_QUOTE, _BRACE = b'"{'

_PIECE = 256 * 1024
"""Bytes of a long text that are copied, encrypted or decrypted at once; what is smaller is processed as a whole."""

_json = msgspec.json.Encoder(order="deterministic").encode


class OpenAsk(msgspec.Struct, frozen=True, array_like=True):
    """An ask that was not answered when the state was made."""

    key: str
    """Its name on the wire."""
    method: str
    place: str
    """Its place in the handler (see ``journal``)."""
    digest: bytes
    deadline: float | None
    """Seconds since the epoch."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """The content of a state. Members from ``run`` on are set only if another process may continue the call."""

    call: bytes
    """Id of the call, 16 random bytes."""
    generation: int
    """Number of rounds the call had sent when this was made."""
    expires: float
    """Seconds since the epoch."""
    run: bytes = b""
    """Id of the run of the body that made this: 8 random bytes, new with each replay."""
    asked: int = 0
    """How many asks had been numbered."""
    open: tuple[OpenAsk, ...] = ()
    journal: bytes | None = None
    """The journal; empty if it is in the store, ``None`` if the call cannot be replayed."""
    key: bytes = b""
    """The key under which the call's steps are recorded, if it is not the call's id."""
    holder: str = ""
    """The process where the call is parked, if there are several; a retry is passed on to it while it lives."""


def make_refusal() -> InvalidParams:
    """Make the one error for every state that is refused, so that it tells an attacker nothing."""
    return InvalidParams("Invalid or expired requestState")


def outcome_unknown() -> OutcomeUnknown:
    """Make the error for a call that nobody here can go on with, although another process may have carried it out."""
    return OutcomeUnknown("Whether this call was carried out is not known: another process may have gone on with it")


_SHARES = 1024
"""Texts that a process seals under one derived key, because deriving a key takes as long as sealing a text. The rest of
each nonce is random, not counted, so processes that were forked may go on with the same key."""

_KNOWN = 128
"""Most derived keys that are kept: one for each process whose texts are opened, if those are not too many."""

_MARK = b"A1"
"""Begins encrypted data, and is authenticated with it. Another format has another mark."""

_SIGNED = b"H1"
"""Begins data that is signed and not encrypted."""

_NONCE = 12
"""Bytes of the nonce of AES-GCM: half of that of XAES-256-GCM, whose first half goes into the key."""

_TAG = 16

_SIGNATURE = 32


def check_encryption(wanted: str) -> None:
    """Raise ``ConfigError`` if the package is missing that encrypts data for other processes; ``wanted`` needs it."""
    if find_spec("cryptography") is None:
        raise ConfigError(
            f"{wanted} encrypts what leaves this process, for which a package is missing: {describe_install('keys')}"
        )


class Seal:
    """Seals and opens states.

    ``keys``: 32 bytes each, the first one encrypts; without keys one is made for this process, which signs.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        if isinstance(keys, (bytes, str)) or not hasattr(keys, "__iter__"):
            raise ConfigError("keys= is a list of keys, the newest first: write keys=[key]")
        for key in keys:
            if type(key) is not bytes or len(key) != 32:
                found = f"{len(key)}" if type(key) is bytes else f"of {type(key).__name__}"
                raise ConfigError(f"A key for request states has 32 bytes, not {found}; make one with os.urandom(32)")
        self.is_shared = bool(keys)
        """Whether other processes may have the same keys."""
        if keys:
            check_encryption("Server(keys=)")
        self._keys = tuple(keys)
        self._opened: list[_EncryptionKey | _SigningKey] = []
        self._mark = _MARK if keys else _SIGNED

    def share(self, key: bytes) -> None:
        """Use a key that other processes have, too, in place of one that was made for this process."""
        if not self.is_shared:
            self._keys, self._opened, self._mark, self.is_shared = (key,), [], _MARK, True

    def seal(self, state: State, bound_to: bytes) -> str:
        """Seal a state for one binding."""
        blob = self.seal_bytes(_encode(state), bound_to)
        return b2a_base64(blob, newline=False).translate(_TO_URL).decode("ascii")

    def seal_bytes(self, data: bytes, bound_to: bytes) -> bytes:
        """Seal anything for one binding. Only a seal with keys also encrypts it."""
        key = (self._opened or self._make_keys())[0]
        return b"".join((self._mark, *key.seal(data, self._mark + bound_to)))

    def open(self, text: str, bound_to: bytes, now: float) -> State:
        """Open a state. Raises the same ``InvalidParams`` whatever is wrong."""
        if len(text) > MAX_STATE or not text.isascii():
            raise make_refusal()
        given = text.encode("ascii").translate(_FROM_URL)
        try:
            blob = a2b_base64(given)
        except ValueError:
            raise make_refusal() from None
        if b2a_base64(blob, newline=False) != given:
            raise make_refusal()
        try:
            state = _decode(self.open_bytes(blob, bound_to))
        except msgspec.DecodeError:
            raise make_refusal() from None
        if state.expires + SKEW <= now:
            raise make_refusal()
        return state

    def open_bytes(self, blob: bytes, bound_to: bytes) -> bytes:
        """Open data of ``seal_bytes``. Raises the same ``InvalidParams`` whatever is wrong."""
        if blob.startswith(self._mark):
            for key in self._opened or self._make_keys():
                found = key.open(blob, self._mark + bound_to)
                if found is not None:
                    return found
        raise make_refusal()

    def _make_keys(self) -> list[_EncryptionKey | _SigningKey]:
        self._opened = [_EncryptionKey(key) for key in self._keys] or [_SigningKey()]
        return self._opened


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


def _parse_number(text: str) -> float:
    """Read a number that is not written as an integer. One that equals an integer is read as that one."""
    value = float(text)
    if isinf(value):
        raise ValueError("a number out of range")
    return int(value) if value.is_integer() else value


_meaning = msgspec.json.Decoder(float_hook=_parse_number).decode
"""Decode JSON so that equal numbers are identical, since clients may write 1.0 again as 1."""


def compute_binding(
    principal: str | None, method: str, name: str, arguments: bytes | Raw, server: str, code: bytes = b""
) -> bytes:
    """Compute the digest that binds a state to equal arguments, and to the handler's ``code`` if that may differ."""
    text = arguments or b"{}"
    try:
        if len(text) <= _PIECE or memoryview(text)[0] != _BRACE:
            return blake2b(_json([principal, method, name, _meaning(text), server, code]), digest_size=32).digest()
        # The same text, of which no more than one member is in memory at once.
        digest = blake2b(_json([principal, method, name])[:-1] + b",", digest_size=32)
        members, mark = msgspec.json.decode(text, type=dict[str, Raw]), b"{"
        for member in sorted(members):
            digest.update(mark + _json(member) + b":")
            _add_meaning(digest, members[member])
            mark = b","
        digest.update(b"}" if members else b"{}")
    except msgspec.DecodeError:
        raise make_refusal() from None
    digest.update(b"," + _json([server, code])[1:])
    return digest.digest()


def _add_meaning(digest: blake2b, member: Raw) -> None:
    """Add a value in canonical form. A long text that is in this form already is not copied."""
    view = memoryview(member)
    pieces = range(0, len(view), _PIECE)
    if view[0] == _QUOTE and not any(b"\\" in bytes(view[at : at + _PIECE]) for at in pieces):
        digest.update(view)
        return
    digest.update(_json(_meaning(member)))


# --- encryption -------------------------------------------------------------------------------------------------------


class DerivedKeys:
    """The keys of single texts that XAES-256-GCM derives from one key: two blocks of CMAC in counter mode."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import algorithms
        from cryptography.hazmat.primitives.cmac import CMAC

        # Prepared once, since a copy costs less.
        self._prepared = CMAC(algorithms.AES(key))

    def derive(self, first: bytes) -> bytes:
        """Return the key of the texts whose nonces begin with these 12 bytes."""
        one, other = self._prepared.copy(), self._prepared.copy()
        one.update(b"\0\1X\0" + first)
        other.update(b"\0\2X\0" + first)
        return one.finalize() + other.finalize()


class _TextKey(msgspec.Struct, frozen=True):
    """A key that texts are encrypted with (AES-256-GCM)."""

    key: bytes
    cipher: AESGCM
    """The same, prepared."""


class _SigningKey:
    """The key of a process that has no keys: it authenticates data (HMAC-SHA256, RFC 2104), and hides nothing."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def seal(self, data: bytes, bound_to: bytes) -> Sequence[bytes]:
        """Authenticate data and what it is bound to; return nonce, data and signature."""
        nonce = os.urandom(_NONCE)
        return nonce, data, self._sign(nonce + data, bound_to)

    def open(self, blob: bytes, bound_to: bytes) -> bytes | None:
        """Return the data of a blob of mark, nonce, data and signature; ``None`` if it was not signed so."""
        signed, signature = blob[len(_SIGNED) : -_SIGNATURE], blob[-_SIGNATURE:]
        return signed[_NONCE:] if hmac.compare_digest(signature, self._sign(signed, bound_to)) else None

    def _sign(self, signed: bytes, bound_to: bytes) -> bytes:
        # With its length, so that no part of the one can pass for a part of the other.
        return hmac.digest(self._key, len(bound_to).to_bytes(8) + bound_to + signed, "sha256")


class _EncryptionKey:
    """One key of a server, and the keys that are derived from it."""

    def __init__(self, key: bytes) -> None:
        # Imported when the first text is sealed or opened, because importing it is slow.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM
        self._refused = InvalidTag, ValueError
        # Not the key itself, so that a text of another format would tell nothing about the derived keys.
        self._keys = DerivedKeys(hmac.digest(key, b"antiphon format 1", "sha256"))
        self._known: dict[bytes, _TextKey] = {}
        """Derived keys, by the half of a nonce that each is derived from."""
        self._present: tuple[bytes, _TextKey] | None = None
        """The half of the nonces that are made now, and what is derived from it."""
        self._left = 0
        """Texts for which it may still be used."""

    def seal(self, data: bytes, bound_to: bytes) -> Sequence[bytes]:
        """Encrypt and authenticate data, and authenticate what it is bound to; return nonce and text, in pieces."""
        present = self._present
        if present is None or self._left <= 0:
            present = self._renew()
        self._left -= 1
        half, used = present
        nonce = os.urandom(_NONCE)
        if len(data) > _PIECE:
            return half, nonce, *_encrypt_pieces(used.key, nonce, data, bound_to)
        return half, nonce, used.cipher.encrypt(nonce, data, bound_to)

    def open(self, blob: bytes, bound_to: bytes) -> bytes | None:
        """Undo ``seal`` for a blob of mark, nonce and text; ``None`` if the key or anything bound is another."""
        start = len(_MARK) + _NONCE
        text = start + _NONCE
        half, nonce = blob[len(_MARK) : start], blob[start:text]
        known = self._known.get(half)
        try:
            used = known or self._derive_key(half)
            if len(blob) > _PIECE:
                found = _decrypt_pieces(used.key, nonce, memoryview(blob)[text:], bound_to)
            else:
                found = used.cipher.decrypt(nonce, blob[text:], bound_to)
        except self._refused:
            return None
        if known is None:
            # Kept only after a successful decryption, so that forged texts displace no key.
            self._keep(half, used)
        return found

    def _renew(self) -> tuple[bytes, _TextKey]:
        """Derive another key for the texts that are sealed from now on."""
        half = os.urandom(_NONCE)
        present = self._present = half, self._derive_key(half)
        self._keep(*present)
        self._left = _SHARES
        return present

    def _derive_key(self, half: bytes) -> _TextKey:
        key = self._keys.derive(half)
        return _TextKey(key, self._cipher(key))

    def _keep(self, half: bytes, derived: _TextKey) -> None:
        if len(self._known) >= _KNOWN:
            # All are dropped at once: finding the oldest takes several steps, between which another thread may seal.
            self._known = {}
        self._known[half] = derived


def _encrypt_pieces(key: bytes, nonce: bytes, data: bytes, bound_to: bytes) -> Sequence[bytes]:
    """Encrypt a long text in pieces: ``AESGCM`` would hold the interpreter's lock throughout, 20 ms for 16 MiB."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(bound_to)
    view = memoryview(data)
    pieces = [encryptor.update(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE)]
    return [*pieces, encryptor.finalize(), encryptor.tag]


def _decrypt_pieces(key: bytes, nonce: bytes, sealed: memoryview, bound_to: bytes) -> bytes:
    """Decrypt a long text as ``AESGCM`` does; raises ``InvalidTag``, and returns nothing that is not checked."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    view = sealed[:-_TAG]
    decryptor = Cipher(algorithms.AES(key), modes.GCM(nonce, bytes(sealed[-_TAG:]))).decryptor()
    decryptor.authenticate_additional_data(bound_to)
    pieces = [decryptor.update(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE)]
    return b"".join((*pieces, decryptor.finalize()))
