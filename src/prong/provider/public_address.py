"""Which addresses a request may go to that somebody else has chosen.

A name is resolved once, every address is looked at, and the very address is connected: a name that
means something else a moment later leads nowhere else. What is not public is a private network,
this machine, or a service that hands out keys to whoever runs on it.
"""

from __future__ import annotations

import asyncio
import socket
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from prong.errors import Unreachable

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

_SERVICES = frozenset({"168.63.129.16"})
"""Public by their number alone: a cloud answers there to its own machines."""
_RESERVED = (
    "0.0.0.0/8",
    "192.0.0.0/24",
    "198.18.0.0/15",
    "64:ff9b:1::/48",
    "fec0::/10",
    "5f00::/16",
)
"""Never public, and not known as such by every version of Python."""
_NAT64 = "64:ff9b::/96"
"""Where networks without IPv4 put its addresses."""


class AddressGuard(msgspec.Struct, frozen=True):
    """Lets requests reach public addresses, and others by name alone."""

    private: tuple[str, ...] = ()
    """Hosts that may be reached wherever they are, such as `localhost` or `*.corp.example`."""

    def frees(self, host: str) -> bool:
        """Whether a host may be reached wherever it is."""
        name = host.lower().rstrip(".")
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.private)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host's name, once.

        Raises:
            Unreachable: one of its addresses may not be reached.
            OSError: the name cannot be resolved.

        """
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        self.check(host, addresses)
        return addresses

    async def check_name(self, host: str, port: int) -> None:
        """Look at what a name means here, before a proxy is asked, which may know another meaning.

        Raises Unreachable.
        """
        try:
            await self.addresses(host, port)
        except OSError:
            # Many who need a proxy cannot resolve public names themselves.
            self.check(host, [host] if _address(host) is not None else [])

    def check(self, host: str, addresses: list[str]) -> None:
        """Demand that all addresses of a host may be reached.

        Raises Unreachable.
        """
        if self.frees(host):
            return
        for address in addresses:
            if not is_public(address):
                named = host if host == address else f"{host} ({address})"
                error = Unreachable(
                    f"{named} is no public address; if it is meant to be reached, the user can "
                    f'name it in the setting web.privateHosts: ["{host}"]'
                )
                error.retryable = False
                raise error


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, however it is wrapped."""
    from ipaddress import ip_network

    address = _address(text)
    if address is None or text in _SERVICES:
        return False
    inner = _wrapped(address)
    if inner is not None:
        return is_public(str(inner))
    reserved = any(address in ip_network(network) for network in _RESERVED)
    return address.is_global and not (address.is_multicast or address.is_reserved or reserved)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    from ipaddress import ip_address

    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _wrapped(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Give the IPv4 address that an IPv6 one leads to."""
    from ipaddress import IPv4Address, IPv6Network

    if address.version == 4:
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in IPv6Network(_NAT64) or int(address) >> 32 == 0:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
