"""Which hosts are this machine: wherever something depends on that, by the same rule."""

from __future__ import annotations

import pytest

from antiphon.machine.loopback import LOOPBACK, is_loopback


@pytest.mark.parametrize(
    ("host", "own"),
    [("localhost", True), ("a.localhost", True), ("127.0.0.2", True), ("::1", True), ("10.0.0.1", False),
     ("localhost.evil.example", False), ("evillocalhost", False), ("169.254.169.254", False), ("0.0.0.0", False),
     ("::", False), ("127.1", False), ("[::1]", False), ("", False)],
)  # fmt: skip
def test_only_this_machine_is_this_machine(host: str, own: bool):
    """Not the network around it, and no name that only looks like one of ours."""
    assert is_loopback(host) is own


@pytest.mark.parametrize(("host", "own"), [("a.localhost", False), ("localhost", True), ("127.0.0.2", True)])
def test_a_program_listens_at_no_name_that_the_network_may_answer_for(host: str, own: bool):
    """What is below ``localhost`` does not count then."""
    assert is_loopback(host, subdomains=False) is own


def test_the_names_in_host_headers_are_this_machine():
    """Each of them, without the brackets that a header has around an address."""
    assert all(is_loopback(name.strip("[]"), subdomains=False) for name in LOOPBACK)
