"""Providers that packages bring: found by prefix, loaded when named, and told apart from models."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pytest

from prong import ProngError, UsageError, open_session
from prong.entry import Reply, Usage
from prong.errors import Unreachable
from prong.prompt import Mark, Prompt
from prong.provider import Backend, Http, Providers, Resources, Streamed, Trait, pick
from prong.testing import Server, check_backend, say
from prong.testing.conformance import check_events
from prong.testing.transport import NoTransport
from prong.wire import Began, Ended, Tail, TextPiece, dialect
from prong.wire.chat import reply_of

pytestmark = [pytest.mark.anyio, pytest.mark.door]

ROOT = Path(__file__).parents[2]
Install = Callable[..., None]


def example() -> str:
    """Give the module of docs/local.md."""
    text = (ROOT / "docs/local.md").read_text("utf-8")
    [found] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return found


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages, of which each is a module with an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def add(module: str, code: str, point: str) -> None:
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[prong.providers]\n{point}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return add


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("PRONG_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.spec("L9")
async def test_the_example_of_the_guide_answers(install: Install, home: Path):
    """A session on the back-end of docs/local.md runs, and its model keeps its whole name."""
    install("prong_echo", example(), "echo = prong_echo:EchoBackend")
    async with open_session(model="echo:loud", cwd=str(home)) as session:
        turn = await session.run("Hello there")
        again = await session.run("Once more")
        assert session.model == "echo:loud"

    assert turn.text.endswith("HELLO THERE")
    assert again.text == "ONCE MORE"


def test_the_example_of_the_guide_answers_on_the_command_line(install: Install, home: Path):
    """`prong -p --model echo:quiet` finds the package by itself."""
    install("prong_echo", example(), "echo = prong_echo:EchoBackend")
    path = os.pathsep.join([str(home / "site"), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "prong", "-p", "Hello", "--model", "echo:quiet"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("Hello")


async def test_the_example_of_the_guide_conforms(install: Install):
    """The check of the test kit passes on the example, and closes what it opened."""
    found: dict[str, type[Backend]] = {}
    exec(compile(example(), "local.md", "exec"), found)

    await check_backend(found["EchoBackend"], "loud")


def test_a_prefix_goes_before_a_server_and_only_a_known_one(install: Install):
    """A colon is part of a model's name unless a package brings what stands before it."""
    install("prong_echo", example(), "echo = prong_echo:EchoBackend")
    env = {"PRONG_BASE_URL": "http://127.0.0.1:1/v1"}
    ours, name = pick("echo:loud", env=env)
    theirs, tagged = pick("llama3:8b", env=env)
    whole, plain = pick("chat:echo:loud", env=env)

    assert (ours.backend, ours.dialect, ours.explicit, name) == ("echo", "chat", False, "echo:loud")
    assert (theirs.backend, theirs.base_url, tagged) == ("", "http://127.0.0.1:1/v1", "llama3:8b")
    assert (whole.backend, plain) == ("", "echo:loud")


def test_our_own_engine_is_such_a_back_end():
    """`local` is brought by an entry point of Prong's own package, and can be shown no pictures."""
    from importlib.metadata import entry_points

    [point] = entry_points(group="prong.providers", name="local")
    endpoint, _ = pick("local:x.gguf", env={})

    assert issubclass(point.load(), Backend)
    assert (endpoint.backend, endpoint.images) == ("local", False)


@pytest.mark.parametrize(
    ("code", "point", "said"),
    [
        ("import nothing_of_the_kind", "bad = bad_one:It", "cannot be loaded: ModuleNotFoundError"),
        ("It = 3", "bad = bad_one:It", "is no subclass of prong.provider.Backend"),
        ("", "bad = bad_one:It", "cannot be loaded: AttributeError"),
        (
            "",
            "other = bad_one:It",
            r"no provider 'bad' is installed \(there are bedrock, local, other, vertex\)",
        ),
    ],
)
def test_a_provider_that_cannot_be_used_is_named(
    install: Install, code: str, point: str, said: str
):
    """The error says which provider, of which package, and what to do."""
    install("bad_one", code, point)
    with pytest.raises(UsageError, match=said):
        pick("bad:model", env={})


def test_two_packages_with_one_prefix_are_both_named(install: Install):
    """Nobody guesses which of two was meant."""
    for module in ("echo_one", "echo_two"):
        install(module, example(), f"echo = {module}:EchoBackend")
    with pytest.raises(UsageError, match=r"echo_one.*echo_two.*uninstall all but one"):
        pick("echo:loud", env={})


def test_a_prefix_without_a_model_is_an_error(install: Install):
    """There is nothing to ask."""
    install("prong_echo", example(), "echo = prong_echo:EchoBackend")
    with pytest.raises(UsageError, match="write echo:NAME"):
        pick("echo:", env={})


class Closing(Backend):
    """Counts how often it is opened and closed."""

    opened: list[Closing] = []  # noqa: RUF012 - each test empties it

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self.opened.append(self)
        self.closed = 0

    def connect(self, model: str) -> Broken:
        return Broken(model)

    async def aclose(self) -> None:
        self.closed += 1
        raise OSError("the end of a back-end may fail")


class Broken:
    """A provider with one fault, which its model names."""

    trait = Trait()
    dialect = dialect("chat", explicit=False)

    def __init__(self, model: str) -> None:
        self.name = "" if model == "name" else model

    async def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = Tail(),  # noqa: B008 - a frozen value
        *,
        who: str = "",
        sidecar: str = "",
    ) -> AsyncGenerator[Streamed, None]:
        fault = self.name
        if fault == "early":
            yield TextPiece("a")
        if fault != "unbegun":
            yield Began("1", "m")
        if fault == "twice":
            yield Began("1", "m")
        if fault == "endless":
            return
        reply = reply_of(b'{"role":"assistant","content":"a"}')
        if fault == "foreign":
            reply = Reply(blocks=(), dialect="anthropic", text="a")
        usage = Usage(
            uncached=0 if fault == "uncounted" else 5, output=-1 if fault == "debt" else 1
        )
        yield Ended(reply, usage)
        if fault == "late":
            yield TextPiece("b")


FAULTS = {
    "name": "no name",
    "early": "TextPiece comes before Began",
    "unbegun": "has not begun",
    "twice": "begins twice",
    "endless": "not Ended",
    "foreign": "another dialect",
    "uncounted": "counts no input",
    "debt": "less than nothing",
    "late": "after the end|not Ended",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_check_finds_what_an_agent_could_not_live_with(fault: str):
    """A provider with one fault fails the check, which says what is wrong."""

    class Faulty(Closing):
        async def aclose(self) -> None:
            self.closed += 1

    Closing.opened.clear()
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        await check_backend(Faulty, fault)
    assert [one.closed for one in Closing.opened] == [1]


async def test_no_events_at_all_are_found_too():
    """Silence is no reply, and the test kit's client reaches nobody."""
    with pytest.raises(AssertionError, match="no events"):
        check_events([])
    with pytest.raises(Unreachable):
        NoTransport().request("GET", "http://127.0.0.1")


async def test_a_back_end_is_opened_once_and_closed_with_the_session(
    install: Install, home: Path, monkeypatch: pytest.MonkeyPatch
):
    """All agents share it, it has a folder of its own, and its failing end leaves nothing open."""
    install("closing", "from tests_backend_closing import Closing", "closing = closing:Closing")
    monkeypatch.setitem(sys.modules, "tests_backend_closing", sys.modules[__name__])
    Closing.opened.clear()
    endpoint, model = pick("closing:x", env={})
    http = Http(env={})
    providers = Providers(http, env={"A": "b"}, folder=home / "store")
    async with Server([say("Hi.")]) as server:
        async with http.request("GET", f"{server.url}/v1/models") as response:
            response.settle()
        for _ in range(2):
            providers.connect(endpoint, model)
        with pytest.raises(OSError, match="may fail"):
            await providers.aclose()

    [backend] = Closing.opened
    assert backend.closed == 1
    assert backend.resources.folder == home / "store" / "closing"
    assert backend.resources.env == {"A": "b"}
    assert not http._pools


async def test_a_name_without_a_package_is_an_error_of_the_start(home: Path):
    """A session for a provider that nobody has installed does not open."""
    with pytest.raises(ProngError, match="no provider 'acme' is installed"):
        async with open_session(model="acme:big", cwd=str(home)):
            pass
