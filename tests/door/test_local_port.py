"""Ports that are kept for servers which have to be told theirs."""

from __future__ import annotations

import socket

import pytest

from prong.testing.local_port import HERE, held_port

pytestmark = pytest.mark.door


@pytest.mark.parametrize("host", [HERE, ""])
@pytest.mark.parametrize("option", [socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_a_held_port_is_a_server_s_who_names_it(host: str, option: int):
    """A server that shares in either of the two ways can listen there, one after the other."""
    with held_port(host) as port:
        for _ in range(2):
            with socket.socket() as server, socket.socket() as client:
                server.setsockopt(socket.SOL_SOCKET, option, 1)
                server.bind((HERE, port))
                server.listen()
                client.connect((HERE, port))


@pytest.mark.parametrize("host", [HERE, ""])
def test_a_held_port_is_nobody_else_s(host: str):
    """Who does not share is refused."""
    with held_port(host) as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HERE, port))
