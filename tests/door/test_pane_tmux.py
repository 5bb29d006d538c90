"""Panes in a real tmux: what the user sees stays, what is ours is found and goes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.errors import BadInput, NotPossibleNow, PaneFailed
from prong.host import LocalHost
from prong.host.pane import PaneMark, PaneSpec, sweep
from prong.host.pane.tmux import TmuxPanes
from prong.host.pane.tmux_server import TmuxServer, placeholder
from shared.running import runs
from shared.tmux import TmuxTerminal, panes_of, terminal

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("M9"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[TmuxTerminal]:
    with terminal(monkeypatch) as found:
        yield found


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(tmp_path)
    yield local
    await local.close()


def waiting(member: str, cwd: Path, *, title: str = "", argv: tuple[str, ...] = ("cat",)):
    """Describe a pane whose program waits."""
    return PaneSpec(member=member, argv=argv, cwd=str(cwd), title=title, colour="cyan")


async def ended(panes: TmuxPanes, pane_id: str):
    """Wait until tmux knows that a pane's program has ended."""
    with anyio.fail_after(50):
        while True:
            [found] = [pane for pane in await panes.panes() if pane.id == pane_id]
            # Its terminal may be gone a moment before the program itself is.
            if found.dead and found.status is not None:
                return found
            await anyio.sleep(0.02)


async def test_a_program_gets_its_words_unharmed(here, host, tmp_path):
    """No argument, variable or folder is read by a shell, by tmux's parser or as a format."""
    folder = tmp_path / "a #(touch evil) #{pane_id};"
    folder.mkdir()
    words = (
        "a b",
        "$HOME",
        "semi;",
        "back\\;",
        "it's",
        '"q"',
        "new\nline",
        "#{pane_id}",
        "",
        "-k",
        ";",
    )
    env = {"PLAIN": "x", "ODD": "a=b $HOME 'q' \"r\" \n;"}
    panes = panes_of(host)
    spec = PaneSpec(member="a", argv=here.teller(*words), cwd=str(folder), env=env)
    opened = await panes.open(spec)
    told = await here.started()
    await panes.close(opened.id)

    assert told["argv"] == list(words)
    assert told["cwd"] == str(folder)
    assert {name: told["env"][name] for name in env} == env
    assert not (folder / "evil").exists()


async def test_a_single_word_is_no_line_of_a_shell(here, host, tmp_path):
    """A program without arguments whose path has spaces and dollars is run as it is."""
    program = tmp_path / "my $(touch evil) program"
    program.write_text(f'#!/bin/sh\necho > "{here.told}.ran"\nexec cat\n')
    program.chmod(0o755)
    panes = panes_of(host)
    opened = await panes.open(waiting("a", tmp_path, argv=(str(program),)))
    with anyio.fail_after(50):
        while not Path(f"{here.told}.ran").exists():
            await anyio.sleep(0.02)
    await panes.close(opened.id)

    assert not list(tmp_path.glob("evil"))


async def test_focus_and_layout_are_as_before(here, host, tmp_path):
    """With two teammates beside the leader the focus stays, and with the last gone all is as it was."""
    here.tmux("split-window", "-t", "user:", "-v", "-l", "15", "--", "cat", "-")
    before, active = here.state, here.ask("user:", "#{pane_id}")
    panes = panes_of(host)
    first = await panes.open(waiting("alice", tmp_path))
    second = await panes.open(waiting("bob", tmp_path))
    between = here.ask("user:", "#{pane_id}")
    windows = {here.ask(pane.id, "#{window_id}") for pane in (first, second)}
    # Left to itself tmux would give the room of ours to whatever is beside it now.
    here.tmux("select-layout", "-t", "user:", "even-vertical")
    await panes.close(first.id)
    await panes.close(second.id)

    assert (first.note, second.note) == ("", "")
    assert windows == {here.ask("user:", "#{window_id}")}
    assert between == active
    assert here.state == before


async def test_a_layout_is_restored_after_a_program_that_ended_by_itself(here, host, tmp_path):
    """A pane is taken away by tmux if its program ended well; closing it then still restores the layout."""
    here.tmux("split-window", "-d", "-t", "user:", "-v", "-l", "15", "--", "cat", "-")
    before = here.state
    panes = panes_of(host)
    opened = await panes.open(waiting("alice", tmp_path, argv=("sh", "-c", "exit 0")))
    with anyio.fail_after(50):
        while await panes.panes():
            await anyio.sleep(0.02)
    await panes.close(opened.id)

    assert here.state == before


async def test_panes_of_the_user_have_their_own_layout(here, host, tmp_path):
    """What the user has opened beside ours in the meantime is left as the user made it."""
    panes = panes_of(host)
    opened = await panes.open(waiting("alice", tmp_path))
    theirs = here.tmux("split-window", "-d", "-t", "user:", "-v", "-P", "-F", "#{pane_id}", "cat -")
    await panes.close(opened.id)

    assert theirs in here.ids()
    assert "@prong" not in here.tmux("show-options", "-w", "-t", "user:")


async def test_a_zoomed_window_stays_zoomed(here, host, tmp_path):
    """Beside a zoomed pane nothing is split, and closing a pane behind one does not end the zoom."""
    here.tmux("split-window", "-d", "-t", "user:", "-v", "--", "cat", "-")
    panes = panes_of(host)
    first = await panes.open(waiting("alice", tmp_path))
    here.tmux("resize-pane", "-Z", "-t", "user:")
    second = await panes.open(waiting("bob", tmp_path))
    await panes.close(first.id)

    assert "zoomed" in second.note
    assert here.ask("user:", "#{window_zoomed_flag}") == "1"


async def test_a_third_teammate_gets_a_window_and_says_so(here, host, tmp_path):
    """Above two a window of its own takes them, without the user being led there."""
    before = here.ask("user:", "#{window_id} #{pane_id}")
    panes = panes_of(host)
    notes = [(await panes.open(waiting(f"m{n}", tmp_path))).note for n in range(4)]
    window = {here.ask(pane.id, "#{window_name}") for pane in (await panes.panes())[2:]}

    assert notes[:2] == ["", ""]
    assert "prong-team" in notes[2]
    assert "2 teammates are beside the leader already" in notes[3]
    assert "prong-team" in window
    assert here.ask("user:", "#{window_id} #{pane_id}") == before
    assert len(here.tmux("list-windows", "-a").splitlines()) == 2
    for pane in await panes.panes():
        await panes.close(pane.id)
    assert len(here.ids()) == 1


async def test_a_setting_asks_for_a_window_at_once(here, host, tmp_path):
    """With no teammate allowed beside the leader the first one has the window."""
    panes = panes_of(host, beside=0)
    opened = await panes.open(waiting("alice", tmp_path))

    assert "as is set" in opened.note
    assert here.ask(opened.id, "#{window_name}") == "prong-team"


@pytest.mark.parametrize("size", ["80x24", "20x5", "3x3"])
async def test_where_there_is_no_room_a_window_is_taken(monkeypatch, host, tmp_path, size):
    """In a small window nothing is split, and the reason is told in one line."""
    with terminal(monkeypatch, size=size) as here:
        before = here.state
        panes = panes_of(host)
        opened = await panes.open(waiting("alice", tmp_path))
        again = await panes.open(waiting("bob", tmp_path))

        assert f"no room beside the leader at {size}" in opened.note
        assert "\n" not in opened.note
        assert here.state == before
        assert len({opened.id, again.id}) == 2


async def test_more_teammates_than_a_window_can_show(monkeypatch, host, tmp_path):
    """A window of ours that is full is followed by another; none of them is too small to be read."""
    with terminal(monkeypatch, size="110x30") as here:
        panes = panes_of(host, beside=0)
        for number in range(6):
            await panes.open(waiting(f"m{number}", tmp_path))
        sizes = here.tmux("list-panes", "-a", "-F", "#{@prong} #{pane_width} #{pane_height}")
        shown = [line.split() for line in sizes.splitlines() if line.startswith("crew/")]

        assert len(shown) == 6
        assert all(int(width) >= 50 and int(height) >= 11 for _, width, height in shown)


@pytest.mark.parametrize(
    "conf",
    [
        "set -g base-index 1\nset -g pane-base-index 1\nset -g renumber-windows on\n",
        "set -g prefix C-a\nunbind C-b\nset -g mouse on\nset -g status off\n",
        "set -g remain-on-exit on\nset -g automatic-rename on\nset -g allow-rename on\n",
        "set -g default-shell /bin/false\n",
        "set -g default-command 'echo noise; exec sh'\n",
        "set -g pane-border-status bottom\nset -g pane-border-format 'x'\n",
        "set-hook -g after-split-window 'select-layout even-horizontal'\n",
        "set -g word-separators ';|'\nset -s escape-time 0\nset -g set-titles on\n",
    ],
)
async def test_the_users_configuration_does_not_matter(monkeypatch, host, tmp_path, conf):
    """Whatever indices, prefix, shell, titles or hooks the user has, a pane opens and closes."""
    with terminal(monkeypatch, conf=conf) as here:
        panes = panes_of(host)
        opened = await panes.open(
            PaneSpec(member="a", argv=here.teller("x"), cwd=str(tmp_path), title="A")
        )
        told = await here.started()
        listed = await panes.panes()
        await panes.close(opened.id)

        assert told["argv"] == ["x"]
        assert [pane.pid for pane in listed] == [told["pid"]]
        assert await panes.panes() == []


async def test_a_bar_in_a_name_of_the_users(here, host, tmp_path):
    """A session's name with the separator of our listing in it does not spoil the listing."""
    here.tmux("rename-session", "-t", "user", "a|b|c")
    panes = panes_of(host)
    opened = await panes.open(waiting("alice", tmp_path, argv=("sh", "-c", "cat | cat")))

    assert [pane.id for pane in await panes.panes()] == [opened.id]


async def test_how_a_program_ended_is_told(here, host, tmp_path):
    """A pane whose program failed or was killed stays, and says how it ended."""
    panes = panes_of(host)
    # Of a program that ends in the moment it starts, tmux itself loses the words now and then.
    argv = ("sh", "-c", "echo last words; until [ -e go ]; do sleep 0.02; done; exit 7")
    failed = await panes.open(waiting("a", tmp_path, argv=argv))
    words = ("capture-pane", "-p", "-S", "-", "-t", failed.id)
    with anyio.fail_after(50):
        while "last words" not in here.tmux(*words):
            await anyio.sleep(0.02)
    (tmp_path / "go").touch()
    first = await ended(panes, failed.id)
    assert "last words" in here.tmux(*words)
    killed = await panes.open(waiting("b", tmp_path, argv=here.teller()))
    told = await here.started()
    os.kill(int(str(told["pid"])), signal.SIGKILL)
    second = await ended(panes, killed.id)

    assert (first.status, first.ending) == (7, "it ended with code 7")
    assert second.ending == "it was killed by SIGKILL"
    assert len(await sweep(panes, keep={"a", "b"})) == 2
    assert await panes.panes() == []


async def test_an_end_that_tmux_has_not_noticed(here, host, tmp_path):
    """Of many programs that end at once, none stays a dead pane of which nobody knows the end.

    tmux overlooks some of them, about one in eight, until another of its children ends.
    """
    panes = panes_of(host)
    for code in (0, 7) * 12:
        argv = ("sh", "-c", f"sleep 0.03; exit {code}")
        opened = await panes.open(waiting("a", tmp_path, argv=argv))
        with anyio.fail_after(50):
            # Its terminal may be gone a moment before the program itself is.
            while (left := await panes.panes()) and left[0].status is None:
                await anyio.sleep(0.02)
        await panes.close(opened.id)

        assert [pane.status for pane in left] == [code] * bool(code)


async def test_a_program_that_ignores_its_terminals_end_is_ended(here, host, tmp_path):
    """Closing a pane ends its program even if it does not care that its terminal is gone."""
    panes = panes_of(host)
    script = f"trap '' HUP TERM; echo $$ > {here.told}.pid; while :; do sleep 1; done"
    opened = await panes.open(waiting("a", tmp_path, argv=("sh", "-c", script)))
    written = Path(f"{here.told}.pid")
    with anyio.fail_after(50):
        while not (written.exists() and written.read_text().strip()):
            await anyio.sleep(0.02)
    pid = int(written.read_text())
    await panes.close(opened.id)
    with anyio.fail_after(50):
        while runs(pid):
            await anyio.sleep(0.02)


async def test_panes_of_a_crash_are_found_by_their_mark(here, host, tmp_path):
    """Another process of the same leader finds its panes and sweeps those it does not know."""
    first = panes_of(host)
    kept = await first.open(waiting("kept", tmp_path))
    await first.open(waiting("lost", tmp_path))
    later = panes_of(host)
    swept = await sweep(later, keep={"kept"})

    assert [pane.member for pane in swept] == ["lost"]
    assert [pane.id for pane in await later.panes()] == [kept.id]


async def test_a_placeholder_of_a_crash_is_found(here, host, tmp_path):
    """A pane whose opener was killed before it carried its mark is known by its command."""
    mark = PaneMark("crew", "s1", "half ö")
    pane = here.tmux(
        "split-window", "-d", "-t", "user:", "-P", "-F", "#{pane_id}", "--", *placeholder(mark)
    )
    panes = panes_of(host)
    swept = await sweep(panes, keep=())

    assert [(one.id, one.member) for one in swept] == [(pane, "half ö")]
    assert pane not in here.ids()


async def test_nothing_of_others_is_touched(here, host, tmp_path):
    """Panes of the user, of another team and of another leader are neither listed nor closed."""
    theirs = here.tmux(
        "split-window", "-d", "-t", "user:", "-P", "-F", "#{pane_id}", "--", "cat", "-"
    )
    others = [
        await panes_of(host, team="other").open(waiting("alice", tmp_path)),
        await panes_of(host, leader="s2").open(waiting("alice", tmp_path)),
    ]
    panes = panes_of(host)
    before = here.ids()
    for pane_id in (theirs, *(one.id for one in others), "%999", "", "user:", "nonsense"):
        await panes.close(pane_id)
        await panes.hide(pane_id)
        await panes.show(pane_id)
        await panes.title(pane_id, "mine")

    assert await sweep(panes, keep=()) == []
    assert here.ids() == before
    assert here.ask(theirs, "#{pane_title}") != "mine"


async def test_a_pane_is_hidden_and_shown(here, host, tmp_path):
    """Hidden, a pane is out of the user's window and runs on; shown, it is back beside the leader."""
    here.tmux("split-window", "-d", "-t", "user:", "-v", "-l", "15", "--", "cat", "-")
    before = here.state
    panes = panes_of(host)
    opened = await panes.open(waiting("alice", tmp_path))
    [pane] = await panes.panes()
    await panes.hide(opened.id)
    hidden, between = await panes.panes(), here.state
    await panes.hide(opened.id)
    await panes.show(opened.id)
    await panes.show(opened.id)
    shown = await panes.panes()
    window = here.ask(opened.id, "#{window_id}")
    await panes.close(opened.id)

    assert [(one.pid, one.hidden, one.dead) for one in hidden] == [(pane.pid, True, False)]
    assert [(one.pid, one.hidden) for one in shown] == [(pane.pid, False)]
    assert between == before
    assert window == here.ask("user:", "#{window_id}")
    assert here.state == before


async def test_a_pane_in_a_window_of_ours_is_hidden_and_shown(here, host, tmp_path):
    """So is one that has a window to itself, where it cannot be taken out of one."""
    panes = panes_of(host, beside=0)
    opened = await panes.open(waiting("alice", tmp_path))
    await panes.hide(opened.id)
    hidden = here.ask(opened.id, "#{window_name}")
    await panes.show(opened.id)

    assert hidden == "prong-hidden"
    assert here.ask(opened.id, "#{window_name}") == "prong-team"
    assert [pane.hidden for pane in await panes.panes()] == [False]


async def test_a_title_is_text(here, host, tmp_path):
    """A title is one line without control characters, and no format in it is run."""
    panes = panes_of(host)
    odd = "al#(touch evil)ice #{pane_id}\x1b[31m;\nx;"
    opened = await panes.open(waiting("alice", tmp_path, title=odd))
    first = here.ask(opened.id, "#{pane_title}")
    await panes.title(opened.id, "second;")

    assert first == "al#(touch evil)ice #{pane_id} [31m; x;"
    assert here.ask(opened.id, "#{pane_title}") == "second;"
    assert here.ask(opened.id, "#{@prong_title}") == "second;"
    assert "fg=cyan" in here.tmux("show-options", "-p", "-t", opened.id)
    assert "fg=cyan" not in here.tmux("show-options", "-w", "-t", opened.id)


async def test_a_server_that_is_killed(here, host, tmp_path):
    """With the server its panes are gone: the list is empty, closing is fine, opening says so."""
    panes = panes_of(host)
    opened = await panes.open(waiting("alice", tmp_path))
    os.kill(int(here.ask("user:", "#{pid}")), signal.SIGKILL)
    with anyio.fail_after(50):
        while await panes.panes():
            await anyio.sleep(0.02)
    await panes.close(opened.id)

    with pytest.raises(PaneFailed, match=r"server is gone.*start tmux again"):
        await panes.open(waiting("bob", tmp_path))


async def test_a_failure_in_the_midst_leaves_nothing(here, host, tmp_path):
    """A pane that could not be given its options is closed again, and the layout is as before."""
    before, ids = here.state, here.ids()
    here.tmux("set-hook", "-g", "after-split-window", "kill-pane -a -t user:")
    panes = panes_of(host)
    with pytest.raises(PaneFailed):
        await panes.open(waiting("alice", tmp_path))

    here.tmux("set-hook", "-gu", "after-split-window")
    assert here.ids() == ids
    assert here.state == before


async def test_a_halted_server_is_told(here, host, tmp_path):
    """A server that does not answer is an error after a while, and no one waits for ever."""
    panes = panes_of(host)
    # As if it had been found: while it answers, nobody knows how long that takes here.
    panes._known = TmuxServer(host, inside=True, seconds=0.5)
    pid = int(here.ask("user:", "#{pid}"))
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(PaneFailed, match=r"did not answer within 0\.5 s"):
            await panes.panes()
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_folder_that_is_not_there(here, host, tmp_path):
    """Instead of somewhere else a program is not started at all."""
    with pytest.raises(NotPossibleNow, match="is not there"):
        await panes_of(host).open(waiting("alice", tmp_path / "none"))
    assert len(here.ids()) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"argv": ()}, {"argv": ("",)}, {"argv": ("a\0",)}, {"cwd": "x"}, {"env": {"A=B": "x"}}],
)
def test_what_no_program_can_be_started_with(wrong: dict[str, object]):
    """Impossible words are refused before anything is opened."""
    good = PaneSpec(member="a", argv=("cat",), cwd="/")
    with pytest.raises(BadInput):
        msgspec.structs.replace(good, **wrong)
