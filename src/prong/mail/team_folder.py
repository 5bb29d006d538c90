"""A team as a folder: members, their keys, their boxes, the shared tasks."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from prong.errors import BadInput, JournalFull, NotPossibleNow, ProngError, UnknownName
from prong.host import make_private
from prong.journal.lock import remedy
from prong.mail.authority import EVERYONE, LEADER, OUTSIDE, check_name, may
from prong.mail.body import Mail, MailBody
from prong.mail.doorbell import Doorbell, ring
from prong.mail.locked_file import append, lock, locked, open_file, sync, unlock, write_whole
from prong.mail.mailbox import Cursor, MailBatch, Mailbox
from prong.mail.network_mount import network_type
from prong.mail.task_log import SharedTasks
from prong.mail.team_file import Member, Team, decode_team, encode_team

_KEY = 32


def teams_folder(home: Path) -> Path:
    """Give where the teams of a user are."""
    return home / "teams"


def teams(home: Path) -> tuple[str, ...]:
    """Name the teams that there are."""
    try:
        names = [path.parent.name for path in teams_folder(home).glob("*/team.json")]
    except OSError:
        return ()
    return tuple(sorted(name for name in names if not name.startswith(".")))


class TeamFolder:
    """The door to one team; any number of processes have one each."""

    def __init__(self, path: Path) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.name = path.name
        self.tasks = SharedTasks(path / "tasks.jsonl", self.name, self._key, self._ring_all_but)

    @classmethod
    def create(cls, home: Path, name: str, *, session: str, description: str = "") -> TeamFolder:
        """Make a team with a leader and no members; raises UsageError, or JournalFull."""
        path = teams_folder(home) / check_name(name, of="team")
        try:
            make_private(path.parent)
            _refuse_network(path.parent)
            new = path.with_name(f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
            for folder in (new, new / "keys", new / "inbox", new / "start"):
                folder.mkdir(mode=0o700)
        except OSError as error:
            raise JournalFull(f"{path} cannot be made ({error}); {remedy(error)}") from error
        try:
            team = Team(name=name, description=description, leader=session, created=time.time())
            write_whole(new / "tasks.jsonl", b"")
            for who in (LEADER, OUTSIDE):
                write_whole(new / "keys" / who, os.urandom(_KEY))
            Mailbox(new, LEADER, name).create()
            write_whole(new / "team.json", encode_team(team))
            # A folder that is there and not empty is never replaced.
            new.rename(path)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if path.exists():
                raise NotPossibleNow(
                    f"there is a team {name} already; take another name, or delete it first"
                ) from error
            raise JournalFull(f"{path} cannot be made ({error}); {remedy(error)}") from error
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return cls(path)

    @classmethod
    def open(cls, home: Path, name: str) -> TeamFolder:
        """Open a team; raises UsageError if there is none, or none that can be used."""
        path = teams_folder(home) / check_name(name, of="team")
        if not (path / "team.json").exists():
            there = ", ".join(teams(home)) or "none"
            raise UnknownName(f"there is no team {name}; there are: {there}")
        _refuse_network(path)
        for folder in (path, path / "keys", path / "inbox"):
            _check_private(folder)
        folder = cls(path)
        _ = folder.team
        return folder

    @property
    def team(self) -> Team:
        """Who is in it, read now."""
        path = self.path / "team.json"
        return decode_team(self._read_file(path), path)

    def add(self, member: Member) -> Member:
        """Take in a member, with a key and a box; raises UsageError if its name is taken."""
        check_name(member.name)
        with self._changing() as team:
            if team.member(member.name) is not None:
                raise NotPossibleNow(
                    f"there is a member {member.name} in {self.name} already; take another name"
                )
            key = self.path / "keys" / member.name
            # A name that comes back keeps its key: what it signed may still be unread.
            if not key.exists():
                write_whole(key, os.urandom(_KEY))
            Mailbox(self.path, member.name, self.name).create()
            self._store(msgspec.structs.replace(team, members=(*team.members, member)))
        return member

    def change(self, name: str, **fields: Any) -> Member:
        """Change what is known of a member; raises UnknownName."""
        assert "name" not in fields, "a member keeps its name"
        with self._changing() as team:
            member = msgspec.structs.replace(self._member(team, name), **fields)
            others = (member if one.name == name else one for one in team.members)
            self._store(msgspec.structs.replace(team, members=tuple(others)))
        return member

    def remove(self, name: str) -> None:
        """Let a member go; its tasks are free again, and mail to it is refused."""
        with self._changing() as team:
            self._member(team, name)
            others = tuple(one for one in team.members if one.name != name)
            self._store(msgspec.structs.replace(team, members=others))
        self.tasks.release(name)

    def lead(self, session: str) -> None:
        """Make another session the leader."""
        with self._changing() as team:
            self._store(msgspec.structs.replace(team, leader=session))

    def delete(self, *, force: bool = False) -> None:
        """Remove the team with everything in it; not while members are active, unless forced."""
        with self._changing() as team:
            if team.active and not force:
                names = ", ".join(member.name for member in team.active)
                raise NotPossibleNow(f"{names} of {self.name} still run; end them first")
            gone = self.path.with_name(f".{self.name}.gone.{os.urandom(4).hex()}")
            self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def post(self, sender: str, to: str, body: MailBody) -> str:
        """Send a mail, and wake who gets it; once this returns it is not lost. Gives its id.

        Raises UsageError if it may not be sent or is too long, JournalFull if it is not stored.
        """
        team = self.team
        if why := may(body, sender, to):
            raise NotPossibleNow(why)
        everyone = [LEADER, *(member.name for member in team.members)]
        if sender not in {*everyone, OUTSIDE}:
            raise UnknownName(f"{sender!r} is not in {self.name}, so it cannot write to it")
        if to not in {*everyone, EVERYONE}:
            raise UnknownName(
                f"there is no {to[:40]!r} in {self.name}; there are {', '.join(everyone)}"
            )
        to_all = [name for name in everyone if name != sender]
        if to == EVERYONE and not to_all:
            raise NotPossibleNow(f"there is nobody but {sender} in {self.name}")
        mail = Mail(id=os.urandom(8).hex(), sender=sender, to=to, at=time.time(), body=body)
        self._deliver(mail, to_all if to == EVERYONE else [to])
        return mail.id

    def read(self, member: str, cursor: Cursor, known: Collection[str] = ()) -> MailBatch:
        """Read a member's mail on from a cursor; `known` are ids that it has, to be left out."""
        try:
            return Mailbox(self.path, member, self.name).read(cursor, self._key, known)
        except FileNotFoundError as error:
            raise self._no_box(member) from error

    def prune(self, member: str, cursor: Cursor) -> bool:
        """Begin a member's box anew if it is large and read to its end.

        The cursor must be one that the member has stored.
        """
        try:
            return Mailbox(self.path, member, self.name).prune(cursor)
        except FileNotFoundError as error:
            raise self._no_box(member) from error

    def ring(self, member: str) -> None:
        """Wake a member that waits."""
        ring(self.path, member)

    def doorbell(self, member: str) -> Doorbell:
        """Give what a member waits at."""
        return Doorbell(self.path, member)

    def _deliver(self, mail: Mail, names: list[str]) -> None:
        key = self._key(mail.sender)
        assert key is not None, "whoever is in the team has a key"
        boxes = [Mailbox(self.path, name, self.name) for name in names]
        lines = [box.line(mail, key) for box in boxes]
        stored: list[str] = []
        with ExitStack() as stack:
            try:
                written: list[tuple[int, Path]] = []
                for box, line in zip(boxes, lines, strict=True):
                    fd = stack.enter_context(locked(box.path))
                    append(fd, box.path, line)
                    unlock(fd)
                    written.append((fd, box.path))
                for name, (fd, path) in zip(names, written, strict=True):
                    sync(fd, path)
                    stored.append(name)
            except FileNotFoundError as error:
                raise self._no_box(names[len(stored)]) from error
        for name in names:
            self.ring(name)

    def _no_box(self, name: str) -> ProngError:
        return UnknownName(f"there is no mailbox of {name[:40]!r} in team {self.name}")

    def _key(self, name: str) -> bytes | None:
        """Give the key of whoever has one; raises NotPossibleNow if others could read it."""
        try:
            if name not in {LEADER, OUTSIDE}:
                check_name(name)
            fd = open_file(path := self.path / "keys" / name, os.O_RDONLY)
        except (BadInput, FileNotFoundError):
            return None
        try:
            if os.fstat(fd).st_mode & 0o077:
                raise NotPossibleNow(f"{path} is open to others; chmod 600 it, or make a new team")
            data = os.read(fd, _KEY + 1)
        finally:
            os.close(fd)
        return data if len(data) == _KEY else None

    def _ring_all_but(self, name: str) -> None:
        for other in (LEADER, *(member.name for member in self.team.members)):
            if other != name:
                self.ring(other)

    def _member(self, team: Team, name: str) -> Member:
        if (member := team.member(name)) is None:
            there = ", ".join(one.name for one in team.members) or "none"
            raise UnknownName(
                f"there is no member {name[:40]!r} in {self.name}; there are: {there}"
            )
        return member

    def _store(self, team: Team) -> None:
        write_whole(self.path / "team.json", encode_team(team))

    def _read_file(self, path: Path) -> bytes:
        try:
            fd = open_file(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise UnknownName(f"the team {self.name} is gone") from error
        with os.fdopen(fd, "rb") as file:
            return file.read()

    @contextmanager
    def _changing(self) -> Generator[Team]:
        """Hold the lock on the folder."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise UnknownName(f"the team {self.name} is gone") from error
        try:
            lock(fd, self.path)
            yield self.team
        finally:
            os.close(fd)


def _refuse_network(folder: Path) -> None:
    if kind := network_type(folder):
        raise NotPossibleNow(
            f"{folder} is on a network file system ({kind}), where mail could be lost; "
            f"set PRONG_HOME to a folder of this machine"
        )


def _check_private(folder: Path) -> None:
    try:
        found = folder.lstat()
    except OSError as error:
        raise NotPossibleNow(f"{folder} cannot be read ({error.strerror})") from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotPossibleNow(f"{folder} is no folder but a link or a file; remove it")
    if found.st_uid != os.getuid():
        raise NotPossibleNow(f"{folder} is another user's; set PRONG_HOME to a folder of yours")
    if found.st_mode & 0o077:
        raise NotPossibleNow(f"{folder} is open to others; chmod 700 it")
