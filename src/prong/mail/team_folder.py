"""A team as a folder: members, their keys, their boxes, the shared tasks."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Container, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from prong.errors import JournalFull, NotPossibleNow, ProngError, UnknownName
from prong.host import make_private
from prong.journal.lock import remedy
from prong.mail.authority import EVERYONE, LEADER, OUTSIDE, check_name, is_name, may
from prong.mail.body import Mail, MailBody
from prong.mail.doorbell import Doorbell, ring
from prong.mail.keyring import Keyring
from prong.mail.line_scan import Cursor
from prong.mail.locked_file import append, locked, sync, write_whole
from prong.mail.mailbox import MailBatch, Mailbox
from prong.mail.network_mount import network_type
from prong.mail.socket_folder import remove_sockets
from prong.mail.task_log import SharedTasks
from prong.mail.team_file import Member, Team, TeamFile
from prong.system.descriptor import is_open_to_others, sync_folder
from prong.system.file_lock import unlock
from prong.system.identity import started, user_id

MEMBERS = 100
"""Members that a team may have, its leader left out."""


def teams_folder(home: Path) -> Path:
    """Give where the teams of a user are."""
    return home / "teams"


def teams(home: Path) -> tuple[str, ...]:
    """Name the teams that there are."""
    try:
        names = [path.parent.name for path in teams_folder(home).glob("*/team.json")]
    except OSError:
        return ()
    return tuple(sorted(name for name in names if is_name(name)))


class TeamFolder:
    """The way to one team; any number of processes have one each."""

    def __init__(self, path: Path) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.name = path.name
        self._boxes: dict[str, Mailbox] = {}
        self._file = TeamFile(path / "team.json")
        self._keys = Keyring(path / "keys")
        self.tasks = SharedTasks(path / "tasks.jsonl", self._file, self._keys)

    @classmethod
    def create(cls, home: Path, name: str, *, session: str, description: str = "") -> TeamFolder:
        """Make a team with a leader and no members; raises UsageError, or JournalFull."""
        path = teams_folder(home) / check_name(name, of="team")
        new = path.with_name(f".{name}.new.{os.urandom(4).hex()}")
        try:
            make_private(path.parent)
            _refuse_network(path.parent)
            _sweep(path.parent)
            for folder in (new, new / "keys", new / "inbox", new / "start"):
                folder.mkdir(mode=0o700)
            write_whole(new / "tasks.jsonl", b"")
            for who in (LEADER, OUTSIDE):
                Keyring(new / "keys").make(who)
            Mailbox(new, LEADER, name).create()
            team = Team(name=name, description=description, leader=session, created=time.time())
            TeamFile(new / "team.json").store(team)
            # A folder that is there and not empty is never replaced.
            new.rename(path)
            sync_folder(path.parent)
        except OSError as error:
            if path.exists():
                raise NotPossibleNow(
                    f"there is a team {name} already; take another name, or delete it first"
                ) from error
            raise JournalFull(f"{path} cannot be made ({error}); {remedy(error)}") from error
        finally:
            _remove(new)
        return cls(path)

    @classmethod
    def open(cls, home: Path, name: str) -> TeamFolder:
        """Open a team; raises UsageError if there is none, or none that can be used."""
        path = teams_folder(home) / check_name(name, of="team")
        if not os.path.lexists(path):
            there = ", ".join(teams(home)) or "none"
            raise UnknownName(f"there is no team {name}; there are: {there}")
        for folder in (path, path / "keys", path / "inbox"):
            _check_private(folder)
        _refuse_network(path)
        folder = cls(path)
        folder._file.read()
        return folder

    @property
    def team(self) -> Team:
        """Who is in it, read now; raises UsageError if it is gone, damaged or newer."""
        return self._file.read()

    def add(self, member: Member) -> Member:
        """Take in a member, with a key and a box; raises UsageError if its name is taken."""
        check_name(member.name)
        with self._file.changing() as team:
            if team.member(member.name) is not None:
                raise NotPossibleNow(
                    f"there is a member {member.name} in {self.name} already; take another name"
                )
            if len(team.members) >= MEMBERS:
                raise NotPossibleNow(f"a team has at most {MEMBERS} members; remove one first")
            self._keys.make(member.name)
            Mailbox(self.path, member.name, self.name).create()
            self._file.store(msgspec.structs.replace(team, members=(*team.members, member)))
        return member

    def change(self, name: str, **fields: Any) -> Member:
        """Change what is known of a member; raises UsageError."""
        assert "name" not in fields, "a member keeps its name"
        with self._file.changing() as team:
            return self._replace(team, _member(team, name), **fields)

    def end(self, name: str, run: int) -> None:
        """Let a member count as ended, if it is still in that run and was not started again."""
        with self._file.changing() as team:
            member = team.member(name)
            if member is None or member.runs != run:
                return
            if member.state != "ended":
                self._replace(team, member, state="ended")
            # One that was killed could not do so itself.
            remove_sockets(self.path, name)

    def _replace(self, team: Team, member: Member, **fields: Any) -> Member:
        new = msgspec.structs.replace(member, **fields)
        members = (new if one is member else one for one in team.members)
        self._file.store(msgspec.structs.replace(team, members=tuple(members)))
        return new

    def remove(self, name: str) -> None:
        """Let a member go; its tasks are free again, and mail to it is refused."""
        with self._file.changing() as team:
            gone = _member(team, name)
            members = tuple(one for one in team.members if one is not gone)
            self._file.store(msgspec.structs.replace(team, members=members))
        self.tasks.release(name)

    def lead(self) -> None:
        """Say that the leader's session is open in this process."""
        pid = os.getpid()
        with self._file.changing() as team:
            since = started(pid)
            self._file.store(msgspec.structs.replace(team, pid=pid, since=since))

    def inventory(self) -> str:
        """Say what is in it, in a few words; raises ProngError."""
        boxes = [path for name in self.team.names for path in self._box(name).files]
        # The first line of a box is its header.
        mails = sum(path.read_bytes().count(b"\n") - 1 for path in boxes)
        counts = {"member": len(self.team.members), "mail": mails, "task": len(self.tasks.list())}
        return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())

    def delete(self, *, force: bool = False) -> None:
        """Remove the team with everything in it; not while members live, unless forced."""
        gone = self.path.with_name(f".{self.name}.gone.{os.urandom(4).hex()}")
        with self._file.changing() as team:
            if team.living and not force:
                names = ", ".join(member.name for member in team.living)
                raise NotPossibleNow(f"{names} of {self.name} still run; end them first")
            self.path.rename(gone)
        for name in team.names:
            remove_sockets(self.path, name)
        _remove(gone)
        sync_folder(self.path.parent)

    def post(self, sender: str, to: str, body: MailBody, *, about: str = "") -> str:
        """Send a mail, and wake who gets it; once this returns it is not lost. Gives its id.

        Of all mails of a member that are `about` the same, a reader takes in the first: so one that
        was sent just before a kill can be sent again.

        Raises UsageError if it may not be sent or is too long, JournalFull if it is not stored.
        """
        team = self.team
        names = team.names
        if sender not in {*names, OUTSIDE}:
            raise UnknownName(f"{sender[:40]!r} is not in {self.name}, so it cannot write to it")
        if to not in {*names, OUTSIDE, EVERYONE}:
            there = ", ".join(names)
            raise UnknownName(f"there is no {to[:40]!r} in {self.name}; there are {there}")
        if why := may(body, sender, to):
            raise NotPossibleNow(why)
        readers = [name for name in names if name != sender] if to == EVERYONE else [to]
        if not readers:
            raise NotPossibleNow(f"there is nobody but {sender} in {self.name}")
        id_ = f"{sender}.{_digest(team, sender, about) if about else os.urandom(8).hex()}"
        self._deliver(Mail(id=id_, sender=sender, to=to, at=time.time(), body=body), readers)
        return id_

    def read(self, member: str, cursor: Cursor, known: Container[str] = ()) -> MailBatch:
        """Read a member's mail on from a cursor.

        `known` holds ids, of mails and of damaged pieces, that the member has; they are left out.
        """
        try:
            return self._box(member).read(cursor, self._keys, known)
        except FileNotFoundError as error:
            raise self._no_box(member) from error

    def prune(self, member: str, cursor: Cursor) -> bool:
        """Begin a member's box anew if it is large and read to its end.

        The cursor must be one that the member has stored.
        """
        try:
            return self._box(member).prune(cursor)
        except FileNotFoundError as error:
            raise self._no_box(member) from error
        except OSError as error:
            raise JournalFull(f"{self.path}: {error}; {remedy(error)}") from error

    def ring(self, member: str) -> None:
        """Wake a member that waits."""
        ring(self.path, member)

    def fingerprint(self, member: str) -> tuple[tuple[int, int, int], ...]:
        """Tell apart states of what concerns a member: its box, the tasks, who is in the team.

        It is quick: who looks every second reads only if this has changed.
        """
        names = (f"inbox/{member}.jsonl", "tasks.jsonl", "team.json")
        return tuple(_print_of(self.path / name) for name in names)

    def doorbell(self, member: str) -> Doorbell:
        """Give what a member waits at."""
        return Doorbell(self.path, member)

    def _box(self, name: str) -> Mailbox:
        if (box := self._boxes.get(name)) is None:
            known = name if name == LEADER else check_name(name)
            box = self._boxes[name] = Mailbox(self.path, known, self.name)
        return box

    def _deliver(self, mail: Mail, names: Sequence[str]) -> None:
        key = self._keys.key(mail.sender)
        if key is None:
            raise NotPossibleNow(
                f"the key of {mail.sender} in {self._keys.path} is missing or damaged; "
                f"remove the member and add it again"
            )
        boxes = {name: self._box(name) for name in names}
        lines = {name: box.line(mail, key) for name, box in boxes.items()}
        stored: list[str] = []
        failed: list[ProngError] = []
        with ExitStack() as held:
            files: list[tuple[int, Path]] = []
            for name, box in boxes.items():
                try:
                    fd = held.enter_context(locked(box.path))
                    append(fd, box.path, lines[name])
                except (FileNotFoundError, JournalFull, NotPossibleNow) as error:
                    lost = isinstance(error, FileNotFoundError)
                    failed.append(self._no_box(name) if lost else error)
                else:
                    unlock(fd)
                    files.append((fd, box.path))
                    stored.append(name)
            for fd, path in files:
                sync(fd, path)
        for name in stored:
            self.ring(name)
        if failed and not stored:
            raise failed[0]
        if failed:
            told = "; ".join(str(error) for error in failed)
            raise JournalFull(f"{', '.join(stored)} got it, and nobody else: {told}")

    def _no_box(self, name: str) -> ProngError:
        if not self.path.exists():
            return UnknownName(f"the team {self.name} is gone")
        return UnknownName(f"there is no mailbox of {name[:40]!r} in team {self.name}")


def _member(team: Team, name: str) -> Member:
    if (member := team.member(name)) is None:
        there = ", ".join(one.name for one in team.members) or "none"
        raise UnknownName(f"there is no member {name[:40]!r} in {team.name}; there are: {there}")
    return member


def _digest(team: Team, sender: str, about: str) -> str:
    """Give the same digits for the same thing said by the same member; one of its name is new."""
    member = team.member(sender)
    since = member.started if member is not None else team.created
    return sha256(f"{team.created}\n{since}\n{about}".encode()).hexdigest()[:32]


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left of teams, half made or half deleted."""
    for path in folder.glob(".*.gone.*"):
        _remove(path)
    for path in folder.glob(".*.new.*"):
        with suppress(OSError):
            # Making one takes milliseconds.
            if path.lstat().st_mtime < time.time() - 3_600:
                _remove(path)


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def _print_of(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


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
    if found.st_uid != user_id():
        raise NotPossibleNow(f"{folder} is another user's; set PRONG_HOME to a folder of yours")
    if is_open_to_others(found):
        raise NotPossibleNow(f"{folder} is open to others; chmod 700 it")
