"""The making of DPoP proofs."""

from __future__ import annotations

import time

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from antiphon.auth.challenge import ProofKey, hash_of, proof_target


def read(proof):
    """Verify a proof with the key inside it, as a server does."""
    header = jwt.decode(proof, _key_of(proof), algorithms=["ES256"])
    return header.header, header.claims


def _key_of(proof):
    from joserfc.jws import extract_compact

    return ECKey.import_key(extract_compact(proof.encode()).headers()["jwk"])


def test_a_proof_names_the_request_and_its_own_key():
    """Method, address and time are signed by the key whose public half travels with the proof."""
    key = ProofKey()
    header, claims = read(key.proof("POST", "https://u:p@a.example/mcp?x=1#y"))
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    assert ECKey.import_key(header["jwk"]).thumbprint() == key.thumbprint
    assert (claims["htm"], claims["htu"]) == ("POST", "https://a.example/mcp")
    assert abs(claims["iat"] - time.time()) < 60
    assert "ath" not in claims
    assert "nonce" not in claims


def test_a_proof_is_bound_to_the_token_and_the_nonce():
    """The hash of the token and the server's nonce are inside."""
    _, claims = read(ProofKey().proof("GET", "https://a.example", token="t0ken", nonce="n"))
    assert (claims["ath"], claims["nonce"]) == (hash_of("t0ken"), "n")


def test_no_two_proofs_are_alike():
    """A proof is used once: each has an id of its own."""
    key = ProofKey()
    made = {read(key.proof("GET", "https://a.example"))[1]["jti"] for _ in range(50)}
    assert len(made) == 50


def test_a_stored_key_is_the_same_key():
    """What was exported signs as before."""
    key = ProofKey()
    assert ProofKey(key.export_key()).thumbprint == key.thumbprint


def test_the_private_half_is_in_no_repr():
    """A log shows the thumbprint."""
    key = ProofKey()
    assert key.export_key()["d"] not in repr(key)


def test_the_hash_of_a_token_is_that_of_the_standard():
    """RFC 9449, section 4.2 example: the token and its hash."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
    assert hash_of(token) == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://a.example:8443/x/?q#f", "https://a.example:8443/x/"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
    ],
)
def test_the_target_of_a_proof_has_no_query(url, target):
    """RFC 9449, section 4.2: htu is without query and fragment."""
    assert proof_target(url) == target
