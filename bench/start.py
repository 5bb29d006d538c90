"""From the start of the process to an answer, or to the first byte of a request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Row, under

ROUNDS = 20
ENTRY = "import sys; from prong.face.cli import main; sys.exit(main())"


def environment(folder: str) -> dict[str, str]:
    env = dict(os.environ, HOME=folder, PRONG_HOME=f"{folder}/prong", ANTHROPIC_API_KEY="none")
    # As an installed program runs: with its bytecode kept, and past no proxy.
    for name in list(env):
        if name == "PYTHONDONTWRITEBYTECODE" or name.lower().endswith("_proxy"):
            del env[name]
    return env


def _ended(argv: list[str], env: dict[str, str]) -> float:
    start = time.monotonic()
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def first_byte(argv: list[str], env: dict[str, str], folder: str) -> float:
    """Give the seconds until a bare socket has the first byte of the request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        start = time.monotonic()
        with subprocess.Popen(
            [*argv, "--base-url", url],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1) == b"P"
                taken = time.monotonic() - start
                process.kill()
    return taken


def first_answer(argv: list[str], env: dict[str, str], folder: str) -> float:
    """Give the seconds until an editor has its first answer."""
    params = {"protocolVersion": 1, "clientCapabilities": {}}
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    start = time.monotonic()
    with subprocess.Popen(
        argv, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        taken = time.monotonic() - start
        process.stdin.close()
    return taken


def rows() -> Iterator[Row]:
    script = Path(sys.executable).with_name("prong")
    prong = [str(script)] if script.exists() else [sys.executable, "-c", ENTRY]
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        ask = [*prong, "-p", "hello", "--model", "claude-sonnet-5-5"]
        works: list[Callable[[], float]] = [
            lambda: _ended([sys.executable, "-c", "pass"], env),
            lambda: _ended([*prong, "--version"], env),
            lambda: first_byte(ask, env, folder),
            lambda: first_answer([*prong, "acp"], env, folder),
        ]
        for work in works:
            work()
        times = [[work() for work in works] for _ in range(ROUNDS)]
    python, version, request, editor = ([each[i] * 1e3 for each in times] for i in range(4))
    for what, bar, taken in (
        ("prong --version, against python -c pass", 5, version),
        ("prong -p to the first byte sent, against python -c pass", 15, request),
    ):
        detail = f"best of {ROUNDS}: {min(taken):.0f} ms to {min(python):.0f} ms"
        yield under(what, min(taken) / min(python), bar, detail)
    detail = f"best of {ROUNDS}; in the middle {sorted(editor)[ROUNDS // 2]:.0f} ms"
    yield under("prong acp to the first answer", min(editor), 300, detail, " ms")
