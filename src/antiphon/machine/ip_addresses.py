"""Which IP addresses are public, whatever form they are written in."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# What is not in here is local, reserved, or contains an IPv4 address.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TEREDO = IPv6Network("2001::/32")
_LAST_FOUR_BYTES = (
    IPv6Network("::/96"),  # IPv4-compatible (RFC 4291, section 2.5.5.1)
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped (section 2.5.5.2)
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated (RFC 2765, section 2.1)
    IPv6Network("64:ff9b::/96"),  # NAT64 (RFC 6052)
)
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


def is_public(address: str) -> bool:
    """Return whether an IP address, and any IPv4 address in it, is public; ``ValueError`` for other text."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    contained = _list_contained(parsed)
    if contained:
        return all(map(_is_public_v4, contained))
    return parsed in _GLOBAL_UNICAST and parsed.is_global


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast


def _list_contained(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """List the IPv4 addresses that packets to an IPv6 address may reach."""
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _TEREDO and address.teredo is not None:
        return address.teredo
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address in _LOCAL_NAT64 and not int(last) & 0xFF_FFFF and int(address) & 0xFFFF_FFFF_FFFF_FFFF:
        # RFC 6052, section 2.2: after a prefix of 48 bits, the address stands around the byte of bits 64 to 71.
        number = int(address)
        return (IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF),)
    if address in _LOCAL_NAT64 or any(address in network for network in _LAST_FOUR_BYTES):
        return (last,)
    return ()
