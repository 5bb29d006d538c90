"""Team folders and mailboxes as real files."""

from __future__ import annotations

import os
import re
import resource
import stat
import tempfile
import time
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from prong.errors import JournalFull, UsageError
from prong.mail import (
    Cursor,
    Idle,
    MailBody,
    Member,
    Message,
    PermissionResponse,
    PlanResponse,
    TeamFolder,
    keyring,
    locked_file,
    socket_folder,
    socket_paths,
    team_file,
    team_folder,
    teams,
)
from prong.mail.signed_line import sign

pytestmark = pytest.mark.door


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    """Give a team of ann and bob."""
    folder = TeamFolder.create(tmp_path, "crew", session="s1", description="Tries things.")
    folder.add(Member(name="ann"))
    folder.add(Member(name="bob"))
    return folder


def texts(folder: TeamFolder, member: str, cursor: Cursor | None = None) -> list[str]:
    batch = folder.read(member, cursor or Cursor())
    return [mail.body.text for mail, _ in batch.mails if isinstance(mail.body, Message)]


@pytest.mark.spec("M1")
def test_a_team_is_made_listed_and_deleted(tmp_path: Path, folder: TeamFolder):
    """A team is there for every process until it is deleted; active members hold it."""
    again = TeamFolder.open(tmp_path, "crew")
    assert teams(tmp_path) == ("crew",)
    assert again.team == folder.team
    assert [member.name for member in again.team.members] == ["ann", "bob"]

    with pytest.raises(UsageError, match="ann, bob of crew still run"):
        folder.delete()
    folder.change("ann", state="ended")
    folder.remove("bob")
    folder.delete()

    assert teams(tmp_path) == ()
    assert list((tmp_path / "teams").iterdir()) == []


@pytest.mark.spec("M5")
def test_mail_is_for_one_or_for_all_but_the_sender(folder: TeamFolder):
    """A direct mail reaches one box, a broadcast every other; a cursor reads each once."""
    folder.post("leader", "ann", Message(text="one"))
    folder.post("ann", "*", Message(text="all"))
    folder.post("outside", "bob", Message(text="shell"))

    assert texts(folder, "ann") == ["one"]
    assert texts(folder, "bob") == ["all", "shell"]
    assert texts(folder, "leader") == ["all"]
    (_, first), _ = folder.read("bob", Cursor()).mails
    assert texts(folder, "bob", first) == ["shell"]
    assert texts(folder, "bob", folder.read("bob", first).cursor) == []


@pytest.mark.spec("M5")
def test_a_member_cannot_decide_for_another(folder: TeamFolder):
    """An answer to a permission is the leader's alone."""
    with pytest.raises(UsageError, match="only the leader decides"):
        folder.post("ann", "bob", PermissionResponse(request_id="r1", allow=True))


@pytest.mark.spec("M8")
def test_a_task_has_one_owner_and_waits_for_its_needs(folder: TeamFolder):
    """A free task goes to the first who asks; one that needs another cannot be taken before."""
    tasks = folder.tasks
    tasks.create("Dig", by="leader")
    tasks.create("Plant", by="ann", needs=("1",))

    assert tasks.claim("2", by="bob").why == "task 2 waits for 1"
    assert tasks.claim("1", by="bob").granted
    assert tasks.claim("1", by="ann").why == "task 1 is bob’s"
    tasks.update("1", by="bob", status="completed")
    taken = tasks.claim_next(by="ann")
    assert taken is not None
    assert taken.id == "2"
    folder.remove("ann")
    assert [task.status for task in tasks.list()] == ["completed", "pending"]


def lines(folder: TeamFolder, member: str) -> list[bytes]:
    return (folder.path / f"inbox/{member}.jsonl").read_bytes().splitlines(keepends=True)


def add_bytes(folder: TeamFolder, member: str, data: bytes) -> None:
    with (folder.path / f"inbox/{member}.jsonl").open("ab") as file:
        file.write(data)


def whys(folder: TeamFolder, member: str) -> list[str]:
    return [piece.why for piece in folder.read(member, Cursor()).damaged]


class Line(msgspec.Struct, kw_only=True):
    """A line of mail as somebody else would write it."""

    v: int = 1
    id: str = "ann.0123456789abcdef"
    sender: str = msgspec.field(default="ann", name="from")
    to: str = "bob"
    at: float = 1.0
    body: MailBody | dict[str, str] = Message(text="x")


def write(
    folder: TeamFolder, line: Line, *, key: str = "ann", team: str = "crew", box: str = "bob"
):
    data = (folder.path / "keys" / key).read_bytes()
    add_bytes(folder, box, sign(line, key=data, team=team, place=f"inbox/{box}"))


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("line", "more", "why"),
    [
        (Line(), {"key": "bob"}, "it is not signed by ann, whom it names as its sender"),
        (Line(), {"team": "crew2"}, "it is not signed by ann, whom it names as its sender"),
        (Line(sender="leader"), {}, "it is not signed by leader, whom it names as its sender"),
        (Line(sender="eve"), {}, "it names 'eve' as its sender, who was never in the team"),
        (Line(sender="../keys/ann"), {}, "it names '../keys/ann' as its sender, who was never"),
        (Line(v=2), {}, "a newer Prong wrote it (version 2, this one reads 1)"),
        (Line(to="leader"), {}, "it is addressed to 'leader'"),
        (Line(id="bob.0123456789abcdef"), {}, "its id 'bob.0123456789abcdef' is not one of ann"),
        (Line(id="ann.x"), {}, "its id 'ann.x' is not one of ann"),
        (Line(body={"type": "order"}), {}, "it is not understood"),
        (
            Line(body={"type": "\x1b[2J" + "x" * 9_000}),
            {},
            "it is not understood (Invalid value '?",
        ),
        (Line(body=PlanResponse(request_id="r", approve=True)), {}, "only the leader decides"),
        (Line(to="*", body=Idle()), {}, "this is for the leader alone"),
    ],
)
def test_what_is_not_proved_is_set_aside(
    folder: TeamFolder, line: Line, more: dict[str, str], why: str
):
    """A forged, strange or forbidden line is told and kept beside; what stands around it is read."""
    folder.post("ann", "bob", Message(text="before"))
    write(folder, line, **more)
    folder.post("ann", "bob", Message(text="after"))

    batch = folder.read("bob", Cursor())
    assert [mail.body for mail, _ in batch.mails] == [Message(text="before"), Message(text="after")]
    (piece,) = batch.damaged
    assert piece.why.startswith(why)
    assert len(piece.why) < 250
    assert folder.read("bob", Cursor(), {piece.id}).damaged == ()
    (kept,) = (folder.path / "inbox/bob.aside.jsonl").read_text().splitlines()
    assert msgspec.json.decode(kept)["what"]["offset"] == piece.offset


@pytest.mark.spec("M5")
def test_what_others_write_as_documented_is_mail(folder: TeamFolder):
    """A line signed with the sender's key by another program is read like ours."""
    write(folder, Line())
    write(folder, Line(id="outside." + "0" * 16, sender="outside", to="*"), key="outside")

    assert texts(folder, "bob") == ["x", "x"]


@pytest.mark.spec("M5")
def test_a_line_copied_to_another_box_is_not_mail_there(folder: TeamFolder, tmp_path: Path):
    """What was said to ann cannot be passed on as said to bob, nor to a team of the same name."""
    folder.post("leader", "ann", Message(text="only for ann"))
    folder.post("leader", "*", Message(text="all"))
    _, single, common = lines(folder, "ann")
    add_bytes(folder, "bob", single + common)
    other = TeamFolder.create(tmp_path / "elsewhere", "crew", session="s2")
    other.add(Member(name="ann"))
    add_bytes(other, "ann", single)

    assert texts(folder, "bob") == ["all"]
    assert len(whys(folder, "bob")) == 2
    assert texts(other, "ann") == []


@pytest.mark.spec("M5")
def test_a_torn_line_is_closed_by_the_next_writer(folder: TeamFolder):
    """What a killed writer left stands alone; it is not read before it is whole."""
    folder.post("ann", "bob", Message(text="one"))
    torn = lines(folder, "bob")[-1][:50]
    add_bytes(folder, "bob", torn)
    cursor = folder.read("bob", Cursor()).cursor
    assert whys(folder, "bob") == []
    folder.post("ann", "bob", Message(text="two"))

    batch = folder.read("bob", cursor)
    assert [mail.body for mail, _ in batch.mails] == [Message(text="two")]
    assert [(piece.offset, piece.length) for piece in batch.damaged] == [(cursor.offset, 50)]


@pytest.mark.spec("M5")
def test_what_is_too_large_is_refused_with_the_remedy(folder: TeamFolder):
    """10 MB are not sent, to one or to all; a line of that size from elsewhere is set aside."""
    before = lines(folder, "bob")
    for to in ("bob", "*"):
        with pytest.raises(
            UsageError, match=r"1,048,576 is the most .* write it to a file and send"
        ):
            folder.post("ann", to, Message(text="x" * 10_000_000))
    assert lines(folder, "bob") == before

    add_bytes(folder, "bob", b"y" * 10_000_000 + b"\n")
    folder.post("ann", "bob", Message(text="z" * 1_000_000))
    first = folder.read("bob", Cursor())
    (piece,) = first.damaged
    assert (piece.length, piece.why[:20]) == (10_000_000, "it has 10,000,000 by")
    assert (folder.path / "inbox/bob.aside.jsonl").stat().st_size < 10_000
    assert first.more
    assert len(folder.read("bob", first.cursor).mails) == 1


@pytest.mark.spec("M5")
def test_a_large_box_that_was_read_begins_anew(folder: TeamFolder):
    """Only what its reader has read to the end is put aside, and whoever was away loses nothing."""
    text = "x" * 100_000
    for _ in range(12):
        folder.post("ann", "bob", Message(text=text))
    batch = folder.read("bob", Cursor())
    early = batch.mails[4][1]
    assert not folder.prune("bob", early)
    assert folder.prune("bob", batch.cursor)
    assert not folder.prune("bob", batch.cursor)
    folder.post("ann", "bob", Message(text="new"))

    assert texts(folder, "bob") == ["new"]
    rest = folder.read("bob", batch.cursor)
    assert (rest.mails, rest.more, rest.notes) == ((), True, ())
    assert texts(folder, "bob", rest.cursor) == ["new"]
    away = folder.read("bob", early)
    assert [mail.id for mail, _ in away.mails] == [mail.id for mail, _ in batch.mails[5:]]
    assert texts(folder, "bob", away.cursor) == ["new"]
    assert {path.name for path in (folder.path / "inbox").glob("*bob*")} == {
        "bob.jsonl",
        "bob.jsonl.1",
    }


@pytest.mark.spec("M5")
def test_who_waits_for_a_box_writes_to_the_new_one(folder: TeamFolder):
    """A writer that waited for the lock on a box that was then begun anew writes to the new box."""
    path = folder.path / "inbox/bob.jsonl"
    header = path.read_bytes()
    writer = Thread(target=folder.post, args=("ann", "bob", Message(text="in time")))
    with locked_file.locked(path):
        writer.start()
        time.sleep(0.1)  # It has opened the old box by now, and if not the claim holds anyway.
        locked_file.write_whole(path, header)
    writer.join()

    assert texts(folder, "bob") == ["in time"]


@pytest.mark.spec("M1")
def test_who_is_in_a_team_is_never_out_of_date(folder: TeamFolder, tmp_path: Path):
    """Each change by one process is seen by another at once, however fast they follow."""
    other = TeamFolder.open(tmp_path, "crew")
    for pid in range(1000, 1040):
        folder.change("ann", pid=pid)
        assert other.team.members[0].pid == folder.team.members[0].pid == pid


def test_a_team_file_that_is_new_is_not_taken_for_the_last(
    folder: TeamFolder, monkeypatch: pytest.MonkeyPatch
):
    """While another may look the same to the file system, it is read and not remembered."""
    monkeypatch.setattr(team_file, "COARSE_CLOCK", 1 << 62)
    path = folder.path / "team.json"
    before, when = folder.team, path.stat()
    path.write_text(path.read_text().replace("Tries things.", "Drops things."))
    os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))

    assert before.description == "Tries things."
    assert folder.team.description == "Drops things."


@pytest.mark.spec("M5")
def test_who_sends_while_a_box_begins_anew_loses_nothing(folder: TeamFolder):
    """A mail that comes between the last look and the new beginning keeps the old box in place."""
    for _ in range(12):
        folder.post("ann", "bob", Message(text="x" * 100_000))
    cursor = folder.read("bob", Cursor()).cursor
    folder.post("ann", "bob", Message(text="late"))

    assert not folder.prune("bob", cursor)
    assert texts(folder, "bob", cursor) == ["late"]


@pytest.mark.spec("M5")
def test_a_box_that_was_cut_or_restored_is_read_again(folder: TeamFolder):
    """If what was read is gone from the file, what is there is read, less what the reader knows."""
    ids = [folder.post("ann", "bob", Message(text=text)) for text in ("one", "two")]
    path = folder.path / "inbox/bob.jsonl"
    before = path.read_bytes()
    folder.post("ann", "bob", Message(text="lost with the power"))
    cursor = folder.read("bob", Cursor()).cursor
    path.write_bytes(before)
    late = [folder.post("ann", "bob", Message(text=f"new {number}")) for number in range(3)]

    batch = folder.read("bob", cursor, set(ids))
    assert [mail.id for mail, _ in batch.mails] == late
    assert "read again from its beginning" in batch.notes[0]
    assert folder.read("bob", batch.cursor, {*ids, *late}).notes == ()


@pytest.mark.spec("M5")
def test_a_box_without_its_header_still_works(folder: TeamFolder):
    """A damaged first line is set aside like any other; cursors, and a new beginning, go on."""
    path = folder.path / "inbox/bob.jsonl"
    path.write_bytes(b"#" + path.read_bytes()[1:])
    folder.post("ann", "bob", Message(text="one"))
    batch = folder.read("bob", Cursor())
    assert len(batch.mails) == len(batch.damaged) == 1
    for _ in range(12):
        folder.post("ann", "bob", Message(text="x" * 100_000))
    batch = folder.read("bob", batch.cursor)
    assert len(batch.mails) == 12
    assert folder.prune("bob", batch.cursor)
    folder.post("ann", "bob", Message(text="two"))

    rest = folder.read("bob", batch.cursor)
    assert (rest.mails, rest.notes) == ((), ())
    assert texts(folder, "bob", rest.cursor) == ["two"]


@pytest.mark.spec("M1", "M5")
def test_a_name_that_comes_back_has_a_box_of_its_own(folder: TeamFolder):
    """Who is added under the name of one that went gets none of its mail; what that one sent counts."""
    folder.post("leader", "ann", Message(text="for the first ann"))
    folder.post("ann", "bob", Message(text="from the first ann"))
    folder.remove("ann")
    with pytest.raises(UsageError, match="no 'ann' in crew; there are leader, bob"):
        folder.post("leader", "ann", Message(text="x"))
    with pytest.raises(UsageError, match="'ann' is not in crew"):
        folder.post("ann", "bob", Message(text="x"))
    folder.add(Member(name="ann"))
    folder.post("leader", "ann", Message(text="for the second ann"))

    assert texts(folder, "ann") == ["for the second ann"]
    assert texts(folder, "bob") == ["from the first ann"]


@pytest.mark.spec("M1")
def test_what_is_wrong_is_said(tmp_path: Path, folder: TeamFolder):
    """Names taken or impossible, unknown teams, members and boxes: each says what to do."""
    home = tmp_path
    cases = [
        (lambda: TeamFolder.create(home, "a/b", session="s"), "cannot be the name of a team"),
        (lambda: TeamFolder.create(home, "crew", session="s"), "a team crew already"),
        (lambda: TeamFolder.open(home, "../crew"), "cannot be the name of a team"),
        (lambda: TeamFolder.open(home, "crow"), "no team crow; there are: crew"),
        (lambda: folder.add(Member(name="ann")), "a member ann in crew already"),
        (lambda: folder.add(Member(name="leader")), "'leader' cannot be the name"),
        (lambda: folder.change("eve", pid=1), "no member 'eve' in crew; there are: ann, bob"),
        (lambda: folder.change("ann", state="asleep"), "cannot be stored so"),
        (lambda: folder.remove("eve"), "no member 'eve'"),
        (lambda: folder.post("ann", "eve", Message(text="x")), "there are leader, ann, bob"),
        (lambda: folder.post("eve", "ann", Message(text="x")), "'eve' is not in crew"),
        (lambda: folder.post("ann", "ann", Message(text="x")), "cannot write to itself"),
        (lambda: folder.post("ann", "outside", Message(text="x")), "nobody reads mail to outside"),
        (lambda: folder.read("eve", Cursor()), "no mailbox of 'eve' in team crew"),
        (lambda: folder.read("../bob", Cursor()), "cannot be the name of a member"),
        (lambda: folder.prune("eve", Cursor()), "no mailbox of 'eve' in team crew"),
    ]
    before = folder.team
    for call, told in cases:
        with pytest.raises(UsageError, match=re.escape(told)):
            call()

    assert folder.team == before
    assert [path.name for path in (home / "teams").iterdir()] == ["crew"]


@pytest.mark.spec("M1")
def test_a_team_file_that_cannot_be_used_is_named(tmp_path: Path, folder: TeamFolder):
    """One of a newer version, a damaged one and one of another team are told apart."""
    path = folder.path / "team.json"
    good = path.read_text()
    for text, told in (
        (
            good.replace('"version": 1', '"version": 2'),
            "a newer Prong (version 2, this one reads 1)",
        ),
        (good[:-20], "is damaged"),
        (good.replace('"crew"', '"crow"'), "is of a team 'crow'"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=re.escape(told)) as caught:
            TeamFolder.open(tmp_path, "crew")
        assert str(path) in str(caught.value)
        with pytest.raises(UsageError):
            folder.add(Member(name="eve"))
        assert path.read_text() == text


@pytest.mark.spec("M5")
def test_links_and_open_keys_are_refused(tmp_path: Path, folder: TeamFolder):
    """Nothing is written through a link, and a key that others can read signs and proves nothing."""
    target = tmp_path / "target"
    target.write_text("mine")
    box = folder.path / "inbox/ann.jsonl"
    box.unlink()
    box.symlink_to(target)
    with pytest.raises(UsageError, match=r"ann.jsonl cannot be used: it is a link"):
        folder.post("leader", "ann", Message(text="x"))
    assert target.read_text() == "mine"
    box.unlink()
    os.mkfifo(box)
    with pytest.raises(UsageError, match=r"ann.jsonl cannot be used"):
        folder.read("ann", Cursor())

    folder.post("ann", "bob", Message(text="x"))
    key = folder.path / "keys/ann"
    key.chmod(0o644)
    with pytest.raises(UsageError, match="is open to others"):
        folder.post("ann", "bob", Message(text="x"))
    key.chmod(0o600)
    (folder.path / "keys").chmod(0o755)
    with pytest.raises(UsageError, match=r"keys is open to others; chmod 700"):
        TeamFolder.open(tmp_path, "crew")
    (tmp_path / "teams/alias").symlink_to(folder.path)
    with pytest.raises(UsageError, match="no folder but a link"):
        TeamFolder.open(tmp_path, "alias")


@pytest.mark.spec("M5")
def test_a_key_that_was_held_is_still_looked_at(
    folder: TeamFolder, monkeypatch: pytest.MonkeyPatch
):
    """Opened to others, damaged or gone, a key no longer signs, though it signed just before."""
    monkeypatch.setattr(keyring, "COARSE_CLOCK", 0)
    key = folder.path / "keys/ann"
    folder.post("ann", "bob", Message(text="one"))
    folder.post("ann", "bob", Message(text="two"))
    assert texts(folder, "bob") == ["one", "two"]

    key.chmod(0o640)
    with pytest.raises(UsageError, match="is open to others"):
        folder.post("ann", "bob", Message(text="x"))
    with pytest.raises(UsageError, match="is open to others"):
        folder.read("bob", Cursor())
    key.chmod(0o600)
    folder.post("ann", "bob", Message(text="three"))
    key.write_bytes(b"short")
    with pytest.raises(UsageError, match="missing or damaged"):
        folder.post("ann", "bob", Message(text="x"))
    key.unlink()
    with pytest.raises(UsageError, match="missing or damaged"):
        folder.post("ann", "bob", Message(text="x"))


def test_everything_is_for_its_owner_alone(folder: TeamFolder):
    """Folders have mode 700 and files 600, whatever the umask is."""
    folder.tasks.create("x", by="ann")
    add_bytes(folder, "bob", b"rubbish\n")
    folder.read("bob", Cursor())
    for path in (folder.path, *folder.path.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.spec("M5")
def test_a_full_disk_leaves_what_was_there(folder: TeamFolder):
    """What does not fit is taken back and told with the remedy; what came before is safe."""
    folder.post("ann", "bob", Message(text="one"))
    before = lines(folder, "bob")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(b"".join(before)) + 100, limit[1]))
    try:
        with pytest.raises(JournalFull, match=r"bob.jsonl: nothing could be added .*; free some"):
            folder.post("ann", "bob", Message(text="x" * 1_000))
        assert lines(folder, "bob") == before
        with pytest.raises(JournalFull, match=r"leader got it, and nobody else: .*bob.jsonl"):
            folder.post("ann", "*", Message(text="y" * 50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    (folder.path / "inbox/ann.jsonl").unlink()
    with pytest.raises(
        JournalFull, match="bob got it, and nobody else: there is no mailbox of 'ann'"
    ):
        folder.post("leader", "*", Message(text="z"))
    with pytest.raises(UsageError, match="no mailbox of 'ann'"):
        folder.post("leader", "ann", Message(text="z"))
    assert lines(folder, "bob")[: len(before)] == before
    assert texts(folder, "leader") == ["y" * 50]
    folder.post("ann", "bob", Message(text="two"))
    assert texts(folder, "bob") == ["one", "z", "two"]


def test_a_lock_that_is_never_let_go_is_told(folder: TeamFolder, monkeypatch: pytest.MonkeyPatch):
    """Who waits for a stopped process says so after a while, and has written nothing."""
    monkeypatch.setattr(locked_file, "PATIENCE", 0.05)
    with (
        locked_file.locked(folder.path / "inbox/bob.jsonl"),
        pytest.raises(UsageError, match="locked by another process"),
    ):
        folder.post("ann", "bob", Message(text="x"))
    folder.post("ann", "bob", Message(text="y"))

    assert texts(folder, "bob") == ["y"]


def test_a_task_list_that_is_missing_is_told(folder: TeamFolder):
    """It is not silently begun anew; the remedy is said, and works."""
    folder.tasks.create("Dig", by="ann")
    folder.tasks.path.unlink()
    for call in (folder.tasks.list, lambda: folder.tasks.create("Sow", by="ann")):
        with pytest.raises(
            UsageError, match=r"tasks.jsonl is missing; restore it, or make it empty"
        ):
            call()
    folder.tasks.path.touch(mode=0o600)

    assert folder.tasks.create("Sow", by="ann").id == "1"


@pytest.mark.spec("M8")
def test_members_in_one_process_claim_each_task_once(folder: TeamFolder, tmp_path: Path):
    """Threads that share one list of tasks are kept apart like processes, and all see the same."""
    for number in range(60):
        folder.tasks.create(f"Task {number}", by="leader")
    shared = TeamFolder.open(tmp_path, "crew").tasks
    taken: list[str] = []

    def claim(name: str) -> None:
        while task := shared.claim_next(by=name):
            taken.append(task.id)

    def look() -> None:
        while shared.free("ann"):
            pass

    workers = [Thread(target=claim, args=(name,)) for name in ("ann", "bob")]
    workers += [Thread(target=look) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert sorted(taken, key=int) == [str(number) for number in range(1, 61)]
    assert shared.list() == folder.tasks.list()
    assert shared.damage == []


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Teams are not made where locks may not hold; it says where they could be."""
    monkeypatch.setattr(team_folder, "network_type", lambda folder: "nfs4")
    with pytest.raises(UsageError, match=r"network file system \(nfs4\).* set PRONG_HOME"):
        TeamFolder.create(tmp_path, "crew", session="s")
    assert teams(tmp_path) == ()


def test_what_kills_have_left_is_swept(tmp_path: Path, folder: TeamFolder):
    """Teams half made or half deleted, and files half replaced, go with the next change."""
    for name in (".crow.gone.12345678", ".crow.new.12345678"):
        (tmp_path / "teams" / name).mkdir()
    os.utime(tmp_path / "teams/.crow.new.12345678", (0, 0))
    torn = (folder.path / ".team.json.1.ab", folder.path / "keys/.eve.1.ab")
    for path in torn:
        path.touch()
    TeamFolder.create(tmp_path, "crow", session="s")
    folder.add(Member(name="eve"))

    assert {path.name for path in (tmp_path / "teams").iterdir()} == {"crew", "crow"}
    assert not any(path.exists() for path in torn)
    assert teams(tmp_path) == ("crew", "crow")


def test_a_team_made_anew_is_another(tmp_path: Path, folder: TeamFolder):
    """Who still holds the old one finds the new one's members and mail, and none of the old."""
    folder.post("ann", "bob", Message(text="old"))
    folder.tasks.create("old", by="ann")
    cursor = folder.read("bob", Cursor()).cursor
    folder.delete(force=True)
    for call in (lambda: folder.team, folder.tasks.list, lambda: folder.read("bob", cursor)):
        with pytest.raises(UsageError, match=r"gone|no mailbox"):
            call()
    again = TeamFolder.create(tmp_path, "crew", session="s2")
    again.add(Member(name="bob"))
    again.post("leader", "bob", Message(text="new"))

    assert texts(folder, "bob", cursor) == ["new"]
    assert folder.tasks.list() == ()


@pytest.mark.anyio
@pytest.mark.spec("M5")
async def test_a_doorbell_wakes(folder: TeamFolder):
    """Who waits is woken once by mail or a task; without any it looks after the time it said."""
    async with folder.doorbell("ann") as bell:
        assert bell.fault == ""
        assert not await bell.wait(0.01)
        for _ in range(30):
            folder.post("leader", "ann", Message(text="up"))
        assert await bell.wait(30)
        assert not await bell.wait(0.01)
        folder.tasks.create("Dig", by="ann")
        assert not await bell.wait(0.01)
        folder.tasks.create("Sow", by="bob")
        assert await bell.wait(30)
    folder.ring("ann")
    folder.ring("nobody")


@pytest.mark.anyio
async def test_a_doorbell_replaces_a_dead_one(folder: TeamFolder):
    """The socket of a killed process is in nobody's way, and the last one to close leaves none."""
    async with folder.doorbell("ann") as first, folder.doorbell("ann") as second:
        folder.ring("ann")
        assert await second.wait(30)
        assert not await first.wait(0.01)
        await first.__aexit__(None, None, None)
        folder.ring("ann")
        assert await second.wait(30)

    assert not [path for path in socket_paths(folder.path, "ann", "bell") if path.exists()]


@pytest.mark.anyio
async def test_a_doorbell_is_found_from_another_environment(
    folder: TeamFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who rings need not have the variables of who waits; paths stay short wherever the team is."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    async with folder.doorbell("ann") as bell:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        folder.ring("ann")
        assert bell.fault == ""
        assert await bell.wait(30)
    for path in socket_paths(folder.path, "x" * 40, "bell"):
        assert len(os.fsencode(path)) <= 103


@pytest.mark.anyio
async def test_a_doorbell_that_cannot_be_says_so(
    folder: TeamFolder, monkeypatch: pytest.MonkeyPatch
):
    """Without a folder of one's own the bell tells why, and waiting only waits."""
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="b") as short:
        open_to_all = Path(short, "prong")
        open_to_all.mkdir()
        open_to_all.chmod(0o755)
        monkeypatch.setattr(socket_folder, "socket_folders", lambda env: (str(open_to_all),))
        async with folder.doorbell("ann") as bell:
            assert "is open to others (chmod 700)" in bell.fault
            assert not await bell.wait(0.01)
