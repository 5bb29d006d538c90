"""Ports of this machine for servers that have to be told theirs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager

HERE = "127.0.0.1"


def free_port() -> int:
    """Give a port at which nobody listens now; another may be given it before it is used."""
    with socket.socket() as found:
        found.bind((HERE, 0))
        return int(found.getsockname()[1])


@contextmanager
def held_port(host: str = HERE) -> Generator[int]:
    """Keep a port that the system gives to nobody else, also while nobody listens there.

    Whoever names it can listen there, if it sets SO_REUSEADDR as servers do, or SO_REUSEPORT as
    the user who holds it; that is so on Linux. An empty host holds it at all addresses.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform != "win32":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((host, 0))
        yield int(held.getsockname()[1])
