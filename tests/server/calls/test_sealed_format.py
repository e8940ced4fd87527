"""The formats in which bytes are sealed, and which of them is written."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.errors import ConfigError, InvalidParams
from antiphon.server.calls import sealed_format
from antiphon.server.calls.request_state import Seal
from antiphon.server.calls.sealed_format import FORMATS, DerivedKeys, Formats

KEY = b"k" * 32


@pytest.mark.parametrize(
    ("key", "bound", "sealed"),
    [
        (b"\1", b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\3", b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_keys_are_derived_as_specified(key: bytes, bound: bytes, sealed: str) -> None:
    """The test vectors of https://c2sp.org/XAES-256-GCM, one for each value of the bit that decides the subkey."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    derived = DerivedKeys(key * 32).derive(nonce[:12])
    assert AESGCM(derived).encrypt(nonce[12:], b"XAES-256-GCM", bound).hex() == sealed


def test_the_last_format_is_aes_gcm_under_the_key_itself() -> None:
    """What releases before have sealed opens."""
    sealed = b"A4" + b"n" * 12 + AESGCM(KEY).encrypt(b"n" * 12, b"text", b"A4here")
    assert Seal([KEY]).open_bytes(sealed, b"here") == b"text"


@pytest.mark.parametrize("size", [0, 100, 1_000_000])
@pytest.mark.parametrize("format", FORMATS)
def test_both_formats_open_what_they_seal(format: int, size: int) -> None:
    """In one piece or in many; and nothing that was changed, cut off, or is bound to something else."""
    data, seal = os.urandom(size), Seal([KEY], format)
    sealed = seal.seal_bytes(data, b"here")
    assert sealed.startswith(b"A%d" % format)
    assert Seal([b"n" * 32, KEY]).open_bytes(sealed, b"here") == data
    changed = bytearray(sealed)
    for at in (0, 2, 10, 20, len(sealed) // 2, -1):
        changed[at] ^= 1
        with pytest.raises(InvalidParams):
            seal.open_bytes(bytes(changed), b"here")
        changed[at] ^= 1
    for wrong in (sealed[:-1], sealed[:20], sealed[:3], b""):
        with pytest.raises(InvalidParams):
            seal.open_bytes(wrong, b"here")
    with pytest.raises(InvalidParams):
        seal.open_bytes(sealed, b"there")


def test_one_format_is_not_taken_for_another() -> None:
    """The mark is bound, and so is the key."""
    sealed = Seal([KEY], 5).seal_bytes(b"text", b"here")
    with pytest.raises(InvalidParams):
        Seal([KEY]).open_bytes(b"A4" + sealed[2:], b"here")


def test_the_present_format_is_written_where_nobody_else_reads() -> None:
    """With shared keys the last one is, until it is known that all others read the present one."""
    assert Seal().seal_bytes(b"", b"").startswith(b"A5")
    seal = Seal([KEY])
    assert seal.seal_bytes(b"", b"").startswith(b"A4")
    seal.write(5)
    assert seal.seal_bytes(b"", b"").startswith(b"A5")
    later = Seal()
    later.share(KEY)
    assert later.seal_bytes(b"", b"").startswith(b"A4")


def test_a_format_that_was_chosen_is_written_whatever_others_read() -> None:
    """So that one can go back to the release before, or need not wait."""
    for chosen, other in (FORMATS, reversed(FORMATS)):
        seal = Seal([KEY], chosen)
        seal.write(other)
        assert seal.seal_bytes(b"", b"").startswith(b"A%d" % chosen)


def test_a_format_that_is_not_read_cannot_be_chosen() -> None:
    """The message says which can."""
    with pytest.raises(ConfigError, match="4 or 5"):
        Seal([KEY], 3)


def test_a_release_reads_the_last_format_and_no_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one reads what this one writes, and the one after it does not."""
    sealed = Seal([KEY], 5).seal_bytes(b"text", b"")
    monkeypatch.setattr(sealed_format, "FORMATS", Formats(5, 6))
    assert Seal([KEY]).open_bytes(sealed, b"") == b"text"
    monkeypatch.setattr(sealed_format, "FORMATS", Formats(6, 7))
    with pytest.raises(InvalidParams):
        Seal([KEY]).open_bytes(sealed, b"")
