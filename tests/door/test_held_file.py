"""Files and folders by their numbers: what is opened, whose it is, and who has the lock on it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prong.system.descriptor import (
    copy_rights,
    is_hung_up,
    is_link,
    is_open_to_others,
    open_unlinked,
    read_at,
    sync,
    sync_data,
    sync_folder,
)
from prong.system.file_lock import try_lock, unlock, wait_lock
from prong.system.held_folder import HeldFolder

pytestmark = pytest.mark.door


@contextmanager
def opened(path: Path) -> Generator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def content(fd: int) -> bytes:
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


@pytest.mark.spec("L13")
def test_a_link_in_a_files_place_is_not_followed(tmp_path: Path) -> None:
    """Whatever it leads to stays unread and unwritten, and is known for a link; a file is opened."""
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "gone").symlink_to("made")
    with HeldFolder(str(tmp_path)) as folder:
        ways: tuple[Callable[[str, int], int], ...] = (
            folder.open,
            lambda name, flags: open_unlinked(tmp_path / name, flags),
        )
        for way in ways:
            for name, flags in (("link", os.O_RDONLY), ("gone", os.O_WRONLY | os.O_CREAT)):
                with pytest.raises(OSError, match="symbolic") as refused:
                    way(name, flags)
                assert refused.value.errno == errno.ELOOP
            assert content(way("secret", os.O_RDONLY)) == b"s"
        assert stat.S_ISLNK(folder.find("link").st_mode)
    assert not (tmp_path / "made").exists()
    assert is_link(os.lstat(tmp_path / "link"))
    assert not is_link(os.lstat(tmp_path / "secret"))
    assert not is_link(os.lstat(tmp_path))


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes to it, and whoever opens it goes on."""
    os.mkfifo(tmp_path / "pipe")
    # Held by both ends, so that even who waits would get it: what counts is how it is opened.
    held = os.open(tmp_path / "pipe", os.O_RDWR)
    with HeldFolder(str(tmp_path)) as folder:
        found = [folder.open("pipe", os.O_RDONLY), open_unlinked(tmp_path / "pipe", os.O_RDONLY)]
    assert [os.get_blocking(fd) for fd in found] == [False, False]
    for fd in (*found, held):
        os.close(fd)


@pytest.mark.spec("L13")
def test_a_folder_that_is_held_stays_the_same(tmp_path: Path) -> None:
    """What takes its name meanwhile, another folder or a link, sees nothing of what is done."""
    held, moved = tmp_path / "held", tmp_path / "moved"
    (held / "inner").mkdir(parents=True)
    (held / "inner" / "a").write_text("ours")
    (held / "old").write_text("old")
    with HeldFolder(str(held)) as folder:
        held.rename(moved)
        (held / "inner").mkdir(parents=True)
        (held / "inner" / "a").write_text("theirs")
        (held / "old").write_text("theirs")
        with folder.enter("inner") as inner:
            assert content(inner.open("a", os.O_RDONLY)) == b"ours"
        assert folder.find("old").st_ino == (moved / "old").stat().st_ino
        os.close(folder.open("new", os.O_WRONLY | os.O_CREAT))
        folder.make("made")
        folder.replace("old", "older")
        folder.remove("new")
    assert sorted(one.name for one in moved.iterdir()) == ["inner", "made", "older"]
    assert sorted(one.name for one in held.iterdir()) == ["inner", "old"]


@pytest.mark.spec("L13")
def test_a_link_is_held_as_a_folder_only_if_that_is_wanted(tmp_path: Path) -> None:
    """Neither at the top nor below is a link a folder, unless the user's own path may be one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for name in ("link", "gone"):
        with pytest.raises(OSError, match=r"Not a directory|No such file"):
            HeldFolder(str(tmp_path / name))
    with HeldFolder(str(tmp_path)) as folder:
        with pytest.raises(NotADirectoryError):
            folder.enter("link")
        folder.enter("real").close()
    with HeldFolder(str(tmp_path / "link"), follow=True) as folder:
        folder.make("inner")
    assert (tmp_path / "real" / "inner").is_dir()


@pytest.mark.parametrize("mode", [0o400, 0o200, 0o100, 0o40, 0o20, 0o10, 0o4, 0o2, 0o1])
def test_what_any_other_may_do_is_open_to_others(tmp_path: Path, mode: int) -> None:
    """Each single right of the group and of everybody counts; those of the owner do not."""
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(mode)

    assert is_open_to_others((tmp_path / "file").stat()) is (mode < 0o100)


def test_a_file_gets_the_rights_of_another_whole(tmp_path: Path) -> None:
    """A new owner, where one can be given, does not cost the bits that a change of it clears."""
    owner = (4321, 4322) if os.getuid() == 0 else (os.getuid(), os.getgid())
    with opened(tmp_path / "file") as fd:
        copy_rights(fd, stat.S_IFREG | 0o4751, owner)
        found = os.fstat(fd)
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o4751, *owner)
        copy_rights(fd, 0o640)
        found = os.fstat(fd)
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, *owner)


def test_reading_at_a_place_moves_nothing(tmp_path: Path) -> None:
    """The next who reads goes on where they were."""
    with opened(tmp_path / "file") as fd:
        os.write(fd, b"abcdef")
        os.lseek(fd, 1, os.SEEK_SET)

        assert (read_at(fd, 2, 3), os.read(fd, 2)) == (b"de", b"bc")


@pytest.mark.spec("L8")
def test_what_is_stored_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whole or its bytes, and the names in a folder: the system is told of that very one."""
    told: list[tuple[str, int]] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(
            os, name, lambda fd, name=name: told.append((name, os.fstat(fd).st_ino))
        )
    with opened(tmp_path / "file") as fd, HeldFolder(str(tmp_path)) as folder:
        sync(fd)
        sync_data(fd)
        folder.sync()
        sync_folder(tmp_path)
        file = os.fstat(fd).st_ino
    above = tmp_path.stat().st_ino

    assert told == [("fsync", file), ("fdatasync", file), ("fsync", above), ("fsync", above)]


def test_whether_anybody_is_left_who_could_say_something() -> None:
    """The last writer has gone: that is known, even before all that it said is read."""
    source, sink = os.pipe()
    os.write(sink, b"unread")
    before = is_hung_up(source)
    os.close(sink)
    after = is_hung_up(source)
    os.close(source)

    assert (before, after) == (False, True)


@pytest.mark.spec("L8", "M5")
@pytest.mark.parametrize("waits", [False, True])
def test_a_lock_has_one_holder(tmp_path: Path, waits: bool) -> None:
    """However it was taken, nobody else gets it until it is given back."""
    with opened(tmp_path / "file") as one, opened(tmp_path / "file") as two:
        if waits:
            wait_lock(one)
        else:
            assert try_lock(one)
        assert not try_lock(two)
        with pytest.raises(BlockingIOError):
            fcntl.flock(two, fcntl.LOCK_SH | fcntl.LOCK_NB)
        unlock(one)
        assert try_lock(two)
        assert not try_lock(one)


@pytest.mark.spec("L8")
def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    """Its lock is free once whoever had it has let go of the folder."""
    with HeldFolder(str(tmp_path)) as one:
        assert one.try_lock()
        with HeldFolder(str(tmp_path)) as two:
            assert not two.try_lock()
    with HeldFolder(str(tmp_path)) as two:
        assert two.try_lock()


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    """The second time does nothing, whoever has the number by then."""
    folder = HeldFolder(str(tmp_path))
    folder.close()
    with opened(tmp_path / "file") as fd:
        folder.close()

        os.fstat(fd)
