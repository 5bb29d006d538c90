"""Panes of WezTerm and iTerm2, for whose programs a recorder stands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prong.errors import NotInstalled, NotPossibleNow, PaneFailed
from prong.host import LocalHost
from prong.testing import ProgramRecorder
from shared.pane import MARK, Bench, maker, program_folder, spec

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("M2")]

ME = "11111111-2222-3333-4444-555555555555"
NEW = "AAAAAAAA-2222-3333-4444-555555555555"
OTHER = "BBBBBBBB-2222-3333-4444-555555555555"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return program_folder(tmp_path, monkeypatch)


@pytest.fixture
async def backend(tmp_path: Path, programs: Path) -> AsyncIterator[Bench]:
    host = LocalHost(tmp_path, home=str(tmp_path / "home"))
    yield maker(host)
    await host.close()


def listing(*panes: tuple[int, int], size: tuple[int, int] = (200, 50)) -> str:
    """Give what `wezterm cli list` prints of panes (number, tab)."""
    columns, rows = size
    return json.dumps(
        [
            {
                "window_id": 0,
                "tab_id": tab,
                "pane_id": number,
                "workspace": "default",
                "size": {"rows": rows, "cols": columns},
                "title": "x",
                "cwd": "file:///",
            }
            for number, tab in panes
        ]
    )


@pytest.fixture
def wezterm(programs: Path, monkeypatch: pytest.MonkeyPatch) -> ProgramRecorder:
    monkeypatch.setenv("WEZTERM_PANE", "3")
    monkeypatch.setenv("WEZTERM_UNIX_SOCKET", "/run/wezterm/gui-sock-77")
    program = ProgramRecorder(programs, "wezterm")
    program.answer("cli", "activate-pane")
    program.answer("cli", "kill-pane")
    return program


async def test_wezterm_opens_beside_the_leader(backend, wezterm):
    """The first pane is to the right of the leader's, the next below it; the focus comes back."""
    wezterm.answer("cli", "list", output=listing((3, 0)))
    wezterm.answer("cli", "list", output=listing((3, 0), (8, 0)))
    wezterm.answer("cli", "split-pane", output="8\n")
    wezterm.answer("cli", "split-pane", output="9\n")
    panes = backend("wezterm")
    first = await panes.open(spec(env={"A": "b c"}))
    second = await panes.open(spec("bob", argv=("prong",)))

    assert (first.id, first.note, second.id) == ("gui-sock-77:8", "", "gui-sock-77:9")
    place = ("cli", "split-pane", "--pane-id", "3", "--right", "--percent", "50", "--cwd", "/")
    words = ("env", "A=b c", "prong", "--member", "crew/alice $x;")
    assert [call.words for call in wezterm.calls][1] == (*place, "--", *words)
    assert wezterm.calls[2].words == ("cli", "activate-pane", "--pane-id", "3")
    assert wezterm.calls[4].words[2:5] == ("--pane-id", "8", "--bottom")
    assert wezterm.calls[4].words[-1] == "prong"


@pytest.mark.parametrize(
    ("size", "beside", "why"),
    [((80, 24), 2, "no room beside the leader at 80x24"), ((200, 50), 0, "0 teammates are beside")],
)
async def test_wezterm_takes_a_tab_where_there_is_no_room(backend, wezterm, size, beside, why):
    """A small tab is not split, nor one with enough teammates; the reason is told."""
    wezterm.answer("cli", "list", output=listing((3, 0), size=size))
    wezterm.answer("cli", "spawn", output="8")
    opened = await backend("wezterm", beside=beside).open(spec())

    assert why in opened.note
    assert wezterm.calls[1].words[:6] == ("cli", "spawn", "--pane-id", "3", "--cwd", "/")


async def test_wezterm_lists_hides_shows_and_closes(backend, wezterm):
    """What was opened is listed while it is there; an id of another WezTerm means nothing."""
    wezterm.answer("cli", "list", output=listing((3, 0)))
    wezterm.answer("cli", "list", output=listing((3, 0), (8, 0)))
    wezterm.answer("cli", "split-pane", output="8")
    wezterm.answer("cli", "move-pane-to-new-tab")
    panes = backend("wezterm")
    opened = await panes.open(spec())
    await panes.show(opened.id)
    await panes.hide(opened.id)
    hidden = await panes.panes()
    await panes.show(opened.id)
    for gone in ("gui-sock-1:8", "8", "", ":8"):
        await panes.close(gone)
    await panes.close(opened.id)
    verbs = [call.words[1:] for call in wezterm.calls if call.words[1] != "list"]

    assert [(pane.member, pane.hidden) for pane in hidden] == [("alice", True)]
    assert verbs[2:] == [
        ("move-pane-to-new-tab", "--pane-id", "8"),
        ("activate-pane", "--pane-id", "3"),
        ("split-pane", "--pane-id", "3", "--right", "--percent", "50", "--move-pane-id", "8"),
        ("activate-pane", "--pane-id", "3"),
        ("kill-pane", "--pane-id", "8"),
    ]
    assert await panes.panes() == []
    with pytest.raises(NotPossibleNow, match="cannot name a pane"):
        await panes.title(opened.id, "x")


async def test_wezterm_leaves_no_pane_if_the_focus_cannot_be_given_back(backend, wezterm):
    """A WezTerm that is too old to give the focus back has its pane closed again."""
    wezterm.forget()
    wezterm.answer("cli", "list", output=listing((3, 0)))
    wezterm.answer("cli", "split-pane", output="8")
    wezterm.answer("cli", "activate-pane", errors="unrecognized subcommand", code=2)
    wezterm.answer("cli", "kill-pane")
    panes = backend("wezterm")
    with pytest.raises(PaneFailed, match="activate-pane failed: unrecognized"):
        await panes.open(spec())

    assert wezterm.calls[-1].words == ("cli", "kill-pane", "--pane-id", "8")
    assert await panes.panes() == []


@pytest.mark.parametrize(
    ("said", "code", "match"),
    [
        ("not json", 0, "no list of panes"),
        ('{"a": 1}', 0, "no list of panes"),
        ('[{"pane_id": "x"}]', 0, "no list of panes"),
        ("", 1, "list failed: code 1"),
        ("[]", 0, "no pane 3"),
    ],
)
async def test_wezterm_that_answers_nonsense(backend, wezterm, said, code, match):
    """Whatever is no list of panes with the leader's in it is a clear error."""
    wezterm.answer("cli", "list", output=said, code=code)
    with pytest.raises((PaneFailed, NotPossibleNow), match=match):
        await backend("wezterm").open(spec())


async def test_outside_of_wezterm(backend, wezterm, monkeypatch):
    """Without a pane of WezTerm's to split it says where to start."""
    monkeypatch.delenv("WEZTERM_PANE")
    with pytest.raises(NotPossibleNow, match="does not run inside WezTerm"):
        await backend("wezterm").open(spec())


@pytest.fixture
def it2(programs: Path, monkeypatch: pytest.MonkeyPatch) -> ProgramRecorder:
    monkeypatch.setenv("ITERM_SESSION_ID", f"w0t0p0:{ME}")
    program = ProgramRecorder(programs, "it2")
    for verb in ("set-var", "set-name", "focus", "close"):
        program.answer("session", verb)
    program.answer("session", "get-var", output="Variable 'user.prong' not set\n")
    return program


def sessions(*ids: str) -> str:
    return json.dumps([{"id": one, "name": "x", "tty": "/dev/ttys001"} for one in ids])


async def test_iterm2_runs_a_program_by_a_profile(backend, it2, tmp_path):
    """Nothing is typed: a profile of its own runs a script, which runs the words unharmed."""
    told = tmp_path / "told"
    script = (
        f"import sys, json, os; json.dump([sys.argv[1:], os.getcwd()], open({str(told)!r}, 'w'))"
    )
    words = ("a b", "$HOME", "it's", 'q"', "new\nline", ";")
    argv = (sys.executable, "-c", script, *words)
    it2.answer("session", "list", output=sessions(ME))
    it2.answer("session", "split", errors="no such profile", code=1)
    it2.answer("session", "split", output=f"Created new pane: {NEW}\n")
    opened = await backend("iterm2").open(spec(argv=argv, cwd=str(tmp_path), env={"A": "b"}))
    calls = [call.words[1:] for call in it2.calls]
    [made] = (tmp_path / "home/.prong/panes").iterdir()
    subprocess.run(["/bin/sh", str(made)], check=True)

    assert opened.id == NEW
    assert calls[2] == calls[3]
    assert calls[2][:5] == ("split", "-v", "-s", ME, "-p")
    assert calls[2][5].startswith("prong-")
    assert calls[4:] == [
        ("set-var", "user.prong", MARK, "-s", NEW),
        ("set-name", "-s", NEW, "--", "Al"),
        ("focus", ME),
    ]
    assert json.loads(told.read_text()) == [list(words), str(tmp_path)]
    assert not made.exists()
    assert not any("run" in words or "send" in words for words in calls)
    assert list((tmp_path / "home").rglob("prong-*.json")) == []


async def test_the_profile_of_iterm2_names_the_script(backend, programs, tmp_path, monkeypatch):
    """While the pane is split the profile is there, as one JSON file that iTerm2 can read."""
    monkeypatch.setenv("ITERM_SESSION_ID", f"w0t0p0:{ME}")
    folder = tmp_path / "home/Library/Application Support/iTerm2/DynamicProfiles"
    seen = tmp_path / "seen.json"
    program = programs / "it2"
    program.write_text(
        f"#!/bin/sh\ncase $2 in list) echo '[]';; split) cat '{folder}'/prong-*.json > {seen}; "
        f"echo Created new pane: {NEW};; esac\n"
    )
    program.chmod(0o755)
    await backend("iterm2").open(spec())
    [profile] = json.loads(seen.read_text())["Profiles"]

    assert profile["Custom Command"] == "Yes"
    assert profile["Command"].startswith(f"/bin/sh {tmp_path}/home/.prong/panes/prong-")
    assert profile["Name"] == profile["Guid"]


async def test_iterm2_lists_names_and_closes_its_own(backend, it2):
    """Only sessions that carry the leader's mark are listed, named or closed."""
    it2.answer("session", "list", output=sessions(ME, NEW, OTHER))
    it2.answer("session", "get-var", "user.prong", "-s", NEW, output=f"{MARK}\n")
    it2.answer("session", "get-var", "user.prong", "-s", OTHER, output="crew/s2/alice\n")
    panes = backend("iterm2")
    listed = await panes.panes()
    for pane_id in (ME, OTHER, "", "active"):
        await panes.close(pane_id)
        await panes.title(pane_id, "x")
    await panes.title(NEW, "new\nname")
    await panes.close(NEW)
    changed = [call.words[1:] for call in it2.calls if call.words[1] not in {"list", "get-var"}]

    assert [(pane.id, pane.member) for pane in listed] == [(NEW, "alice")]
    assert changed == [
        ("set-name", "-s", NEW, "--", "new name"),
        ("close", "-f", "-s", NEW),
    ]
    with pytest.raises(NotPossibleNow, match="cannot hide"):
        await panes.hide(NEW)


async def test_iterm2_splits_the_last_teammate(backend, it2):
    """A second teammate is below the first."""
    it2.answer("session", "list", output=sessions(ME, NEW))
    it2.answer("session", "get-var", "user.prong", "-s", NEW, output=MARK)
    it2.answer("session", "split", output=f"Created new pane: {OTHER}")
    await backend("iterm2").open(spec("bob"))

    [split] = [call.words[1:] for call in it2.calls if call.words[1] == "split"]
    assert split[:3] == ("split", "-s", NEW)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ({"code": 2, "errors": "cannot connect"}, "cannot connect.*Python API on"),
        ({"code": 3, "errors": "not found"}, "not found.*start Prong anew"),
        ({"code": 1, "errors": "no such profile"}, "split failed: no such profile"),
        ({"output": "Something else"}, "gave no pane, but said: 'Something else'"),
    ],
)
async def test_iterm2_that_does_not_split(backend, it2, tmp_path, answer, match):
    """Each way to fail has its remedy, and neither profile nor script stays behind."""
    it2.answer("session", "list", output=sessions(ME))
    it2.answer("session", "split", **answer)
    with pytest.raises(PaneFailed, match=match):
        await backend("iterm2").open(spec())

    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


async def test_iterm2_closes_what_it_cannot_mark(backend, it2):
    """A pane that could not be given its mark would be nobody's, so it is closed again."""
    it2.forget()
    it2.answer("session", "list", output=sessions(ME))
    it2.answer("session", "get-var", output="not set")
    it2.answer("session", "split", output=f"Created new pane: {NEW}")
    it2.answer("session", "set-var", errors="broken", code=1)
    it2.answer("session", "close")
    with pytest.raises(PaneFailed, match="set-var failed: broken"):
        await backend("iterm2").open(spec())

    assert it2.calls[-1].words == ("session", "close", "-f", "-s", NEW)


@pytest.mark.parametrize("value", ["", "w0t0p0:", "nonsense"])
async def test_outside_of_iterm2(backend, it2, monkeypatch, value):
    """Without a session of its own to split, the one that has the focus is not taken instead."""
    monkeypatch.setenv("ITERM_SESSION_ID", value)
    with pytest.raises(NotPossibleNow, match="does not run inside iTerm2"):
        await backend("iterm2").open(spec())
    assert it2.calls == []


@pytest.mark.parametrize("name", ["iterm2", "wezterm", "command"])
async def test_a_program_that_is_not_there(backend, monkeypatch, name):
    """A missing program is told with what to do."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("ITERM_SESSION_ID", ME)
    monkeypatch.setenv("WEZTERM_PANE", "1")
    with pytest.raises(NotInstalled, match=r"is not installed; (install|put|correct)"):
        await backend(name, command=("no-such-program",)).open(spec())
