"""Panes by a command of the user's, by packages, and what of a machine is looked at for them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from prong.errors import BadInput, NotInstalled, NotPossibleNow, PaneFailed, UnknownName
from prong.host import LocalHost
from prong.host.pane import sweep
from prong.host.pane.choice import choose
from prong.host.pane.survey import survey
from prong.testing import ProgramRecorder
from shared.pane import MARK, Bench, maker, program_folder, spec

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("M2")]

ME = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return program_folder(tmp_path, monkeypatch)


@pytest.fixture
async def backend(tmp_path: Path, programs: Path) -> AsyncIterator[Bench]:
    host = LocalHost(tmp_path, home=str(tmp_path / "home"))
    yield maker(host)
    await host.close()


KEEPER = """
import json, pathlib, sys
asked = json.load(sys.stdin)
store = pathlib.Path(sys.argv[1])
kept = json.loads(store.read_text()) if store.exists() else {}
verb, answer = asked["verb"], {}
if verb == "open":
    answer = {"id": str(len(kept) + 1), "note": "opened\\nthere"}
    kept[answer["id"]] = asked
elif verb == "list":
    answer = {"panes": [{"id": i, "mark": one["mark"], "pid": 5} for i, one in kept.items()]}
elif verb == "close":
    del kept[asked["id"]]
elif verb == "title":
    kept[asked["id"]]["title"] = asked["title"]
else:
    answer = {"error": "no such verb: " + verb}
store.write_text(json.dumps(kept))
print(json.dumps(answer))
"""


async def test_a_command_of_the_users(backend, tmp_path):
    """A program with the four verbs opens, lists, names and closes panes."""
    store = tmp_path / "store.json"
    command = (sys.executable, "-c", KEEPER, str(store))
    panes = backend("command", command=command)
    opened = await panes.open(spec(colour="pink", env={"A": "b"}))
    asked = json.loads(store.read_text())["1"]
    await panes.title("1", "second")
    title = json.loads(store.read_text())["1"]["title"]
    listed = await panes.panes()

    assert (opened.id, opened.note) == ("1", "opened there")
    assert asked == {
        "v": 1,
        "verb": "open",
        "mark": MARK,
        "team": "crew",
        "leader": "s1",
        "member": "alice",
        "title": "Al",
        "colour": "pink",
        "argv": ["prong", "--member", "crew/alice $x;"],
        "cwd": "/",
        "env": {"A": "b"},
    }
    assert title == "second"
    assert [(pane.id, pane.member, pane.pid) for pane in listed] == [("1", "alice", 5)]
    with pytest.raises(PaneFailed, match="refused 'hide': no such verb: hide"):
        await panes.hide("1")
    assert len(await sweep(panes, keep=())) == 1
    await panes.close("1")
    assert await panes.panes() == []


async def test_a_command_is_not_asked_to_close_what_is_not_ours(backend, programs):
    """A pane whose mark is another leader's is neither listed nor closed."""
    program = ProgramRecorder(programs, "my-panes")
    other = {"id": "1", "mark": "crew/s2/alice"}
    program.answer(output=json.dumps({"panes": [other, {"id": "2", "mark": "no mark"}]}))
    panes = backend("command", command=("my-panes",))
    for pane_id in ("1", "2", "3"):
        await panes.close(pane_id)

    assert {json.loads(call.stdin)["verb"] for call in program.calls} == {"list"}


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ({"output": ""}, "something else than the JSON"),
        ({"output": "hello"}, "something else than the JSON.*hello"),
        ({"output": "[1]"}, "something else than the JSON"),
        ({"output": "{}"}, "something else than the JSON"),
        ({"output": '{"id": 3}'}, "something else than the JSON"),
        ({"output": '{"id": ""}'}, "empty id"),
        ({"output": '{"id": "1"} trailing'}, "something else than the JSON"),
        ({"output": '{"error": "no room"}'}, "refused 'open': no room"),
        ({"output": '{"id": "1"}', "errors": "broke\x1b[31m down", "code": 3}, r"broke \[31m down"),
        ({"output": "x" * (2 << 20)}, "more than 1048576 bytes"),
        ({"output": '{"id": "1"}', "seconds": 60}, "did not answer within 0.5 s"),
    ],
)
async def test_a_command_that_answers_nonsense(backend, programs, answer, match):
    """Garbage, refusals, failures and silence are each a clear error, in the program's own words."""
    program = ProgramRecorder(programs, "my-panes")
    program.answer(**answer)
    patience = 0.5 if "seconds" in answer else 30
    with pytest.raises(PaneFailed, match=match):
        await backend("command", command=("my-panes",), seconds=patience).open(spec())


@pytest.mark.parametrize("command", [(), ("",)])
async def test_no_command_is_set(backend, command):
    """Without a program the setting is named."""
    with pytest.raises(BadInput, match=r'"team": \{"command"'):
        backend("command", command=command)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install packages, of which each is a module with an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def add(module: str, code: str, point: str) -> None:
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[prong.backends]\n{point}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return add


PACKAGE = """
from prong.host.pane import OpenedPane, PaneBackend

class Mine(PaneBackend):
    name = "mine"
    async def open(self, spec):
        return OpenedPane("1", spec.member)
    async def panes(self):
        return []
    async def title(self, pane_id, text): ...
    async def close(self, pane_id): ...
"""


async def test_a_package_brings_a_back_end(backend, install, tmp_path):
    """It is loaded when it is named, and a broken one beside it does not matter."""
    install("my_panes", PACKAGE, "mine = my_panes:Mine")
    install("bad_panes", "raise RuntimeError('broken')", "bad = bad_panes:Mine")
    facts = await survey(LocalHost(tmp_path), interactive=True)
    panes = backend("mine")

    assert set(facts.packages) == {"mine", "bad"}
    assert (await panes.open(spec())).note == "alice"
    assert choose(facts, "mine").name == "mine"
    assert "bad_panes" not in sys.modules
    with pytest.raises(NotPossibleNow, match="mine cannot hide panes"):
        await panes.hide("1")


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("raise RuntimeError('broken')", "cannot be loaded: RuntimeError"),
        ("Mine = 3", "is no subclass of"),
        ("class Mine: ...", "is no subclass of"),
        ("", "cannot be loaded"),
        (
            "from prong.host.pane import PaneBackend\nclass Mine(PaneBackend): ...",
            "cannot be set up",
        ),
    ],
)
async def test_a_package_that_is_broken(backend, install, code, match):
    """Whatever is wrong with a package, the error names it and what to do."""
    install("bad_panes", code, "mine = bad_panes:Mine")
    with pytest.raises(NotInstalled, match=match) as caught:
        backend("mine")
    assert "bad_panes" in str(caught.value)
    assert "uninstall" in str(caught.value)


async def test_two_packages_of_one_name(backend, install):
    """Which of two is meant is for the user to say."""
    install("one_panes", PACKAGE, "mine = one_panes:Mine")
    install("two_panes", PACKAGE, "mine = two_panes:Mine")
    with pytest.raises(NotInstalled, match="several packages"):
        backend("mine")


@pytest.mark.parametrize("name", ["in-process", "kitty", "", "auto"])
async def test_a_name_that_opens_no_panes(backend, name):
    """What is no back-end for panes is refused."""
    with pytest.raises(UnknownName, match="that opens panes"):
        backend(name)


@pytest.mark.spec("M3")
async def test_the_surroundings_are_looked_at(programs, tmp_path, monkeypatch):
    """Programs on the path and variables of terminals are found, left-over ones are not believed."""
    host = LocalHost(tmp_path)
    ProgramRecorder(programs, "tmux").answer("-V", output="tmux 3.4\n")
    bare = await survey(host, interactive=True)
    ProgramRecorder(programs, "it2")
    ProgramRecorder(programs, "wezterm")
    monkeypatch.setenv("ITERM_SESSION_ID", ME)
    monkeypatch.setenv("WEZTERM_PANE", "3")
    monkeypatch.setenv("TMUX", "/nowhere,1,0")
    full = await survey(host, interactive=False, command=("x",))
    monkeypatch.setenv("TERM_PROGRAM", "vscode")
    editor = await survey(host, interactive=True)

    assert (bare.tmux, bare.inside, bare.it2, bare.wezterm) == ("3.4", frozenset(), False, False)
    assert (full.it2, full.wezterm, full.command) == (True, True, True)
    assert full.inside == {"iterm2", "wezterm"}
    assert editor.inside == frozenset()


@pytest.mark.spec("M3")
async def test_an_old_tmux_is_seen_by_the_survey(programs, tmp_path):
    """Its version and the remedy are in the facts, and so in the list of back-ends."""
    ProgramRecorder(programs, "tmux").answer("-V", output="tmux 2.9\n")
    facts = await survey(LocalHost(tmp_path), interactive=True)

    assert facts.tmux == ""
    assert "tmux 2.9 is too old" in facts.no_tmux
    with pytest.raises(NotInstalled, match=r"tmux 2\.9 is too old.*in-process"):
        choose(facts)
