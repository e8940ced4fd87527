"""The formats in which a server seals what leaves its process: states, records, events, and messages between replicas.

Sealed data begins with the mark of its format. Each release reads two formats, the last and the present one, and writes
the last for as long as a replica of the release before may have to read it. Format 4 is AES-256-GCM with nonces of 96
random bits, which is safe for 2**32 texts under one key (NIST SP 800-38D, section 8.3): 30 hours of ten thousand calls
a second. Format 5 is XAES-256-GCM (https://c2sp.org/XAES-256-GCM), safe for 2**80.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["FORMATS", "DerivedKeys", "Formats", "SealingKey", "mark_of", "nonce_size"]


class Formats(NamedTuple):
    """The two formats that a release reads."""

    last: int
    present: int


FORMATS = Formats(last=4, present=5)
"""Those of this release. Whoever adds a format raises both by one, and removes what only the one before needs."""

_DERIVES = 5
"""The first format that encrypts each text with a key of its own."""

_NONCE = 12
"""Bytes of the nonce of AES-GCM. The first half of that of XAES-256-GCM, which has 24, goes into the key."""

_TAG = 16

_PIECE = 256 * 1024
"""Bytes of a long text that are encrypted or decrypted at once; what is smaller is processed as a whole."""


def mark_of(format: int) -> bytes:
    """Return what data of a format begins with."""
    return b"A%d" % format


def nonce_size(format: int) -> int:
    """Return the bytes of the nonce that follows the mark."""
    return 2 * _NONCE if format >= _DERIVES else _NONCE


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


class SealingKey:
    """One key of a server, as all formats use it."""

    def __init__(self, key: bytes) -> None:
        # Imported when the first text is sealed or opened, because importing it is slow.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._key = key
        self._cipher = AESGCM
        self._plain = AESGCM(key)
        self._refused = InvalidTag, ValueError
        # Another key than that of format 4, so that neither format says anything about the other.
        self._keys = DerivedKeys(hmac.digest(key, b"antiphon format 5", "sha256"))

    def encrypt(self, format: int, nonce: bytes, data: bytes, bound_to: bytes) -> Sequence[bytes]:
        """Encrypt and authenticate data, and authenticate what it is bound to; return the pieces in order."""
        key, cipher = self._key, self._plain
        if format >= _DERIVES:
            key, nonce = self._keys.derive(nonce[:_NONCE]), nonce[_NONCE:]
            cipher = self._cipher(key)
        if len(data) > _PIECE:
            return _encrypted(key, nonce, data, bound_to)
        return (cipher.encrypt(nonce, data, bound_to),)

    def decrypt(self, format: int, nonce: bytes, sealed: memoryview, bound_to: bytes) -> bytes | None:
        """Undo ``encrypt``; return ``None`` if the data, what it is bound to, or the key is another."""
        if len(sealed) < _TAG:
            return None
        key, cipher = self._key, self._plain
        if format >= _DERIVES:
            key, nonce = self._keys.derive(nonce[:_NONCE]), nonce[_NONCE:]
            cipher = self._cipher(key)
        try:
            if len(sealed) > _PIECE:
                return _decrypted(key, nonce, sealed, bound_to)
            return cipher.decrypt(nonce, sealed, bound_to)
        except self._refused:
            return None


def _encrypted(key: bytes, nonce: bytes, data: bytes, bound_to: bytes) -> Sequence[bytes]:
    """Encrypt a long text as ``AESGCM`` does. That would hold the interpreter's lock all the time: 20 ms for 16 MiB."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(bound_to)
    view = memoryview(data)
    pieces = [encryptor.update(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE)]
    return [*pieces, encryptor.finalize(), encryptor.tag]


def _decrypted(key: bytes, nonce: bytes, sealed: memoryview, bound_to: bytes) -> bytes:
    """Decrypt a long text as ``AESGCM`` does; raises ``InvalidTag``, and returns nothing that is not checked."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    view = sealed[:-_TAG]
    decryptor = Cipher(algorithms.AES(key), modes.GCM(nonce, bytes(sealed[-_TAG:]))).decryptor()
    decryptor.authenticate_additional_data(bound_to)
    pieces = [decryptor.update(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE)]
    return b"".join((*pieces, decryptor.finalize()))
