"""Which addresses are public, in all forms that an IPv4 address is written in."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from antiphon.machine.ip_addresses import is_public

FORMS = {
    "as it is": str,
    "IPv4-mapped": lambda four: f"::ffff:{four}",
    "IPv4-compatible": lambda four: f"::{four}",
    "IPv4-translated": lambda four: f"::ffff:0:{four}",
    "NAT64": lambda four: f"64:ff9b::{four}",
    "local NAT64, 96 bits": lambda four: f"64:ff9b:1:abcd::{four}",
    "local NAT64, 48 bits": lambda four: (
        f"64:ff9b:1:{int(four) >> 16:x}:{int(four) >> 8 & 0xFF:x}:{(int(four) & 0xFF) << 8:x}::"
    ),
    "6to4": lambda four: f"2002:{int(four) >> 16:x}:{int(four) & 0xFFFF:x}::1",
    "Teredo": lambda four: f"2001:0:808:808:0:0:{~int(four) >> 16 & 0xFFFF:x}:{~int(four) & 0xFFFF:x}",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("local", ["127.0.0.1", "10.1.2.3", "192.168.7.9", "169.254.169.254", "100.64.0.1", "0.0.0.0"])
def test_a_local_address_is_local_in_each_form(form, local):
    """Whatever gateway unpacks it, the request ends at the address inside."""
    assert not is_public(FORMS[form](IPv4Address(local)))


@pytest.mark.parametrize("form", FORMS)
def test_a_public_address_is_public_in_each_form(form):
    """A network with IPv6 alone reaches all servers of IPv4 so."""
    assert is_public(FORMS[form](IPv4Address("93.184.215.14")))


@pytest.mark.parametrize(
    "address",
    ["::", "::1", "fe80::1%eth0", "fec0::1", "fd00::1", "ff02::1", "224.0.0.1", "255.255.255.255", "2001:db8::1"],
)
def test_a_reserved_address_is_not_public(address):
    """Nobody else is there."""
    assert not is_public(address)


def test_a_global_address_is_public():
    """As most servers have it."""
    assert is_public("2606:4700::6810:84e5")


def test_a_name_is_no_address():
    """Names have to be looked up first."""
    with pytest.raises(ValueError, match="does not appear"):
        is_public("localhost")
