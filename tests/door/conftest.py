"""A scripted server on the loopback interface, the real program, and folders to work in."""

from __future__ import annotations

import shlex
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSListener

from prong.host import LocalHost
from prong.testing import World
from prong.testing.program import Program
from prong.testing.repository import Repo, make_repo
from shared.workbench import Workbench


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._held = b""

    async def request(self) -> tuple[str, bytes]:
        """Wait for a request; give its head and its body."""
        while b"\r\n\r\n" not in self._held:
            self._held += await self.stream.receive()
        raw, _, rest = self._held.partition(b"\r\n\r\n")
        head = raw.decode("latin-1")
        lengths = [line[15:] for line in head.split("\r\n") if line.startswith("content-length:")]
        length = int(lengths[0]) if lengths else 0
        body = bytearray(rest)
        while len(body) < length:
            body += await self.stream.receive()
        self._held = bytes(body[length:])
        return head, bytes(body[:length])

    def unread(self, data: bytes) -> None:
        """Put back what was read by hand."""
        self._held = data + self._held

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def answer(self, body: bytes, *, status: str = "200 OK", headers: str = "") -> None:
        """Send a whole response."""
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        await self.send(head.encode("latin-1") + body)

    async def wait_gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass


class Server:
    """What a test knows of the server."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.connections = 0


Play = Callable[[Peer, int], Awaitable[None]]


@asynccontextmanager
async def serve(
    play: Play, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[Server, None]:
    """Run `play(peer, number)` for each connection; the connection ends when it returns."""
    listener = await anyio.create_tcp_listener(local_host=host, local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server = Server(port, "https" if tls else "http")
    failure: Exception | None = None

    async def handle(stream: ByteStream) -> None:
        server.connections += 1
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await play(Peer(stream), server.connections)

    async with listener, anyio.create_task_group() as tasks:
        wrapped = TLSListener(listener, tls, standard_compatible=False) if tls else listener
        tasks.start_soon(wrapped.serve, handle)
        try:
            yield server
        except Exception as error:
            # Kept for after the group, which would wrap it.
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


@pytest.fixture(name="serve")
def _serve():
    """Give the context manager that runs a scripted server."""
    return serve


@pytest.fixture
def program() -> Program:
    """Give the real program."""
    return Program()


class Screen:
    """One tmux window of 80 by 40 with the program in it."""

    def __init__(self) -> None:
        self._socket = f"prong-test-{uuid4().hex[:12]}"

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, "-f", "/dev/null", *words],
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-J", "-S", "-200", "-t", "it")

    async def see(self, *wanted: str, seconds: float = 50.0) -> str:
        """Wait until all of it is on the screen."""
        shown = ""
        with anyio.move_on_after(seconds):
            while True:
                shown = self.text()
                if all(text in shown for text in wanted):
                    return shown
                await anyio.sleep(0.05)
        raise AssertionError(f"{wanted} is not on the screen:\n{shown}")

    async def rest(self) -> None:
        """Wait until nothing is being done: an answer is seen before its turn has ended."""
        with anyio.fail_after(50):
            while any(row.startswith("· ") for row in self.rows()):
                await anyio.sleep(0.05)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "it", "-l", text)
        self.tmux("send-keys", "-t", "it", "Enter")

    def key(self, *names: str) -> None:
        self.tmux("send-keys", "-t", "it", *names)

    def put(self, text: str) -> None:
        """Type without Enter."""
        self.tmux("send-keys", "-t", "it", "-l", text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does, bracketed if the program has asked for that."""
        self.tmux("set-buffer", "-b", "held", "--", text)
        self.tmux("paste-buffer", "-p", "-d", "-b", "held", "-t", "it")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))

    def rows(self) -> list[str]:
        """Give what is visible now, row by row as the terminal has it."""
        shown = self.tmux("capture-pane", "-p", "-t", "it").rstrip()
        return [row.rstrip() for row in shown.splitlines()]


Terminal = Callable[..., AbstractAsyncContextManager[Screen]]


@pytest.fixture
def terminal(program: Program) -> Terminal:
    """Give what opens the program in a terminal; a line at the end shows its exit code.

    With `ssh` it runs on the host that this client calls `far`.
    """

    @asynccontextmanager
    async def open_terminal(
        w: World, *words: str, ssh: Path | None = None, **env: str
    ) -> AsyncGenerator[Screen, None]:
        screen = Screen()
        face = {} if "--full" in words else {"PRONG_UI": "line"}
        variables = [f"{k}={v}" for k, v in program.environment(w, **face | env).items()]
        command = shlex.join(["env", *variables, sys.executable, "-m", "prong", *words])
        if ssh is not None:
            command = shlex.join(
                [str(ssh), "-t", "far", f"cd {shlex.quote(str(w.root))}; {command}"]
            )
        shell = f"trap : INT; cd {shlex.quote(str(w.root))}; {command}; echo exit=$?; exec cat"
        screen.tmux("new-session", "-d", "-s", "it", "-x", "80", "-y", "40", "sh", "-c", shell)
        try:
            yield screen
        finally:
            subprocess.run(
                ["tmux", "-L", screen._socket, "kill-server"], check=False, capture_output=True
            )

    return open_terminal


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Give the tools of one agent in an empty project."""
    root = tmp_path / "project"
    root.mkdir()
    return Workbench(root)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Give a git repository whose path is none of the easy ones."""
    return make_repo(tmp_path / "my répo")


@pytest.fixture
async def host(repo: Repo, tmp_path: Path) -> AsyncIterator[LocalHost]:
    """Give the host of an agent in that repository."""
    local = LocalHost(repo.path, home=str(tmp_path))
    yield local
    await local.close()
