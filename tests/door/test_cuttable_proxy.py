"""A line that can be cut, between a client and a server that says everything back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from prong.testing.cuttable_proxy import CuttableProxy, cuttable_proxy

pytestmark = [pytest.mark.door, pytest.mark.spec("R3")]


def echo(listens: socket.socket) -> None:
    with suppress(OSError):
        while True:
            client, _ = listens.accept()
            with client:
                while data := client.recv(100):
                    client.sendall(data)


@pytest.fixture
def proxy() -> Iterator[CuttableProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        serving = threading.Thread(target=echo, args=(listens,))
        serving.start()
        with cuttable_proxy(*listens.getsockname()) as made:
            yield made
        listens.shutdown(socket.SHUT_RDWR)
        serving.join()


def connect(proxy: CuttableProxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port))
    client.settimeout(50)
    return client


def test_a_silent_cut_is_a_pause(proxy: CuttableProxy) -> None:
    """What is said meanwhile arrives when the line is back, on the connection that there was."""
    with connect(proxy) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"one"
        proxy.cut(silent=True)
        client.sendall(b"two")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        proxy.restore()
        client.settimeout(50)
        assert client.recv(100) == b"two"


@pytest.mark.parametrize("silent", [True, False])
def test_a_line_that_is_cut_is_cut_when_that_is_said(proxy: CuttableProxy, *, silent: bool) -> None:
    """Right behind a cut nobody gets in, and right behind that the line can be restored."""
    for _ in range(50):
        proxy.cut(silent=silent)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.cut(silent=silent)
        proxy.restore()


def test_nobody_is_let_in_by_a_line_that_is_cut(proxy: CuttableProxy) -> None:
    """Whoever comes is refused, also while the cut is silent, and let in once it is back."""
    proxy.cut(silent=True)
    proxy.cut(silent=True)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.restore()
    proxy.restore()
    with connect(proxy) as client:
        client.sendall(b"one")
        assert heard(client) == b"one"


def heard(client: socket.socket) -> bytes:
    """Give what comes next; nothing if the connection is broken, however that is said."""
    try:
        return client.recv(100)
    except ConnectionError:
        return b""


def test_a_cut_that_breaks(proxy: CuttableProxy) -> None:
    """What is connected breaks, and a new connection gets through later."""
    with connect(proxy) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"one"
        proxy.cut(silent=False)
        assert heard(client) == b""
    proxy.restore()
    with connect(proxy) as client:
        client.sendall(b"two")
        assert heard(client) == b"two"
