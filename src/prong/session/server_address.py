"""Where an MCP server may lead a user or a login: not in the clear, and not to this machine."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from prong.provider import is_loopback, is_public

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""How the last part of an address in numbers looks, in all the ways that systems read one."""


def may_visit(url: str) -> bool:
    """Whether the user can be asked to visit an address: by https, or on this machine."""
    found = _split(url)
    if found is None or not found.hostname:
        return False
    here = found.scheme == "http" and is_loopback(found.hostname)
    return here or found.scheme == "https"


def may_lead(server: str, url: str) -> bool:
    """Whether a login at a server may go to an address, to which secrets are sent.

    One elsewhere leads to no other place in the clear, and not to this machine.
    """
    own, asked = _split(server), _split(url)
    if own is None or asked is None or not asked.hostname:
        return False
    if (asked.scheme, asked.netloc) == (own.scheme, own.netloc):
        return True
    if is_loopback(own.hostname or "") and is_loopback(asked.hostname):
        return asked.scheme in {"http", "https"}
    return asked.scheme == "https" and not _is_near(asked.hostname)


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or a number that is no public address."""
    name = host.rstrip(".")
    number = ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]) is not None
    return is_loopback(name) or (number and not is_public(name))


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None
