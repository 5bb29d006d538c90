"""Which addresses WebFetch reaches: the public ones, however they are written."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.errors import Unreachable
from prong.provider import AddressGuard, is_public

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
    "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192",
    "168.63.129.16", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "not an address", "",
]  # fmt: skip


@pytest.mark.spec("L2")
@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_private_is_not_public(address: str) -> None:
    """Loopback, private, link-local and metadata addresses are not public, wrapped or not."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_what_is_public_is(address: str) -> None:
    """Ordinary servers are public."""
    assert is_public(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_no_wrapping_makes_an_address_public(inner: IPv4Address) -> None:
    """An IPv4 address inside of an IPv6 one is judged as it would be bare."""
    number = int(inner)
    mapped = IPv6Address((0xFFFF << 32) | number)
    sixtofour = IPv6Address((0x2002 << 112) | (number << 80))
    nat = IPv6Address((0x64FF9B << 96) | number)
    for outer in (mapped, sixtofour, nat):
        assert is_public(str(outer)) == is_public(str(inner))


def test_a_host_is_freed_by_its_name() -> None:
    """A host that the user names may be anywhere; others may not, and the remedy is said."""
    guard = AddressGuard(("localhost", "*.corp.example"))

    guard.check("localhost", ["127.0.0.1"])
    guard.check("WIKI.corp.example", ["10.0.0.7"])
    guard.check("example.org", ["93.184.216.34"])
    with pytest.raises(Unreachable, match=r'web\.privateHosts: \["example\.org"\]'):
        guard.check("example.org", ["93.184.216.34", "10.0.0.7"])
    with pytest.raises(Unreachable):
        guard.check("127.0.0.1", ["127.0.0.1"])
