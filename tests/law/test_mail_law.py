"""Lines of mail: signed, damaged in any way, and who may send what."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.errors import BadInput
from prong.mail import (
    Cursor,
    Idle,
    MailBody,
    Member,
    Message,
    PermissionRequest,
    PermissionResponse,
    PermissionSettled,
    PlanRequest,
    PlanResponse,
    ShutdownRequest,
    ShutdownResponse,
    TeamFolder,
    check_name,
    may,
)
from prong.mail.network_mount import network_type
from prong.mail.signed_line import Unsound, claimed_sender, is_signed, sign

TEXTS = ["one", "two\nthree", "é\u2028</x>", "", "long " * 300, "last"]
KEY = bytes(range(32))

ASKED = (
    PermissionRequest(request_id="r", tool="Bash", title="ls"),
    PermissionSettled(request_id="r", outcome="allowed"),
    PlanRequest(request_id="r", plan="p"),
    ShutdownResponse(request_id="r", agree=True),
    Idle(),
)
"""What is for the leader alone."""
DECIDED = (
    PermissionResponse(request_id="r", allow=True),
    PlanResponse(request_id="r", approve=True),
    ShutdownRequest(request_id="r"),
)
"""What is from the leader alone."""


class Said(msgspec.Struct):
    """The least that a line can say."""

    text: str
    v: int = 1
    sender: str = msgspec.field(default="ann", name="from")


class Box:
    """A box with mail in it, whose bytes a test may spoil."""

    def __init__(self, home: Path) -> None:
        self.folder = TeamFolder.create(home, "crew", session="s")
        self.folder.add(Member(name="ann"))
        self.ids = [self.folder.post("ann", "leader", Message(text=text)) for text in TEXTS]
        self.path = self.folder.path / "inbox/leader.jsonl"
        self.data = self.path.read_bytes()

    def read(self, data: bytes) -> list[str]:
        """Give the ids that are read from these bytes, checking that damage is told once."""
        self.path.write_bytes(data)
        aside = self.path.with_name("leader.aside.jsonl")
        aside.unlink(missing_ok=True)
        batch = self.folder.read("leader", Cursor())
        kept = aside.read_bytes() if aside.exists() else b""
        again = self.folder.read("leader", batch.cursor, {*self.ids})
        assert not again.mails
        assert not again.damaged
        assert self.folder.read("leader", Cursor()) == batch
        assert (aside.read_bytes() if aside.exists() else b"") == kept
        assert len({piece.id for piece in batch.damaged}) == len(batch.damaged)
        assert kept.count(b"\n") == len(batch.damaged)
        return [mail.id for mail, _ in batch.mails]

    def spans(self) -> list[tuple[int, int]]:
        """Give where each mail's line stands, its newline included."""
        ends = [i + 1 for i, byte in enumerate(self.data) if byte == 10]
        return list(pairwise(ends))

    def whole(self, start: int, end: int) -> list[str]:
        """Name the mails that have no byte in a range of bytes, nor begin where it ends a line."""
        pairs = zip(self.ids, self.spans(), strict=True)
        return [id_ for id_, (a, b) in pairs if b <= start or a > end]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """Give one box to all tests of the module."""
    with tempfile.TemporaryDirectory() as home:
        yield Box(Path(home))


@pytest.mark.spec("M5")
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_stops_nobody(box: Box, data: st.DataObject) -> None:
    """Whatever bytes replace whatever bytes, lines beside them are read, in order, and nothing else."""
    start = data.draw(st.integers(0, len(box.data)))
    end = min(len(box.data), start + data.draw(st.integers(0, 400)))
    pieces = st.one_of(st.binary(max_size=400), st.just(b"\n"), st.just(box.data[:300]))
    piece = data.draw(pieces)

    found = box.read(box.data[:start] + piece + box.data[end:])

    assert [id_ for id_ in box.ids if id_ in found] == found
    assert set(box.whole(start, end)) <= set(found)


@pytest.mark.spec("M5")
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_line_that_is_written_down_again_counts_once(box: Box, data: st.DataObject) -> None:
    """Lines copied, swapped or left out never make a mail that was not sent, or one twice."""
    lines = box.data.splitlines(keepends=True)
    order = data.draw(st.lists(st.integers(1, len(lines) - 1), max_size=12))

    found = box.read(lines[0] + b"".join(lines[i] for i in order))

    assert found == list(dict.fromkeys(box.ids[i - 1] for i in order))


@pytest.mark.spec("M5")
def test_a_cut_anywhere_leaves_what_was_whole(box: Box) -> None:
    """Cut after any byte, the box gives the mails that end before it, and the next one stands alone."""
    for length in range(len(box.data)):
        whole = [id_ for id_, (_, end) in zip(box.ids, box.spans(), strict=True) if end <= length]
        assert box.read(box.data[:length]) == whole


@given(st.text(max_size=300), st.binary(min_size=32, max_size=32), st.text("ab", max_size=3))
def test_a_line_proves_its_writer_and_its_place(text: str, key: bytes, other: str) -> None:
    """A signature holds for one key, one team and one file, and no byte of the line can change."""
    line = sign(Said(text), key=KEY, team="t", place="inbox/a").rstrip(b"\n")

    assert claimed_sender(line) == "ann"
    assert is_signed(line, key=KEY, team="t", place="inbox/a")
    assert not is_signed(line, key=KEY, team=f"t{other}x", place="inbox/a")
    assert not is_signed(line, key=KEY, team="t", place=f"inbox/a{other}x")
    assert is_signed(line, key=key, team="t", place="inbox/a") == (key == KEY)
    for at in range(0, len(line), 7):
        changed = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        with pytest.raises(Unsound):
            claimed_sender(changed)


@given(st.binary(max_size=400))
def test_no_bytes_are_a_line_by_chance(data: bytes) -> None:
    """Anything that is no line is said to be none."""
    with pytest.raises(Unsound):
        claimed_sender(data)


@pytest.mark.spec("M5", "M6")
@pytest.mark.parametrize("body", [Message(text="x"), *ASKED, *DECIDED])
@pytest.mark.parametrize("sender", ["leader", "ann", "bob", "outside"])
@pytest.mark.parametrize("to", ["leader", "ann", "bob", "outside", "*"])
def test_who_may_send_what(body: MailBody, sender: str, to: str) -> None:
    """Anybody may say something; decisions are the leader's, requests and idleness are for it."""
    if isinstance(body, Message):
        fine = to not in {sender, "outside"}
    elif body in DECIDED:
        fine = sender == "leader" and to in {"ann", "bob"}
    else:
        fine = sender in {"ann", "bob"} and to == "leader"

    assert (may(body, sender, to) is None) == fine


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a/b", "/etc", "a.b", "A", "ä", "a b", "a\n", "a\0", "-a", "a-", "x" * 41),
        *("leader", "outside", "user", "*", "-", "a\u202eb", "__init__"),
    ],
)
def test_names_that_cannot_be(name: str) -> None:
    """A name that is a path, hidden, reserved or too long is refused with what would do."""
    with pytest.raises(BadInput, match="cannot be the name"):
        check_name(name)


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True))
def test_names_that_can_be(name: str) -> None:
    """Lower-case letters, digits and hyphens make a name."""
    assert check_name(name, of="team") == name


MOUNTS = r"""/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
srv:/home /home nfs4 rw,vers=4.2 0 0
/dev/vdb /home/local xfs rw 0 0
me@host: /mnt/my\040files fuse.sshfs rw 0 0
/dev/vdc /covered nfs rw 0 0
/dev/vdc /covered ext4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/ann/.prong", "nfs4"),
        ("/home/local/ann", ""),
        ("/homework", ""),
        ("/mnt/my files/x", "fuse.sshfs"),
        ("/covered/x", ""),
        ("/var", ""),
    ],
)
def test_a_folder_on_another_machine_is_known(folder: str, kind: str) -> None:
    """The innermost mount above a folder says whether it is on a network."""
    assert network_type(Path(folder), MOUNTS) == kind
