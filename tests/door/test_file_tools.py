"""Read, Write and Edit on real files, good and bad."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.entry import CallId, Image, Text, plain
from prong.event import Question
from prong.host import LocalHost, Process, Stat
from prong.tool.access import Reading, Writing
from prong.tool.base import Context, Done, Failed, Outcome, Reads, TaskHandle, Tool
from prong.tool.files import Edit, NotebookEdit, Read, Write

pytestmark = [pytest.mark.anyio, pytest.mark.door]


class NoTasks:
    """Background work that these tools have no use for."""

    async def adopt(self, process: Process, *, title: str, first_output: bytes = b"") -> TaskHandle:
        raise AssertionError

    async def output(self, task_id: str, *, wait: float = 0.0) -> Outcome:
        raise AssertionError

    async def stop(self, task_id: str) -> Outcome:
        raise AssertionError

    def busy(self) -> bool:
        return False


async def nobody(questions: Sequence[Question]) -> str | None:
    return None


class World:
    """A project folder and the tools of one agent in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.context = Context(
            host=LocalHost(root, home=str(root)),
            reads=Reads(),
            emit=lambda event: None,
            ask=nobody,
            tasks=NoTasks(),
            storage="",
        )

    async def __call__(self, tool: Tool, **arguments: Any) -> Outcome:
        args = msgspec.convert(arguments, tool.arguments)
        return await tool.run(CallId("c"), args, self.context)

    async def text(self, tool: Tool, **arguments: Any) -> str:
        outcome = await self(tool, **arguments)
        assert isinstance(outcome, Done), outcome
        return plain(outcome.parts)

    async def why(self, tool: Tool, **arguments: Any) -> str:
        outcome = await self(tool, **arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome.why


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "project"
    root.mkdir()
    return World(root)


@pytest.mark.spec("L2")
async def test_text_comes_numbered(world: World) -> None:
    """Lines have a number and a tab; a final line feed makes no line; CR LF endings are not shown."""
    (world.root / "a.txt").write_bytes(b"one\r\ntwo\n\nfour\n")
    text = await world.text(Read(), file_path="a.txt")
    assert text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


@pytest.mark.spec("L2")
async def test_a_range_says_where_it_ends(world: World) -> None:
    """Offset and limit choose lines; a note tells of the rest."""
    (world.root / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 11)))
    text = await world.text(Read(), file_path="a.txt", offset=3, limit=2)
    assert text == "     3\tl3\n     4\tl4\n[lines 3-4 of 10; go on with offset 5]"
    text = await world.text(Read(), file_path="a.txt", offset=10)
    assert text == "    10\tl10\n[lines 10-10 of 10]"
    assert "only 10 lines" in await world.why(Read(), file_path="a.txt", offset=11)


@pytest.mark.spec("L2")
async def test_long_files_and_lines_are_cut_with_a_note(world: World) -> None:
    """By default 2000 lines are shown, and 2000 characters of a line."""
    (world.root / "long").write_text("x\n" * 2500)
    text = await world.text(Read(), file_path="long")
    assert text.endswith("  2000\tx\n[lines 1-2000 of 2500; go on with offset 2001]")
    (world.root / "wide").write_text("y" * 5000 + "\nz\n")
    text = await world.text(Read(), file_path="wide")
    assert text == f"     1\t{'y' * 2000} [… this line goes on]\n     2\tz"


@pytest.mark.spec("L6")
async def test_a_read_stays_within_its_budget(world: World) -> None:
    """However long the lines, the text fits the tool's budget and says where to go on."""
    (world.root / "dense").write_text(("y" * 1900 + "\n") * 2000)
    text = await world.text(Read(), file_path="dense")
    assert len(text) <= Read.budget
    assert "of 2000; go on with offset " in text


@pytest.mark.spec("L2")
@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("\ufeffgrün\n".encode(), "     1\tgrün"),
        ("\ufeffgrün\n".encode("utf-16-le"), "     1\tgrün"),
        ("\ufeffgrün\n".encode("utf-16-be"), "     1\tgrün"),
        ("grün\n".encode("latin-1"), "     1\tgrün\n[decoded as latin-1]"),
        (b"", "[f is empty]"),
    ],
)
async def test_encodings(world: World, data: bytes, shown: str) -> None:
    """Text is understood in its encoding, and a guess is said to be one."""
    (world.root / "f").write_bytes(data)
    assert await world.text(Read(), file_path="f") == shown


@pytest.mark.spec("L2")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(50), "an ELF program"),
        (b"PK\x03\x04" + bytes(50), "a zip archive"),
        (b"SQLite format 3\0" + bytes(50), "an SQLite database"),
        (bytes(range(256)) * 4, "binary data"),
        (b"\xff\xfe\x00\xd8", "binary data"),
        (bytes(set(range(1, 32)) - {10}) * 20 + b"\xff", "binary data"),
    ],
)
async def test_binary_files_are_named(world: World, data: bytes, kind: str) -> None:
    """A file that is no text fails with what it is."""
    (world.root / "f").write_bytes(data)
    assert kind in await world.why(Read(), file_path="f")
    assert world.context.reads.hashes == {}


@pytest.mark.spec("L2")
async def test_pictures(world: World) -> None:
    """Pictures are told by their bytes, whatever their names; blind models fail clearly."""
    (world.root / "p.dat").write_bytes(PNG)
    outcome = await world(Read(), file_path="p.dat")
    assert isinstance(outcome, Done)
    assert outcome.parts == (
        Text(f"[p.dat: image/png, 3x2, {len(PNG)} bytes]"),
        Image("image/png", base64.b64encode(PNG).decode()),
    )
    for data, media in ((JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp")):
        (world.root / "q").write_bytes(data)
        outcome = await world(Read(), file_path="q")
        assert isinstance(outcome, Done)
        assert outcome.shown == f"[q: image/{media}, 3x2, {len(data)} bytes]"
    assert "leave out offset" in await world.why(Read(), file_path="p.dat", offset=2)
    world.context.images = False
    assert "cannot see" in await world.why(Read(), file_path="p.dat")


@pytest.mark.spec("L2")
async def test_pictures_that_a_provider_would_refuse(world: World) -> None:
    """Damaged, cut, too heavy and too large pictures never reach the conversation."""
    path = world.root / "p.png"
    for whole in (PNG, JPEG, GIF, WEBP):
        for length in range(12, len(whole)):
            path.write_bytes(whole[:length])
            assert "cannot be shown" in await world.why(Read(), file_path="p.png")
    path.write_bytes(PNG[:-20] + bytes([PNG[-20] ^ 1]) + PNG[-19:])
    assert "damaged" in await world.why(Read(), file_path="p.png")
    path.write_bytes(png(9000, 1))
    assert "scale it down" in await world.why(Read(), file_path="p.png")
    path.write_bytes(PNG + bytes(5 << 20))
    assert "smaller" in await world.why(Read(), file_path="p.png")
    assert world.context.reads.hashes == {}


def png(width: int, height: int) -> bytes:
    """Make a grey picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    pixels = zlib.compress((b"\0" + b"\x80" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


PNG = png(3, 2)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00"
    b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00pixels\xff\xd9"
)
GIF = b"GIF89a\x03\x00\x02\x00\x00\x00\x00,pixels;"
WEBP = b"RIFF\x14\x00\x00\x00WEBPVP8L\x08\x00\x00\x00\x2f\x02\x40\x00\x00abc"


@pytest.mark.spec("L2")
async def test_what_is_no_file_is_refused(world: World) -> None:
    """Folders, FIFOs, devices, loops and impossible names fail at once and say why."""
    (world.root / "dir").mkdir()
    os.mkfifo(world.root / "fifo")
    (world.root / "loop").symlink_to("loop")
    (world.root / "dangling").symlink_to("nowhere")
    (world.root / "f").touch()
    with anyio.fail_after(10):
        assert "use Glob" in await world.why(Read(), file_path="dir")
        assert "pipe" in await world.why(Read(), file_path="fifo")
        assert "device" in await world.why(Read(), file_path="/dev/zero")
        assert "symbolic links" in await world.why(Read(), file_path="loop")
        assert "no such file" in await world.why(Read(), file_path="dangling")
        assert "no such file" in await world.why(Read(), file_path="gone.txt")
        assert "no such file" in await world.why(Read(), file_path="f/below")
        assert "too long" in await world.why(Read(), file_path="x" * 300)
        assert "not a possible path" in await world.why(Read(), file_path="a\0b")
        assert "pipe" in await world.why(Write(), file_path="fifo", content="x")
        assert "folder" in await world.why(Write(), file_path="dir", content="x")
        assert "not a folder" in await world.why(Write(), file_path="f/below", content="x")
        assert "pipe" in await world.why(Edit(), file_path="fifo", old_string="a", new_string="b")


class VanishingHost(LocalHost):
    """Files vanish as soon as they have been looked at."""

    async def stat(self, path: str) -> Stat | None:
        found = await super().stat(path)
        Path(path).unlink()
        return found


@pytest.mark.spec("L2")
async def test_vanishing_and_unreadable_files(world: World) -> None:
    """A file that goes away in between, or gives an error when read, fails with the reason."""
    assert "nput/output error" in await world.why(Read(), file_path="/proc/self/mem")
    (world.root / "a.txt").write_text("one\n")
    await world.text(Read(), file_path="a.txt")
    world.context.host = VanishingHost(world.root)
    call: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert await world.why(Edit(), **call) == "a.txt: there is no such file"
    (world.root / "a.txt").write_text("one\n")
    assert await world.why(Read(), file_path="a.txt") == "a.txt: there is no such file"
    (world.root / "a.txt").write_text("one\n")
    why = await world.why(Write(), file_path="a.txt", content="x")
    assert why == "a.txt: there is no such file"


@pytest.mark.spec("L2")
async def test_a_huge_file_is_read_in_part(world: World) -> None:
    """A range of a huge file comes without loading it, and its content is known all the same."""
    path = world.root / "huge.log"
    with path.open("wb") as file:
        for i in range(1, 300_001):
            file.write(b"%08d " % i + b"x" * 60 + b"\n")
        file.write(b"w" * 3_000_000 + b"\nlast")
    text = await world.text(Read(), file_path="huge.log", offset=250_000, limit=2)
    head, second, note, size = text.split("\n")
    assert head == "250000\t00250000 " + "x" * 60
    assert second.startswith("250001\t00250001 ")
    assert note == "[lines 250000-250001 of 300002; go on with offset 250002]"
    assert size == f"[a file of {path.stat().st_size:,} bytes]"
    text = await world.text(Read(), file_path="huge.log", offset=300_001)
    assert text.startswith("300001\t" + "w" * 2000 + " [… this line goes on]\n300002\tlast\n")
    assert "past its end" in await world.why(Read(), file_path="huge.log", offset=300_003)
    assert "too large to edit" in await world.why(
        Edit(), file_path="huge.log", old_string="last", new_string="x"
    )
    assert await world.text(Write(), file_path="huge.log", content="small\n")
    assert path.read_text() == "small\n"


@pytest.mark.spec("L3")
async def test_a_huge_file_that_changed_is_stale(world: World) -> None:
    """The streamed hash notices a change."""
    path = world.root / "huge.log"
    path.write_bytes(b"line\n" * 4_000_000)
    await world.text(Read(), file_path="huge.log")
    with path.open("r+b") as file:
        file.seek(15_000_000)
        file.write(b"L")
    why = await world.why(Write(), file_path="huge.log", content="")
    assert why == "huge.log changed since it was read; read it again"


@pytest.mark.spec("L2", "L3")
async def test_a_new_file_needs_no_read(world: World) -> None:
    """Write makes files and folders, shows a diff to people, and knows what it wrote."""
    outcome = await world(Write(), file_path="new/a.py", content="x = 1\ny = 2\n")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "made new/a.py: 2 lines"
    assert outcome.shown == "--- new/a.py\n+++ new/a.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2"
    assert (world.root / "new/a.py").read_text() == "x = 1\ny = 2\n"
    await world.text(Edit(), file_path="new/a.py", old_string="y = 2", new_string="y = 3")
    await world.text(Write(), file_path="new/a.py", content="z")


@pytest.mark.spec("L3")
async def test_changes_need_a_fresh_read(world: World) -> None:
    """An unread or changed file is not touched; after reading again the change goes through."""
    path = world.root / "a.txt"
    path.write_text("one\n")
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "has not been read" in await world.why(Edit(), **edit)
    assert "has not been read" in await world.why(Write(), file_path="a.txt", content="x")
    await world.text(Read(), file_path="a.txt")
    path.write_text("one, changed by another\n")
    assert "changed since it was read; read it again" in await world.why(Edit(), **edit)
    assert "changed since it was read" in await world.why(Write(), file_path="a.txt", content="x")
    assert path.read_text() == "one, changed by another\n"
    await world.text(Read(), file_path="a.txt", limit=1)
    assert await world.text(Edit(), **edit) == "edited a.txt: 1 replacement, line 1"
    assert path.read_text() == "1, changed by another\n"


@pytest.mark.spec("L3")
async def test_reads_belong_to_one_agent(world: World) -> None:
    """A read by one agent gives no other agent leave to write."""
    (world.root / "a.txt").write_text("one\n")
    await world.text(Read(), file_path="a.txt")
    other = World(world.root)
    assert "has not been read" in await other.why(Write(), file_path="a.txt", content="x")


@pytest.mark.spec("L3", "S9")
async def test_a_record_that_was_handed_on(world: World) -> None:
    """By a forebear's record a change is checked that names what it replaces, and no other."""
    path = world.root / "a.txt"
    path.write_text("one\ntwo\n")
    await world.text(Read(), file_path="a.txt")
    child = World(world.root)
    child.context.reads = world.context.reads.hand_on()
    write: dict[str, Any] = {"file_path": "a.txt", "content": "x"}
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "has not been read" in await child.why(Write(), **write)
    assert await child.text(Edit(), **edit) == "edited a.txt: 1 replacement, line 1"
    assert "changed since it was read" in await world.why(Write(), **write), (
        "the parent's is as was"
    )
    assert await child.text(Write(), **write) == "replaced a.txt: 1 line", "its own change it knows"


@pytest.mark.spec("L3", "S9")
async def test_a_record_that_was_handed_on_and_is_out_of_date(world: World) -> None:
    """A file that changed since the forebear read it has to be read, and reading it is enough."""
    path = world.root / "a.txt"
    path.write_text("one\n")
    await world.text(Read(), file_path="a.txt")
    child = World(world.root)
    child.context.reads = world.context.reads.hand_on()
    path.write_text("one, changed by another\n")
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "changed since it was read" in await child.why(Edit(), **edit)
    assert "one, changed by another" in await child.text(Read(), file_path="a.txt")
    await child.text(Write(), file_path="a.txt", content="x")
    assert "changed since it was read" in await world.why(Edit(), **edit)


@pytest.mark.spec("L3")
async def test_one_file_by_two_names(world: World) -> None:
    """A file read through a link is known by its real path too."""
    (world.root / "a.txt").write_text("one\n")
    (world.root / "b.txt").symlink_to("a.txt")
    await world.text(Read(), file_path="b.txt")
    await world.text(Edit(), file_path="a.txt", old_string="one", new_string="two")
    await world.text(Edit(), file_path="b.txt", old_string="two", new_string="three")
    assert (world.root / "a.txt").read_text() == "three\n"
    assert (world.root / "b.txt").is_symlink()


@pytest.mark.spec("L2")
async def test_a_link_out_of_the_project_shows_its_target_to_the_gate(
    world: World, tmp_path: Path
) -> None:
    """What a call declares is where the bytes are, not the name that was given."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (world.root / "innocent").symlink_to(outside)
    for tool, wanted in ((Read(), Reading), (Write(), Writing), (Edit(), Writing)):
        values = {"file_path": "innocent/f", "content": "", "old_string": "a", "new_string": "b"}
        names = {f.encode_name for f in msgspec.structs.fields(tool.arguments)}
        args: Any = msgspec.convert({k: v for k, v in values.items() if k in names}, tool.arguments)
        assert tool.access(args, world.context) == [wanted(f"{outside}/f")]


@pytest.mark.spec("L2")
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("same", "same", "nothing would change"),
        ("", "x", "use Write"),
        ("absent", "x", "was not found"),
        ("dup", "x", "3 places (lines 2, 3, 4)"),
        ("def f():\n  return 1", "x", "lines 5-6 only the white space differs"),
        ("     2\tdup\n     3\tdup", "x", "Leave out the line numbers"),
    ],
)
async def test_an_edit_that_cannot_be_made_says_how_to_mend_it(
    world: World, old: str, new: str, why: str
) -> None:
    """Each failure names its cause and leaves the file alone."""
    body = "same\ndup\ndup\ndup\ndef f():\n\treturn 1\n"
    (world.root / "a.py").write_text(body)
    await world.text(Read(), file_path="a.py")
    said = await world.why(Edit(), file_path="a.py", old_string=old, new_string=new)
    assert why in said
    assert (world.root / "a.py").read_text() == body


@pytest.mark.spec("L2")
async def test_replace_all_and_its_diff(world: World) -> None:
    """Every occurrence is replaced; people see a diff with the right line numbers."""
    (world.root / "a.txt").write_text("".join(f"line {i}\n" for i in range(1, 21)) + "end\n")
    await world.text(Read(), file_path="a.txt")
    outcome = await world(
        Edit(), file_path="a.txt", old_string="line 1", new_string="row 1", replace_all=True
    )
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "edited a.txt: 11 replacements, the first at line 1"
    outcome = await world(Edit(), file_path="a.txt", old_string="line 20", new_string="A\nB")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "edited a.txt: 1 replacement, lines 20-21"
    assert outcome.shown == (
        "--- a.txt\n+++ a.txt\n@@ -17,5 +17,6 @@\n row 17\n row 18\n row 19\n-line 20\n+A\n+B\n end"
    )


@pytest.mark.spec("L2")
async def test_an_encoding_that_cannot_hold_the_new_text(world: World) -> None:
    """A latin-1 file refuses what it cannot hold and stays as it was."""
    (world.root / "a.txt").write_bytes(b"caf\xe9\n")
    await world.text(Read(), file_path="a.txt")
    why = await world.why(Edit(), file_path="a.txt", old_string="caf", new_string="☕")
    assert "latin-1, which cannot hold" in why
    await world.text(Edit(), file_path="a.txt", old_string="é", new_string="è")
    assert (world.root / "a.txt").read_bytes() == b"caf\xe8\n"


@pytest.mark.spec("L2")
async def test_pdf_text(world: World) -> None:
    """Pages of a PDF come as text; ranges, their ends and broken documents are told apart."""
    pypdf = pytest.importorskip("pypdf")
    (world.root / "d.pdf").write_bytes(make_pdf(["first page", "second page", "third page"]))
    assert pypdf
    text = await world.text(Read(), file_path="d.pdf")
    assert "[page 1 of 3]\nfirst page" in text
    assert "third page" in text
    text = await world.text(Read(), file_path="d.pdf", pages="2")
    assert text.strip() == "[page 2 of 3]\nsecond page"
    assert "past its end" in await world.why(Read(), file_path="d.pdf", pages="9")
    assert "range such as" in await world.why(Read(), file_path="d.pdf", pages="x")
    assert "at most 20" in await world.why(Read(), file_path="d.pdf", pages="1-21")
    assert "use pages" in await world.why(Read(), file_path="d.pdf", offset=2)
    (world.root / "bad.pdf").write_bytes(b"%PDF-1.7 not really")
    assert "could not be read" in await world.why(Read(), file_path="bad.pdf")
    (world.root / "t.txt").write_text("t")
    assert "not a PDF" in await world.why(Read(), file_path="t.txt", pages="1")


def make_pdf(texts: list[str]) -> bytes:
    """Write a small PDF with one line of text per page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(texts)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            (
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
                f"/Resources << /Font << /F1 3 0 R >> >> >>"
            ),
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    out, offsets = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{at:010d} 00000 n \n" for at in offsets)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\n".encode()
    return out + f"startxref\n{start}\n%%EOF\n".encode()


NOTEBOOK: dict[str, Any] = {
    "cells": [
        {
            "cell_type": "markdown",
            "id": "m1",
            "metadata": {"k": [1.5]},
            "source": ["# Title\n", "x"],
        },
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "c1",
            "metadata": {},
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": base64.encodebytes(PNG).decode(), "text/plain": "<Fig>"},
                },
                {
                    "output_type": "error",
                    "ename": "E",
                    "evalue": "v",
                    "traceback": ["\x1b[31mboom\x1b[0m"],
                },
            ],
            "source": "print('hello')",
        },
    ],
    "metadata": {"kernelspec": {"name": "python3", "ünï": "ç"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def put_notebook(world: World) -> Path:
    path = world.root / "n.ipynb"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(NOTEBOOK), indent=1) + b"\n")
    return path


@pytest.mark.spec("L2")
async def test_a_notebook_shows_cells_and_outputs(world: World) -> None:
    """Cells come with ids, sources, text outputs without colours, and pictures in their place."""
    put_notebook(world)
    outcome = await world(Read(), file_path="n.ipynb")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == (
        "[cell 0, markdown, id m1]\n# Title\nx\n[cell 1, code, id c1]\nprint('hello')\n[output]\n"
        "hello\n\n[output]\n<Fig>\n[image/png]\n[output]\nboom"
    )
    assert outcome.parts[1] == Image("image/png", base64.b64encode(PNG).decode())
    assert '"nbformat"' in await world.text(Read(), file_path="n.ipynb", offset=1)
    (world.root / "bad.ipynb").write_text('{"cells": 3}')
    assert "not a valid notebook" in await world.why(Read(), file_path="bad.ipynb")


@pytest.mark.spec("L2", "L3")
async def test_notebook_cells_are_replaced_inserted_and_deleted(world: World) -> None:
    """Only the named cell changes; the rest of the file stays byte for byte."""
    path = put_notebook(world)
    before = path.read_bytes()
    call: dict[str, Any] = {"notebook_path": "n.ipynb"}
    assert "has not been read" in await world.why(NotebookEdit(), **call, cell_id="m1")
    await world.text(Read(), file_path="n.ipynb")
    said = await world.text(NotebookEdit(), **call, cell_id="m1", new_source="# New\n\nmore")
    assert said == "replaced cell 0 of n.ipynb"
    assert path.read_bytes() == before.replace(
        b'"# Title\\n",\n    "x"', b'"# New\\n",\n    "\\n",\n    "more"'
    )
    said = await world.text(
        NotebookEdit(), **call, cell_number=1, edit_mode="insert", cell_type="code", new_source="1"
    )
    assert said.startswith("inserted code cell 2 (id ")
    said = await world.text(NotebookEdit(), **call, cell_number=1, new_source="2")
    assert said == "replaced cell 1 of n.ipynb; its outputs were cleared"
    said = await world.text(NotebookEdit(), **call, cell_id="m1", edit_mode="delete")
    cells = msgspec.json.decode(path.read_bytes())["cells"]
    assert [(c["cell_type"], c["source"], c["outputs"]) for c in cells] == [
        ("code", "2", []),
        ("code", ["1"], []),
    ]
    first = await world.text(
        NotebookEdit(), **call, edit_mode="insert", cell_type="markdown", new_source="top"
    )
    assert first.startswith("inserted markdown cell 0")
    assert "no cell has the id 'zz'" in await world.why(NotebookEdit(), **call, cell_id="zz")
    assert "has 3 cells" in await world.why(NotebookEdit(), **call, cell_number=3)
    assert "not both" in await world.why(NotebookEdit(), **call, cell_id="c1", cell_number=0)
    assert "needs cell_id" in await world.why(NotebookEdit(), **call, new_source="x")
    assert "needs cell_type" in await world.why(NotebookEdit(), **call, edit_mode="insert")


async def test_unknown_arguments_are_refused() -> None:
    """A parameter that no tool knows is an error, not ignored."""
    with pytest.raises(msgspec.ValidationError, match="lines"):
        msgspec.convert({"file_path": "a", "lines": 3}, Read.arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "title"),
    [
        (Read(), {"file_path": "a"}, "Read a"),
        (Read(), {"file_path": "a", "offset": 5, "limit": 3}, "Read a:5-7"),
        (Read(), {"file_path": "a", "pages": "2"}, "Read a (pages 2)"),
        (Write(), {"file_path": "a", "content": ""}, "Write a"),
        (Edit(), {"file_path": "a", "old_string": "", "new_string": ""}, "Edit a"),
        (NotebookEdit(), {"notebook_path": "n"}, "NotebookEdit n"),
        (NotebookEdit(), {"notebook_path": "n", "cell_number": 0}, "NotebookEdit n (cell 0)"),
    ],
)
def test_titles(tool: Tool, arguments: dict[str, Any], title: str) -> None:
    """People see the tool, the file and the part in one line."""
    assert tool.title(msgspec.convert(arguments, tool.arguments)) == title


@pytest.mark.spec("L2", "L6")
async def test_odd_notebooks(world: World) -> None:
    """Junk pictures are left out, long ones cut, empty and endless ones told of."""
    outputs = [
        {"output_type": "display_data", "data": {"image/png": "!!", "text/plain": ["a", "b"]}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}},
        {"output_type": "stream", "text": "z" * 20_000},
    ]
    cells: list[dict[str, Any]] = [{"cell_type": "code", "source": "1", "outputs": outputs}]
    path = world.root / "n.ipynb"
    path.write_bytes(msgspec.json.encode({"cells": cells}))
    outcome = await world(Read(), file_path="n.ipynb")
    assert isinstance(outcome, Done)
    assert [part for part in outcome.parts if isinstance(part, Image)] == [
        Image("image/png", base64.b64encode(PNG).decode())
    ]
    assert "[cell 0, code, id cell-0]" in plain(outcome.parts)
    assert "[… 10000 more characters]" in plain(outcome.parts)
    world.context.images = False
    assert "[a picture, image/png]" in await world.text(Read(), file_path="n.ipynb")
    said = await world.text(
        NotebookEdit(),
        notebook_path="n.ipynb",
        cell_id="cell-0",
        cell_type="markdown",
        new_source="x",
    )
    assert said == "replaced cell 0 of n.ipynb"
    assert path.read_bytes() == b'{"cells": [{"cell_type": "markdown", "source": "x"}]}'
    path.write_bytes(msgspec.json.encode({"cells": cells * 100}))
    text = await world.text(Read(), file_path="n.ipynb")
    assert text.endswith("more cells; read the file as text with offset and limit]")
    assert len(text) <= 2 * Read.budget
    path.write_text('{"cells": []}')
    assert await world.text(Read(), file_path="n.ipynb") == "[a notebook without cells]"
    path.write_bytes(b'{"cells": ' + b"[" * 100_000)
    assert "not a valid notebook" in await world.why(Read(), file_path="n.ipynb")
