"""``requestState``: what is sealed opens again, and nothing else does."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import tracemalloc
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, cast

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from antiphon import Server
from antiphon.errors import ConfigError, InvalidParams
from antiphon.replicas.engines.unix import MemoryCluster
from antiphon.server.state import request_state
from antiphon.server.state.request_state import DerivedKeys, OpenAsk, Seal, State, compute_binding, make_refusal

BOUND = compute_binding(None, "tools/call", "describe", b'{"product":"hat"}', "catalogue")
STATE = State(b"0123456789abcdef", 3, 2_000.0)
KEY = b"k" * 32


def refused(seal: Seal, text: str, bound: bytes = BOUND, now: float = 1_000.0) -> bool:
    """Tell whether a state is refused with the one frozen message."""
    try:
        seal.open(text, bound, now)
    except InvalidParams as error:
        return error.message == make_refusal().message and error.data is None
    return False


@pytest.fixture(params=[(), (KEY,)], ids=["signed", "encrypted"])
def seal(request: pytest.FixtureRequest) -> Seal:
    """A seal without keys, and one with: whatever is promised holds for both."""
    return Seal(request.param)


def test_what_is_sealed_opens(seal: Seal) -> None:
    """A state comes back as it was."""
    assert seal.open(seal.seal(STATE, BOUND), BOUND, 1_000.0) == STATE


def test_a_state_is_url_safe_text_and_short(seal: Seal) -> None:
    """It travels in JSON and headers, with every retry."""
    text = seal.seal(STATE, BOUND)
    assert text.isascii()
    assert len(text) < 200


def test_two_states_of_the_same_call_differ(seal: Seal) -> None:
    """The nonce is fresh, so nothing is learnt from comparing."""
    assert seal.seal(STATE, BOUND) != seal.seal(STATE, BOUND)


def test_every_single_bit_counts(seal: Seal) -> None:
    """A state with any bit flipped is refused."""
    blob = bytearray(urlsafe_b64decode(seal.seal(STATE, BOUND)))
    for place in range(len(blob) * 8):
        blob[place // 8] ^= 1 << place % 8
        assert refused(seal, urlsafe_b64encode(bytes(blob)).decode()), place
        blob[place // 8] ^= 1 << place % 8


@given(st.text(max_size=300))
def test_arbitrary_text_is_refused(text: str) -> None:
    """Whatever a client makes up is refused in the same way, and nothing is raised but the refusal."""
    assert refused(Seal([b"k" * 32]), text)
    assert refused(Seal(), text)


@pytest.mark.parametrize("suffix", ["A", "=", " ", "\n", "AAAA"])
def test_text_that_is_appended_is_refused(seal: Seal, suffix: str) -> None:
    """Decoders of base64 skip what they do not know; we do not."""
    assert refused(seal, seal.seal(STATE, BOUND) + suffix)


def test_a_truncated_state_is_refused(seal: Seal) -> None:
    """No prefix of a state is a state."""
    text = seal.seal(STATE, BOUND)
    assert all(refused(seal, text[:length]) for length in range(len(text)))


def test_an_expired_state_is_refused(seal: Seal) -> None:
    """After its expiry, and what the clocks of two processes may differ by, a state is worth nothing."""
    text = seal.seal(STATE, BOUND)
    assert seal.open(text, BOUND, 2_029.0) == STATE
    assert refused(seal, text, now=2_030.0)


def test_a_state_longer_than_the_limit_is_refused() -> None:
    """Nobody decodes a megabyte for a stranger."""
    assert refused(Seal(), "A" * 600_000)


@pytest.mark.parametrize(
    "other",
    [
        ("ann", "tools/call", "describe", b'{"product":"hat"}', "catalogue"),
        (None, "prompts/get", "describe", b'{"product":"hat"}', "catalogue"),
        (None, "tools/call", "delete", b'{"product":"hat"}', "catalogue"),
        (None, "tools/call", "describe", b'{"product":"cap"}', "catalogue"),
        (None, "tools/call", "describe", b"", "catalogue"),
        (None, "tools/call", "describe", b'{"product":"hat"}', "warehouse"),
    ],
)
def test_a_state_is_bound_to_its_call(seal: Seal, other: tuple[str | None, str, str, bytes, str]) -> None:
    """Another user, method, tool, argument or server cannot use it."""
    assert refused(seal, seal.seal(STATE, BOUND), compute_binding(*other))


@pytest.mark.parametrize(
    "spelling",
    [b'{"a":1,"b":[2.5,{"c":3}]}', b'{ "b" : [2.5, {"c": 3.0}], "a" : 1.0 }', b'{"b":[25e-1,{"c":3}],"a":1}'],
)
def test_arguments_that_mean_the_same_bind_the_same(spelling: bytes) -> None:
    """A client may serialise its arguments anew for the retry."""
    first = compute_binding(None, "tools/call", "t", b'{"a":1,"b":[2.5,{"c":3}]}', "s")
    assert compute_binding(None, "tools/call", "t", spelling, "s") == first


@pytest.mark.parametrize("size", [0, 300_000])
def test_a_number_out_of_range_binds_nothing(size: int) -> None:
    """No call has such an argument, short or long, whatever its other numbers are."""
    pad = b"x" * size
    assert len(compute_binding(None, "m", "t", b'{"pad":"%b","a":[1e300,1.0]}' % pad, "s")) == 32
    with pytest.raises(InvalidParams):
        compute_binding(None, "m", "t", b'{"pad":"%b","a":[1e400,1.0]}' % pad, "s")


def test_true_is_not_one() -> None:
    """Numbers that are equal are the same; a boolean is no number."""
    assert compute_binding(None, "m", "t", b'{"a":true}', "s") != compute_binding(None, "m", "t", b'{"a":1}', "s")


def test_keys_rotate() -> None:
    """A new key seals, the old one still opens; once it is gone, its states are."""
    old, new = os.urandom(32), os.urandom(32)
    text = Seal([old]).seal(STATE, BOUND)
    assert Seal([new, old]).open(text, BOUND, 0.0) == STATE
    assert refused(Seal([new]), text)


def test_a_process_without_keys_makes_its_own() -> None:
    """Two servers without keys do not accept each other's states."""
    assert refused(Seal(), Seal().seal(STATE, BOUND))


def test_a_signature_separates_the_binding_from_the_data() -> None:
    """A byte moved from the one to the other is refused, although all signed bytes together stay the same."""
    seal = Seal()
    sealed = seal.seal_bytes(b"data", b"bound")
    assert seal.open_bytes(sealed, b"bound") == b"data"
    with pytest.raises(InvalidParams):
        seal.open_bytes(sealed[:2] + sealed[3:], b"bound" + sealed[2:3])


def test_neither_kind_passes_for_the_other() -> None:
    """A process that is given keys refuses what it has signed before, and one without them what was encrypted."""
    seal = Seal()
    signed, encrypted = seal.seal(STATE, BOUND), Seal([KEY]).seal(STATE, BOUND)
    assert refused(seal, encrypted)
    seal.share(KEY)
    assert refused(seal, signed)
    assert seal.open(encrypted, BOUND, 1_000.0) == STATE


def test_keys_without_the_package_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process without keys needs no package; one with keys says at its start which it needs."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert Seal().seal(STATE, BOUND)
    with pytest.raises(ConfigError, match=r"Server\(keys=\) .* pip install './antiphon\[keys\]'"):
        Server("s", keys=[KEY])
    with pytest.raises(ConfigError, match=r"several processes .*\[keys\]"):
        Server("s", cluster=MemoryCluster())
    with pytest.raises(ConfigError, match=r"workers= .*\[keys\]"):
        Server("s").run("http", port=0, workers=2)


def test_another_version_of_the_handler_is_another_call(seal: Seal) -> None:
    """After a deployment that changed it, a call begun before is refused."""
    old, new = (compute_binding(None, "m", "t", b"", "s", code) for code in (b"old", b"new"))
    assert refused(seal, seal.seal(STATE, old), new)


def test_a_state_with_a_journal_opens(seal: Seal) -> None:
    """What another process needs is carried whole."""
    full = State(
        b"0123456789abcdef", 3, 2_000.0, b"run", 7, (OpenAsk("k", "roots/list", "p#0", b"d", None),), b"\0\xff"
    )
    assert seal.open(seal.seal(full, BOUND), BOUND, 1_000.0) == full


def test_bytes_for_a_store_are_bound_as_well(seal: Seal) -> None:
    """A journal that is put under another call's key does not open."""
    assert seal.open_bytes(seal.seal_bytes(b"journal", b"one"), b"one") == b"journal"
    with pytest.raises(InvalidParams):
        seal.open_bytes(seal.seal_bytes(b"journal", b"one"), b"two")


def test_megabytes_are_sealed_as_any_bytes() -> None:
    """In pieces, with the same outcome: with keys that rotate, and refused if any part is not what it was."""
    old, new = b"o" * 32, b"n" * 32
    data = os.urandom(1_000_000)
    sealed = Seal([old]).seal_bytes(data, b"here")
    derived = DerivedKeys(hmac.digest(old, b"antiphon format 1", "sha256")).derive(sealed[2:14])
    assert AESGCM(derived).decrypt(sealed[14:26], sealed[26:], b"A1here") == data
    assert Seal([new, old]).open_bytes(sealed, b"here") == data
    for at in (20, 500_000, len(sealed) - 20, len(sealed) - 1):
        broken = bytearray(sealed)
        broken[at] ^= 1
        with pytest.raises(InvalidParams):
            Seal([old]).open_bytes(bytes(broken), b"here")
    for key, bound in ((new, b"here"), (old, b"there")):
        with pytest.raises(InvalidParams):
            Seal([key]).open_bytes(sealed, bound)


def test_a_short_key_is_refused_with_the_remedy() -> None:
    """A key that is too short is an error of the configuration."""
    with pytest.raises(ConfigError, match="32 bytes, not 5"):
        Seal([b"short"])


def test_a_key_that_is_text_is_refused() -> None:
    """Every call would fail with it."""
    with pytest.raises(ConfigError, match="not of str"):
        Seal(cast("Any", ["k" * 32]))


@pytest.mark.parametrize("keys", [b"k" * 32, "k" * 32])
def test_one_key_is_no_list_of_keys(keys: Any) -> None:
    """The remedy is a pair of brackets."""
    with pytest.raises(ConfigError, match=r"write keys=\[key\]"):
        Seal(keys)


@given(
    st.dictionaries(st.text(), st.text() | st.lists(st.integers() | st.text()) | st.dictionaries(st.text(), st.text()))
)
def test_the_digest_is_that_of_the_whole_document(arguments: dict[str, Any]) -> None:
    """Members are added one by one, and long texts as they came: processes of either make see the same call."""
    arguments["long"] = "x" * 300_000
    document = msgspec.json.encode(["p", "m", "t", arguments, "s", b"c"], order="deterministic")
    for is_ascii in (True, False):
        spelling = json.dumps(arguments, ensure_ascii=is_ascii).encode("utf-8")
        assert compute_binding("p", "m", "t", spelling, "s", b"c") == hashlib.blake2b(document, digest_size=32).digest()


def test_a_large_argument_is_not_copied() -> None:
    """A call of 8 MB is bound within a fraction of that: every process has room for what is parked, and little more."""
    arguments = b'{"text":"' + b"x" * 8_000_000 + b'"}'
    tracemalloc.start()
    try:
        compute_binding(None, "m", "t", Raw(arguments), "s")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


# --- formats ----------------------------------------------------------------------------------------------------------


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


def test_texts_share_a_derived_key_until_there_are_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half of the nonce stays for as long; the second is never the same. Each is as the format says."""
    monkeypatch.setattr(request_state, "_SHARES", 3)
    seal = Seal([KEY])
    nonces: list[bytes] = []
    for number in range(6):
        sealed = seal.seal_bytes(b"text %d" % number, b"here")
        nonces.append(sealed[2:26])
        derived = DerivedKeys(hmac.digest(KEY, b"antiphon format 1", "sha256")).derive(sealed[2:14])
        assert AESGCM(derived).decrypt(sealed[14:26], sealed[26:], b"A1here") == b"text %d" % number
    halves = [nonce[:12] for nonce in nonces]
    assert halves == [halves[0]] * 3 + [halves[3]] * 3
    assert halves[0] != halves[3]
    assert len({nonce[12:] for nonce in nonces}) == 6


def count_derived(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Note each half of a nonce that a key is derived from."""
    derive, halves = DerivedKeys.derive, list[bytes]()

    def noted(keys: DerivedKeys, first: bytes) -> bytes:
        halves.append(first)
        return derive(keys, first)

    monkeypatch.setattr(DerivedKeys, "derive", noted)
    return halves


def test_few_derived_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not kept any more is derived again."""
    monkeypatch.setattr(request_state, "_SHARES", 1)
    monkeypatch.setattr(request_state, "_KNOWN", 3)
    writer, reader = Seal([KEY]), Seal([KEY])
    texts = [writer.seal_bytes(b"text", b"here") for _ in range(10)]
    derived = count_derived(monkeypatch)
    for text in (*texts, texts[-1], texts[0]):
        assert reader.open_bytes(text, b"here") == b"text"
    assert derived == [text[2:14] for text in (*texts, texts[0])]


def test_texts_that_somebody_made_up_push_out_no_derived_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is kept when it has opened something."""
    monkeypatch.setattr(request_state, "_KNOWN", 3)
    seal = Seal([KEY])
    text = seal.seal_bytes(b"text", b"here")
    derived = count_derived(monkeypatch)
    for number in range(10):
        with pytest.raises(InvalidParams):
            seal.open_bytes(b"A1" + bytes([number]) * 24 + text[26:], b"here")
    assert len(derived) == 10
    assert seal.open_bytes(text, b"here") == b"text"
    assert len(derived) == 10


def test_the_other_alphabet_of_base64_is_refused() -> None:
    """One state has one spelling."""
    seal = Seal([KEY])
    text = next(text for text in iter(lambda: seal.seal(STATE, BOUND), "") if "-" in text and "_" in text)
    assert seal.open(text, BOUND, 1_000.0) == STATE
    assert refused(seal, text.replace("-", "+"))
    assert refused(seal, text.replace("_", "/"))
    assert refused(seal, text.replace("_", "*"))


@pytest.mark.parametrize("size", [0, 100, 1_000_000])
def test_what_was_changed_does_not_open(size: int) -> None:
    """In one piece or in many; and nothing that was changed, cut off, or is bound to something else."""
    data, seal = os.urandom(size), Seal([KEY])
    sealed = seal.seal_bytes(data, b"here")
    assert sealed.startswith(b"A1")
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


def test_data_of_another_format_is_refused() -> None:
    """The mark is authenticated."""
    sealed = Seal([KEY]).seal_bytes(b"text", b"here")
    with pytest.raises(InvalidParams):
        Seal([KEY]).open_bytes(b"A4" + sealed[2:], b"here")
