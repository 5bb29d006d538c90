"""What packages bring: loaded in one way, named with their package, part of the head in one order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from prong import UsageError, tool
from prong.agent.spec import AgentType
from prong.extension import GROUPS, find_extension, installed
from prong.host.launcher import ANYWHERE, WORKER, WorkerPlace
from prong.host.pane import OpenedPane, Pane, PaneBackend, PaneSpec
from prong.host.target import RemoteTarget
from prong.session import diagnose
from prong.testing import (
    Script,
    Worlds,
    call,
    check_agent_type,
    check_launcher,
    check_package,
    check_pane_backend,
    check_tool,
    forks,
    report,
    say,
)

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("B7")]

ROOT = Path(__file__).parents[2]
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages, of which each is a module with one entry point."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def add(module: str, code: str, group: str, point: str) -> None:
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[prong.{group}]\n{point}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return add


def function(name: str, text: str = "x") -> str:
    """Write a module with one function."""
    return f'def {name}(text: str) -> str:\n    """Say {text}."""\n    return text + "{text}"\n'


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example package as a user would, into a folder of its own."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"),
            *("--no-index", "--disable-pip-version-check"),
            *("--target", str(site), str(ROOT / "examples/package")),
        ],
        check=True,
        capture_output=True,
    )
    return site


def run(example: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the example installed."""
    path = os.pathsep.join([str(example), str(ROOT / "src")])
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**kept, "HOME": str(folder), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(240)
def test_the_example_conforms(example: Path, tmp_path: Path):
    """The package of examples/ installs, and passes the tests that it shows."""
    tests = str(ROOT / "examples/package/tests")
    options = ("-q", "-p", "anyio", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tests)
    done = run(example, tmp_path, "-m", "pytest", *options, tests)

    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


@pytest.mark.timeout(240)
def test_a_session_has_what_the_example_brings(example: Path, tmp_path: Path):
    """The command line finds the provider, and doctor names each part with its package."""
    said = run(example, tmp_path, "-m", "prong", "-p", "hello", "--model", "echo:loud")
    doctor = run(example, tmp_path, "-m", "prong", "doctor", "--json")

    assert (said.stdout, said.returncode) == ("HELLO\n", 0), said.stderr
    found = [one for one in json.loads(doctor.stdout) if "prong-example" in one["topic"]]
    assert [(one["topic"], one["state"]) for one in found] == [
        ("package prong-example 1.0", "good")
    ] * 5
    assert "brings the tools 'text' (prong_example.tools:TOOLS of prong-example)" in {
        one["text"] for one in found
    }


@pytest.mark.timeout(240)
@pytest.mark.parametrize("folder", ["project", "linked"])
def test_a_project_brings_no_packages(example: Path, tmp_path: Path, folder: str):
    """What lies in the working folder like an installed package is not, though Python could import it."""
    (tmp_path / "project").mkdir()
    (tmp_path / "linked").symlink_to("project")
    info = tmp_path / "project" / "evil-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\nevil = evil:it\n" for group in GROUPS)
    )
    (tmp_path / "project" / "evil.py").write_text("open('ran', 'w')\nit = 3\n")
    done = run(example, tmp_path / folder, "-m", "prong", "doctor", "--json")
    run(example, tmp_path / folder, "-m", "prong", "-p", "hello", "--model", "echo:loud")

    assert "prong-example" in done.stdout
    assert "evil" not in done.stdout
    assert not (tmp_path / "project" / "ran").exists()


async def test_tools_of_packages_are_in_the_head_by_name(install: Install, world: Worlds):
    """Whatever the order of installation, heads have them sorted, and forks share them to the byte."""
    install("pkg_z", function("zebra"), "tools", "a = pkg_z:zebra")
    install("pkg_a", function("ant"), "tools", "z = pkg_a:ant")

    @tool(read_only=True)
    def middle(text: str) -> str:
        """Say the middle."""
        return text

    script = Script(
        [call("zebra", {"text": "y"}), forks("look"), say("W."), say("D.")],
        {"look": [call("ant", {"text": "f"}), report("done")]},
    )
    async with world(script, tools=[middle], allow=("zebra", "ant")) as w:
        await w.session.run("Go.")
        names = [one["name"] for one in w.bodies()[0]["tools"]]
        heads = {msgspec.json.encode(body["tools"]) for body in w.bodies()}

    assert names[-3:] == ["ant", "middle", "zebra"]
    assert len(heads) == 1
    results = [json.dumps(body["messages"]) for body in w.bodies()]
    assert any("yx" in one for one in results)
    assert any("fx" in one for one in results)


async def test_names_choose_among_them(install: Install, world: Worlds):
    """`tools=["ant"]` means that one, `tools=[]` none, and `bare` knows no packages."""
    install("pkg_a", function("ant"), "tools", "a = pkg_a:ant")
    install("pkg_b", function("bee"), "tools", "b = pkg_b:bee")
    async with world(opens=False) as w:
        async with w.open(tools=["ant", "Read"]):
            assert w.started.tools == ("Read", "ant")
        async with w.open(tools=[]):
            assert w.started.tools == ()
        async with w.open(bare=True):
            assert "ant" not in w.started.tools


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_the_kind", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit"),
        ("it = 3", "are none: 'int' object is not iterable"),
        ("def it(x): ...", "without a type hint"),
        ("def Bash(x: int) -> str: ...\nit = Bash", "is the name of another tool"),
    ],
)
async def test_broken_tools_are_named_and_stop_nobody(
    install: Install, world: Worlds, code: str, said: str
):
    """The session starts and says whose they are; asked for by name, they are an error."""
    install("bad_pkg", code, "tools", "it = bad_pkg:it")
    install("pkg_a", function("ant"), "tools", "a = pkg_a:ant")
    async with world([say("Hi.")]) as w:
        turn = await w.session.run("Hello?")
        assert turn.text == "Hi."
        assert "ant" in w.started.tools
        [warning] = [one for one in w.warnings if "bad_pkg" in one]
        assert "the tools 'it' (bad_pkg:it of bad_pkg)" in warning
        assert said in warning
        with pytest.raises(UsageError, match=r"there is no tool it; .*of bad_pkg"):
            async with w.open(tools=["it"]):
                pass


async def test_one_name_is_nobodys_guess(install: Install, world: Worlds):
    """Of two packages' tools of one name neither is there; a caller's own goes before a package's."""
    install("pkg_a", function("ant"), "tools", "a = pkg_a:ant")
    install("pkg_b", function("ant"), "tools", "b = pkg_b:ant")
    install("pkg_c", function("cat"), "tools", "c = pkg_c:cat")

    def cat(text: str) -> str:
        """Say it as I would."""
        return text

    async with world(tools=[cat]) as w:
        assert "ant" not in w.started.tools
        assert w.started.tools.count("cat") == 1
        said = "\n".join(w.warnings)

    assert "the tool ant of the tools 'a' (pkg_a:ant of pkg_a) is left out" in said
    assert "the tool ant of the tools 'b' (pkg_b:ant of pkg_b) is left out" in said
    assert "the caller has given a function of its name" in said


async def test_rules_know_them_by_name(install: Install, world: Worlds):
    """A package's tool is asked for like any other, and a rule that names it is no slip."""
    install("pkg_a", function("ant"), "tools", "a = pkg_a:ant")
    async with world([call("ant", {"text": "y"}), say("Done.")], deny=("ant",)) as w:
        await w.session.run("Go.")
        assert not [one for one in w.warnings if "ant" in one]

    assert "ant is forbidden" in json.dumps(w.bodies()[-1]["messages"])


def test_every_group_is_loaded_in_one_way(install: Install, tmp_path: Path):
    """Doctor loads all five, and names each that is broken with its package; two of a name are told."""
    groups = [group.removeprefix("prong.") for group in GROUPS]
    for group in groups:
        install(f"bad_{group}", "raise RuntimeError('broken')", group, f"it = bad_{group}:It")
        install(f"odd_{group}", "It = 3", group, f"odd = odd_{group}:It")
    found = {one.topic: one for one in diagnose(str(tmp_path))}
    assert all(map(installed, GROUPS))
    for group in groups:
        for kind in ("bad", "odd"):
            one = found[f"package {kind}_{group} 1"]
            assert one.state == "broken"
            assert f"of {kind}_{group})" in one.text
            assert "update or uninstall that package" in one.text
    install("more", "", "launchers", "it = more:It")
    with pytest.raises(UsageError, match=r"the launcher 'it' is brought by several packages"):
        find_extension("prong.launchers", "it")


def test_what_is_installed_while_a_program_runs_is_found(install: Install, tmp_path: Path):
    """What was looked up before is looked up again once something has changed."""
    # A file system's clock is coarse: what was made a moment ago could be of the same time.
    os.utime(tmp_path / "site", (0, 0))
    assert not [one for one in installed("prong.tools") if one.package == "late"]
    install("late", function("late"), "tools", "late = late:late")

    assert [one.name for one in installed("prong.tools") if one.package == "late"] == ["late"]


class Panes(PaneBackend):
    """A back-end with one fault, which its name says."""

    name = ""
    open_panes: dict[str, str] = {}  # noqa: RUF012 - each test empties it

    async def open(self, spec: PaneSpec) -> OpenedPane:
        if self.name != "forgets":
            self.open_panes["1"] = self.setup.mark(spec.member).text
        return OpenedPane("" if self.name == "nameless" else "1")

    async def panes(self) -> list[Pane]:
        members = {key: self.setup.member(mark) for key, mark in self.open_panes.items()}
        if self.name == "sees all":
            return [Pane(id=key, member="alice") for key in members]
        dead = self.name == "dead"
        return [Pane(id=key, member=one, dead=dead) for key, one in members.items() if one]

    async def title(self, pane_id: str, text: str) -> None:
        assert self.name != "strict" or pane_id in self.open_panes, "no such pane"

    async def close(self, pane_id: str) -> None:
        if self.name == "closes all" or any(one.id == pane_id for one in await self.panes()):
            self.open_panes.pop(pane_id, None)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fine", ""),
        ("forgets", "not enough values"),
        ("nameless", "has no id"),
        ("sees all", "another leader sees it"),
        ("closes all", "another leader can close it"),
        ("dead", "does not run"),
        ("strict", "no such pane"),
    ],
)
async def test_the_check_of_panes_finds_what_a_leader_could_not_live_with(fault: str, said: str):
    """A back-end with one fault fails the check."""
    Panes.open_panes.clear()
    kind = type("Faulty", (Panes,), {"name": fault})
    if not said:
        await check_pane_backend(kind)
        return
    with pytest.raises((AssertionError, ValueError), match=said):
        await check_pane_backend(kind)


class Launches:
    """A launcher with a line of its own."""

    def __init__(self, *words: str, folder: str = "~/x") -> None:
        self._words, self._folder = words, folder

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        return self._words

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        return "look there"

    def folder(self, target: RemoteTarget) -> str:
        return self._folder

    def is_cut(self, code: int) -> bool:
        return False


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (Launches(sys.executable, *WORKER), ""),
        (Launches(), "empty"),
        (Launches("false"), "no worker answers"),
        (Launches(sys.executable, *WORKER, folder=""), "no folder"),
    ],
)
async def test_the_check_of_launchers_finds_what_starts_no_worker(launcher: Launches, said: str):
    """A launcher with one fault fails the check."""
    target = RemoteTarget(launcher="mine")
    if not said:
        await check_launcher(launcher, target)
        return
    with pytest.raises(AssertionError, match=said):
        await check_launcher(launcher, target)


async def test_the_check_of_tools_and_types_finds_what_no_model_could_use():
    """A function that says nothing or raises fails the check, and so does a type that cannot start."""

    def silent(x: int) -> str:
        return str(x)

    def fails(x: int) -> str:
        """Fail."""
        raise ValueError(f"no {x}")

    with pytest.raises(AssertionError, match="no docstring"):
        await check_tool(silent)
    with pytest.raises(AssertionError, match="no 3"):
        await check_tool(fails, {"x": 3})
    assert await check_tool(fails) == ""
    with pytest.raises(AssertionError, match="no session opens with the type x"):
        await check_agent_type(AgentType(name="x", description="", prompt="p"))
    with pytest.raises(AssertionError, match="is not installed here"):
        check_package("no-such-package")


def test_a_package_that_cannot_be_loaded_fails_its_own_check(install: Install):
    """`check_package` says what doctor would."""
    install("bad_pkg", "It = 3", "providers", "bad = bad_pkg:It")
    with pytest.raises(AssertionError, match=r"is no subclass of prong\.provider\.Backend"):
        check_package("bad_pkg")


@pytest.mark.parametrize(
    "module", ["provider.backend", "host.launcher", "host.pane.factory", "config.agents"]
)
def test_nobody_reads_entry_points_but_one(module: str):
    """There is one road to what packages bring."""
    found = import_module(f"prong.{module}")

    assert "entry_points" not in Path(found.__file__ or "").read_text()
