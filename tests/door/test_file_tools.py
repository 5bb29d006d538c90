"""Read on real files, good and bad, and what all file tools have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.host import LocalHost, Stat
from prong.tools.files import Edit, NotebookEdit, Read, Write
from prong.tools.tool import Tool
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door]


@pytest.mark.spec("L2")
async def test_text_comes_numbered(bench: Workbench) -> None:
    """Lines have a number and a tab; a final line feed makes no line; CR LF endings are not shown."""
    (bench.root / "a.txt").write_bytes(b"one\r\ntwo\n\nfour\n")
    text = await bench.text(Read(), file_path="a.txt")
    assert text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


@pytest.mark.spec("L2")
async def test_a_range_says_where_it_ends(bench: Workbench) -> None:
    """Offset and limit choose lines; a note tells of the rest."""
    (bench.root / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 11)))
    text = await bench.text(Read(), file_path="a.txt", offset=3, limit=2)
    assert text == "     3\tl3\n     4\tl4\n[lines 3-4 of 10; go on with offset 5]"
    text = await bench.text(Read(), file_path="a.txt", offset=10)
    assert text == "    10\tl10\n[lines 10-10 of 10]"
    assert "only 10 lines" in await bench.why(Read(), file_path="a.txt", offset=11)


@pytest.mark.spec("L2")
async def test_long_files_and_lines_are_cut_with_a_note(bench: Workbench) -> None:
    """By default 2000 lines are shown, and 2000 characters of a line."""
    (bench.root / "long").write_text("x\n" * 2500)
    text = await bench.text(Read(), file_path="long")
    assert text.endswith("  2000\tx\n[lines 1-2000 of 2500; go on with offset 2001]")
    (bench.root / "wide").write_text("y" * 5000 + "\nz\n")
    text = await bench.text(Read(), file_path="wide")
    assert text == f"     1\t{'y' * 2000} [… this line goes on]\n     2\tz"


@pytest.mark.spec("L6")
async def test_a_read_stays_within_its_budget(bench: Workbench) -> None:
    """However long the lines, the text fits the tool's budget and says where to go on."""
    (bench.root / "dense").write_text(("y" * 1900 + "\n") * 2000)
    text = await bench.text(Read(), file_path="dense")
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
async def test_encodings(bench: Workbench, data: bytes, shown: str) -> None:
    """Text is understood in its encoding, and a guess is said to be one."""
    (bench.root / "f").write_bytes(data)
    assert await bench.text(Read(), file_path="f") == shown


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
async def test_binary_files_are_named(bench: Workbench, data: bytes, kind: str) -> None:
    """A file that is no text fails with what it is."""
    (bench.root / "f").write_bytes(data)
    assert kind in await bench.why(Read(), file_path="f")
    assert bench.context.reads.hashes == {}


@pytest.mark.spec("L2")
async def test_what_is_no_file_is_refused(bench: Workbench) -> None:
    """Folders, FIFOs, devices, loops and impossible names fail at once and say why."""
    (bench.root / "dir").mkdir()
    os.mkfifo(bench.root / "fifo")
    (bench.root / "loop").symlink_to("loop")
    (bench.root / "dangling").symlink_to("nowhere")
    (bench.root / "f").touch()
    with anyio.fail_after(50):
        assert "use Glob" in await bench.why(Read(), file_path="dir")
        assert "pipe" in await bench.why(Read(), file_path="fifo")
        assert "device" in await bench.why(Read(), file_path="/dev/zero")
        assert "symbolic links" in await bench.why(Read(), file_path="loop")
        assert "no such file" in await bench.why(Read(), file_path="dangling")
        assert "no such file" in await bench.why(Read(), file_path="gone.txt")
        assert "no such file" in await bench.why(Read(), file_path="f/below")
        assert "too long" in await bench.why(Read(), file_path="x" * 300)
        assert "not a possible path" in await bench.why(Read(), file_path="a\0b")
        assert "pipe" in await bench.why(Write(), file_path="fifo", content="x")
        assert "folder" in await bench.why(Write(), file_path="dir", content="x")
        assert "not a folder" in await bench.why(Write(), file_path="f/below", content="x")
        assert "pipe" in await bench.why(Edit(), file_path="fifo", old_string="a", new_string="b")


class VanishingHost(LocalHost):
    """Files vanish as soon as they have been looked at."""

    async def stat(self, path: str) -> Stat | None:
        found = await super().stat(path)
        Path(path).unlink()
        return found


@pytest.mark.spec("L2")
async def test_vanishing_and_unreadable_files(bench: Workbench) -> None:
    """A file that goes away in between, or gives an error when read, fails with the reason."""
    assert "nput/output error" in await bench.why(Read(), file_path="/proc/self/mem")
    (bench.root / "a.txt").write_text("one\n")
    await bench.text(Read(), file_path="a.txt")
    bench.context.host = VanishingHost(bench.root)
    call: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert await bench.why(Edit(), **call) == "a.txt: there is no such file"
    (bench.root / "a.txt").write_text("one\n")
    assert await bench.why(Read(), file_path="a.txt") == "a.txt: there is no such file"
    (bench.root / "a.txt").write_text("one\n")
    why = await bench.why(Write(), file_path="a.txt", content="x")
    assert why == "a.txt: there is no such file"


@pytest.mark.spec("L2")
async def test_a_huge_file_is_read_in_part(bench: Workbench) -> None:
    """A range of a huge file comes without loading it, and its content is known all the same."""
    path = bench.root / "huge.log"
    with path.open("wb") as file:
        for i in range(1, 300_001):
            file.write(b"%08d " % i + b"x" * 60 + b"\n")
        file.write(b"w" * 3_000_000 + b"\nlast")
    text = await bench.text(Read(), file_path="huge.log", offset=250_000, limit=2)
    head, second, note, size = text.split("\n")
    assert head == "250000\t00250000 " + "x" * 60
    assert second.startswith("250001\t00250001 ")
    assert note == "[lines 250000-250001 of 300002; go on with offset 250002]"
    assert size == f"[a file of {path.stat().st_size:,} bytes]"
    text = await bench.text(Read(), file_path="huge.log", offset=300_001)
    assert text.startswith("300001\t" + "w" * 2000 + " [… this line goes on]\n300002\tlast\n")
    assert "past its end" in await bench.why(Read(), file_path="huge.log", offset=300_003)
    assert "too large to edit" in await bench.why(
        Edit(), file_path="huge.log", old_string="last", new_string="x"
    )
    assert await bench.text(Write(), file_path="huge.log", content="small\n")
    assert path.read_text() == "small\n"


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
