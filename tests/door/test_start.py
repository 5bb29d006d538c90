"""What happens between the start of the program and the first byte of its first request."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from prong.face.cli import main

# Everything is looked at when the connection is made, by the interpreter's own audit events.
_CHILD = """
import gc, os, sys
seen = set()
gc.callbacks.append(lambda *_: "prong.config.option" in sys.modules and seen.add("collected"))
def watch(event, args):
    seen.add(event)
    if event == "socket.connect":
        os.write(1, " ".join([*sys.modules, "/", *seen]).encode())
        os._exit(0)
sys.addaudithook(watch)
from prong.face.cli import main
main(["-p", "hello", "--model", "claude-sonnet-5-5", "--base-url", "http://127.0.0.1:9"])
"""

HEAVY = {
    "email",
    "filelock",
    "genai_prices",
    "http.client",
    "importlib.metadata",
    "json",
    "jsonschema",
    "markdown_it",
    "mcp",
    "opentelemetry",
    "pydantic",
    "pygments",
    "rich",
    "shlex",
    "shutil",
    "tempfile",
    "textual",
    "tree_sitter",
    "urllib.request",
    "yaml",
    "prong.face.draw",
    "prong.mail",
    "prong.team.leader",
    "prong.provider.failure",
    "prong.session.mcp_server",
    "prong.telemetry",
    "prong.testing",
    "prong.timeline",
    "prong.tools.running",
    "prong.wire.chat",
    "prong.wire.responses",
}
"""Modules that a first request has no use for, each of which would delay it."""


@pytest.fixture
def start(tmp_path: Path) -> tuple[set[str], set[str]]:
    """Give the modules loaded and the audit events seen when the first connection is made."""
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env |= {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "none"}
    # What exports spans is loaded once the first request is on its way.
    env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    for name in ("PRONG_HOME", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    modules, _, events = done.stdout.decode().partition(" / ")
    return set(modules.split(" ")), set(events.split(" "))


def test_a_first_request_loads_only_what_it_needs(start: tuple[set[str], set[str]]) -> None:
    """`prong -p` has loaded no heavy module when it connects."""
    modules, _ = start
    assert "prong.session.opening" in modules
    assert not HEAVY & modules


def test_nothing_is_waited_for_before_the_first_request(
    start: tuple[set[str], set[str]],
) -> None:
    """No process is started and no name is looked up before `prong -p` connects."""
    _, events = start
    assert not events & {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.getaddrinfo"}


def test_no_garbage_is_looked_for_before_the_first_request(
    start: tuple[set[str], set[str]],
) -> None:
    """Nothing is collected while everything is loaded, after the command line is known."""
    _, events = start
    assert "collected" not in events


@pytest.mark.parametrize("words", [["--no-such-option"], ["-p", "x", "--cwd", "/no/such"]])
def test_garbage_is_looked_for_after_a_start_that_failed(words: list[str]) -> None:
    """However the command line ends, a program that has called it collects as before."""
    with suppress(SystemExit):
        main(words)
    assert gc.isenabled()


def test_the_version_needs_next_to_nothing() -> None:
    """`prong --version` loads neither the event loop nor the argument parser."""
    code = "import sys; from prong.face.cli import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not {"asyncio", "msgspec", "argparse", "anyio"} & set(done.stdout.split())


_LOOK = """
import json, sys
from prong.face.cli import main
code = main(["sessions"])
print(json.dumps([code, sorted(sys.modules)]))
"""


def test_a_list_of_sessions_loads_nothing_that_opens_one(tmp_path: Path) -> None:
    """Whoever only asks what is stored does not wait for agents, tools and settings."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PRONG_HOME": str(tmp_path / "store")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    code, modules = json.loads(done.stdout)
    assert code == 0
    packages = {".".join(name.split(".")[:2]) for name in modules if name.startswith("prong.")}
    assert not packages & {"prong.team", "prong.agent", "prong.tools", "prong.config"}
    assert "prong.session.opening" not in modules
