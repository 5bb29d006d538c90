from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost import Charge
from prong.entry import Reply, Usage, user_text
from prong.errors import JournalDamaged, NoSuchSession, UsageError
from prong.event import MAIN
from prong.journal import store
from prong.journal.branch import branch
from prong.journal.note import Titled
from prong.journal.record import Opened
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.journal.writer import Journal
from prong.prompt import Head, Prompt
from prong.wire import HeadSpec, dialect


def write(root: Path, cwd: str, session: str, text: str, *, when: float, title: str = "") -> Path:
    path = store.location(cwd, session, root)
    opened = Opened(session=session, created=when - 5, cwd=cwd)
    spec = HeadSpec(model="m-1", system=("s" * 30000,))
    prompt = Prompt(Head(dialect("anthropic"), spec)).append(user_text(text))
    with Journal.create(path, opened) as journal:
        journal.keep("main", prompt)
        journal.keep("main", prompt.append(Reply((), "", "yes")))
        journal.request(Charge(agent=MAIN, model="m-1", usage=Usage(), cost=0.5))
        if title:
            journal.note("main", Titled(title))
            journal.note("main/a", Titled("not this"))
    os.utime(path, (when, when))
    return path


@pytest.mark.spec("L8")
def test_a_list_shows_what_a_session_is(tmp_path: Path) -> None:
    """Id, folder, times, title or first words, entries, model and cost; the latest first."""
    write(tmp_path, "/a", "s-1", "fix  the\nparser", when=100)
    write(tmp_path, "/a", "s-2", "other", when=300, title="Named")
    write(tmp_path, "/b", "s-3", "third", when=200)
    every = store.sessions(None, tmp_path)
    assert [(i.id, i.cwd, i.created, i.modified, i.title, i.name) for i in every] == [
        ("s-2", "/a", 295, 300, "Named", "Named"),
        ("s-3", "/b", 195, 200, "third", ""),
        ("s-1", "/a", 95, 100, "fix the parser", ""),
    ]
    assert {(i.entries, i.model, i.cost) for i in every} == {(2, "m-1", 0.5)}
    assert [i.id for i in store.sessions("/b", tmp_path)] == ["s-3"]
    assert store.sessions("/c", tmp_path) == []


@pytest.mark.spec("L8")
@pytest.mark.parametrize("size", [10, 20_000, 200_000])
def test_a_list_is_right_however_long_the_end_is(tmp_path: Path, size: int) -> None:
    """Entries after the last request are counted, small or big, and so are unpriced requests."""
    path = write(tmp_path, "/a", "s-1", "x", when=100)
    journal, replay = Journal.resume(path)
    with journal:
        journal.keep("main", replay.agents["main"].append(user_text("y" * size)))
    info = store.inspect(path)
    assert info is not None
    assert (info.entries, info.title, info.cost) == (3, "x", 0.5)
    assert read_journal(path).tally.entries == 3
    journal, _ = Journal.resume(path)
    with journal:
        journal.request(Charge(agent=MAIN, model="?", usage=Usage(), cost=None))
    again = store.inspect(path)
    assert again is not None
    assert (again.entries, again.cost) == (3, None)


def test_a_session_without_any_reply_is_listed(tmp_path: Path) -> None:
    """What was killed before the first reply still shows its first words and its model."""
    path = store.location("/a", "s-1", tmp_path)
    prompt = Prompt(Head(dialect("chat"), HeadSpec(model="m-2", system=("s" * 40000,))))
    with Journal.create(path, Opened(session="s-1", created=1, cwd="/a")) as journal:
        journal.keep("main", prompt.append(user_text("hello")))
    info = store.inspect(path)
    assert info is not None
    assert (info.title, info.model, info.entries, info.cost) == ("hello", "m-2", 1, 0.0)


def test_what_is_no_journal_is_left_out(tmp_path: Path) -> None:
    """Empty, foreign and torn files, folders and links in the store do not disturb a list."""
    path = write(tmp_path, "/a", "s-1", "x", when=100)
    folder = path.parent
    (folder / "empty.jsonl").touch()
    (folder / "foreign.jsonl").write_text('{"type":"user"}\nnot json\n')
    (folder / "torn.jsonl").write_bytes(path.read_bytes()[:40])
    (folder / "dir.jsonl").mkdir()
    (folder / "link.jsonl").symlink_to("/etc/passwd")
    (folder / "s-1.lock").write_text("1")
    assert [i.id for i in store.sessions("/a", tmp_path)] == ["s-1"]
    assert store.latest("/a", tmp_path).id == "s-1"


@pytest.mark.spec("L8")
def test_a_damaged_first_record_hides_nothing(tmp_path: Path) -> None:
    """Whichever byte of it is bad, the session is listed, found and refused with the reason."""
    path = write(tmp_path, "/a", "s-1", "hello", when=100)
    data = path.read_bytes()
    for at in range(data.index(b"\n")):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        (info,) = store.sessions("/a", tmp_path)
        assert (info.id, info.title, info.entries, info.path) == ("s-1", "hello", 2, path)
        assert "line 1 (byte 0)" in info.damage
        assert store.find("s-1", "/a", tmp_path) == info
        assert store.latest("/a", tmp_path) == info
        report = verify(path)
        assert report.damage is not None
        assert (report.session, report.damage.line, report.damage.offset) == ("s-1", 1, 0)
        with pytest.raises(JournalDamaged, match=r":1 \(byte 0\): .*; nothing stands before it"):
            Journal.resume(path)
        assert path.read_bytes()[at] == data[at] ^ 0x41
    path.write_bytes(data)
    assert not store.sessions("/a", tmp_path)[0].damage


@pytest.mark.spec("L8")
def test_a_long_folder_name_hides_nothing(tmp_path: Path) -> None:
    """A first record of many kilobytes is read whole."""
    cwd = "/\x01" * 2000
    write(tmp_path, cwd, "s-1", "hello", when=100)
    assert [(i.id, i.cwd, i.damage) for i in store.sessions(cwd, tmp_path)] == [("s-1", cwd, "")]


@pytest.mark.spec("L8", "L9")
@pytest.mark.parametrize("cut", [0, 1, 40])
def test_what_was_never_stored_is_no_session_and_can_be_begun(tmp_path: Path, cut: int) -> None:
    """A process killed before its first line leaves a name that is free, and all say the same."""
    path = write(tmp_path, "/a", "s-1", "x", when=100)
    path.write_bytes(path.read_bytes()[:cut])
    assert store.sessions("/a", tmp_path) == []
    with pytest.raises(NoSuchSession, match="begin it again with --session-id s-1"):
        store.find("s-1", "/a", tmp_path)
    with Journal.create(path, Opened(session="s-1", created=1, cwd="/a")) as journal:
        journal.note("main", Titled("mine"))
    assert read_journal(path).tally.title == "mine"
    with pytest.raises(UsageError, match="already; continue it with --resume s-1"):
        Journal.create(path, Opened(session="s-1", created=1, cwd="/a"))


@pytest.mark.spec("L9")
def test_who_finds_a_journal_locked_leaves_it_there(tmp_path: Path) -> None:
    """A file that somebody has just made and locked is neither taken nor removed."""
    path = store.location("/a", "s-1", tmp_path)
    path.parent.mkdir(parents=True)
    path.touch()
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="there is a session s-1 already"):
            Journal.create(path, Opened(session="s-1", created=1, cwd="/a"))
    assert path.exists()


def test_the_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Every folder that is made for a session, up to the home of them all, is private."""
    path = write(tmp_path / "home/.prong", "/a", "s-1", "x", when=100)
    for folder in [path.parent, path.parent.parent, tmp_path / "home/.prong"]:
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.spec("L8")
def test_sessions_are_found_by_id_prefix_or_name(tmp_path: Path) -> None:
    """An id, its unique beginning or a name finds a session; else near ones are suggested."""
    write(tmp_path, "/a", "20260101-aaaa", "first", when=100, title="Parser work")
    write(tmp_path, "/a", "20260102-bbbb", "second", when=200)
    write(tmp_path, "/b", "20260102-cccc", "third", when=300)
    assert store.find("20260101-aaaa", None, tmp_path).id == "20260101-aaaa"
    assert store.find("20260101", None, tmp_path).id == "20260101-aaaa"
    assert store.find("parser WORK", "/b", tmp_path).id == "20260101-aaaa"
    assert store.find("20260102", "/b", tmp_path).id == "20260102-cccc"
    with pytest.raises(UsageError, match=r"2 sessions.*cccc.*bbbb"):
        store.find("20260102", None, tmp_path)
    with pytest.raises(NoSuchSession, match="did you mean 20260102-bbbb"):
        store.find("20260102-bbxb", None, tmp_path)
    with pytest.raises(NoSuchSession, match=r"latest are 20260102-cccc \(third\)"):
        store.find("zzz", None, tmp_path)
    with pytest.raises(NoSuchSession):
        store.find("", None, tmp_path)
    with pytest.raises(NoSuchSession):
        store.find("../../etc/passwd", "/a", tmp_path)


@pytest.mark.spec("L8")
def test_the_latest_session_of_a_folder(tmp_path: Path) -> None:
    """`--continue` means the session of this very folder that was written last."""
    write(tmp_path, "/a/b", "s-1", "x", when=300)
    write(tmp_path, "/a/b", "s-2", "x", when=200)
    write(tmp_path, "/a-b", "s-3", "x", when=400)
    assert store.latest("/a/b", tmp_path).id == "s-1"
    with pytest.raises(NoSuchSession, match="without --continue"):
        store.latest("/a", tmp_path)


def test_a_branch_is_listed_with_its_origin_and_its_own_cost(tmp_path: Path) -> None:
    """A branch names its source and starts at no cost."""
    path = write(tmp_path, "/a", "s-1", "x", when=100)
    target = store.location("/a", "s-2", tmp_path)
    branch(path, target, Opened(session="s-2", created=1, cwd="/a"))
    info = store.inspect(target)
    assert info is not None
    assert (info.forked_from, info.cost, info.entries, info.title) == ("s-1", 0.0, 2, "x")


@given(st.sets(st.text(st.sampled_from("/ab-. é"), max_size=12), min_size=2, max_size=6))
def test_slugs_are_safe_and_distinct(paths: set[str]) -> None:
    """Different folders never share a slug, and a slug is one harmless path component."""
    slugs = {store.slug(path) for path in paths}
    assert len(slugs) == len(paths)
    assert all(re.fullmatch(r"[A-Za-z0-9-]{1,80}", slug) for slug in slugs)


def test_ids_sort_by_time_and_differ() -> None:
    """A later id sorts after an earlier one; ids of one second differ."""
    assert store.new_id(1_000_000_000) < store.new_id(1_000_000_001)
    assert len({store.new_id(1_000_000_000) for _ in range(100)}) == 100
    assert re.fullmatch(r"20010909-014640-[a-z2-9]{6}", store.new_id(1_000_000_000))


@pytest.mark.parametrize("bad", ["", "..", "a/b", "../x", ".hidden", "x" * 200, "a\nb", "-x"])
def test_a_session_id_is_no_path(tmp_path: Path, bad: str) -> None:
    """An id from the command line cannot lead out of the store."""
    with pytest.raises(UsageError):
        store.location("/a", bad, tmp_path)


def test_the_store_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PRONG_HOME stands in for ~/.prong."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PRONG_HOME", raising=False)
    place = store.location("/a/b", "s-1")
    assert place == tmp_path / ".prong" / "projects" / store.slug("/a/b") / "s-1.jsonl"
    monkeypatch.setenv("PRONG_HOME", str(tmp_path / "else"))
    assert store.project("/a/b").parent == tmp_path / "else" / "projects"
