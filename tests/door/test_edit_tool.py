"""Write and Edit on real files, good and bad; what must have been read before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.entry import plain
from prong.tools.access import Reading, Writing
from prong.tools.files import Edit, Read, Write
from prong.tools.tool import Done
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door]


@pytest.mark.spec("L3")
async def test_a_huge_file_that_changed_is_stale(bench: Workbench) -> None:
    """The streamed hash notices a change."""
    path = bench.root / "huge.log"
    path.write_bytes(b"line\n" * 4_000_000)
    await bench.text(Read(), file_path="huge.log")
    with path.open("r+b") as file:
        file.seek(15_000_000)
        file.write(b"L")
    why = await bench.why(Write(), file_path="huge.log", content="")
    assert why == "huge.log changed since it was read; read it again"


@pytest.mark.spec("L2", "L3")
async def test_a_new_file_needs_no_read(bench: Workbench) -> None:
    """Write makes files and folders, shows a diff to people, and knows what it wrote."""
    outcome = await bench(Write(), file_path="new/a.py", content="x = 1\ny = 2\n")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "made new/a.py: 2 lines"
    assert outcome.shown == "--- new/a.py\n+++ new/a.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2"
    assert (bench.root / "new/a.py").read_text() == "x = 1\ny = 2\n"
    await bench.text(Edit(), file_path="new/a.py", old_string="y = 2", new_string="y = 3")
    await bench.text(Write(), file_path="new/a.py", content="z")


@pytest.mark.spec("L3")
async def test_changes_need_a_fresh_read(bench: Workbench) -> None:
    """An unread or changed file is not touched; after reading again the change goes through."""
    path = bench.root / "a.txt"
    path.write_text("one\n")
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "has not been read" in await bench.why(Edit(), **edit)
    assert "has not been read" in await bench.why(Write(), file_path="a.txt", content="x")
    await bench.text(Read(), file_path="a.txt")
    path.write_text("one, changed by another\n")
    assert "changed since it was read; read it again" in await bench.why(Edit(), **edit)
    assert "changed since it was read" in await bench.why(Write(), file_path="a.txt", content="x")
    assert path.read_text() == "one, changed by another\n"
    await bench.text(Read(), file_path="a.txt", limit=1)
    assert await bench.text(Edit(), **edit) == "edited a.txt: 1 replacement, line 1"
    assert path.read_text() == "1, changed by another\n"


@pytest.mark.spec("L3")
async def test_reads_belong_to_one_agent(bench: Workbench) -> None:
    """A read by one agent gives no other agent leave to write."""
    (bench.root / "a.txt").write_text("one\n")
    await bench.text(Read(), file_path="a.txt")
    other = Workbench(bench.root)
    assert "has not been read" in await other.why(Write(), file_path="a.txt", content="x")


@pytest.mark.spec("L3", "S9")
async def test_a_record_that_was_handed_on(bench: Workbench) -> None:
    """By a forebear's record a change is checked that names what it replaces, and no other."""
    path = bench.root / "a.txt"
    path.write_text("one\ntwo\n")
    await bench.text(Read(), file_path="a.txt")
    child = Workbench(bench.root)
    child.context.reads = bench.context.reads.hand_on()
    write: dict[str, Any] = {"file_path": "a.txt", "content": "x"}
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "has not been read" in await child.why(Write(), **write)
    assert await child.text(Edit(), **edit) == "edited a.txt: 1 replacement, line 1"
    assert "changed since it was read" in await bench.why(Write(), **write), (
        "the parent's is as was"
    )
    assert await child.text(Write(), **write) == "replaced a.txt: 1 line", "its own change it knows"


@pytest.mark.spec("L3", "S9")
async def test_a_record_that_was_handed_on_and_is_out_of_date(bench: Workbench) -> None:
    """A file that changed since the forebear read it has to be read, and reading it is enough."""
    path = bench.root / "a.txt"
    path.write_text("one\n")
    await bench.text(Read(), file_path="a.txt")
    child = Workbench(bench.root)
    child.context.reads = bench.context.reads.hand_on()
    path.write_text("one, changed by another\n")
    edit: dict[str, Any] = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert "changed since it was read" in await child.why(Edit(), **edit)
    assert "one, changed by another" in await child.text(Read(), file_path="a.txt")
    await child.text(Write(), file_path="a.txt", content="x")
    assert "changed since it was read" in await bench.why(Edit(), **edit)


@pytest.mark.spec("L3")
async def test_one_file_by_two_names(bench: Workbench) -> None:
    """A file read through a link is known by its real path too."""
    (bench.root / "a.txt").write_text("one\n")
    (bench.root / "b.txt").symlink_to("a.txt")
    await bench.text(Read(), file_path="b.txt")
    await bench.text(Edit(), file_path="a.txt", old_string="one", new_string="two")
    await bench.text(Edit(), file_path="b.txt", old_string="two", new_string="three")
    assert (bench.root / "a.txt").read_text() == "three\n"
    assert (bench.root / "b.txt").is_symlink()


@pytest.mark.spec("L2")
async def test_a_link_out_of_the_project_shows_its_target_to_the_gate(
    bench: Workbench, tmp_path: Path
) -> None:
    """What a call declares is where the bytes are, not the name that was given."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (bench.root / "innocent").symlink_to(outside)
    for tool, wanted in ((Read(), Reading), (Write(), Writing), (Edit(), Writing)):
        values = {"file_path": "innocent/f", "content": "", "old_string": "a", "new_string": "b"}
        names = {f.encode_name for f in msgspec.structs.fields(tool.arguments)}
        args: Any = msgspec.convert({k: v for k, v in values.items() if k in names}, tool.arguments)
        assert tool.access(args, bench.context) == [wanted(f"{outside}/f")]


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
    bench: Workbench, old: str, new: str, why: str
) -> None:
    """Each failure names its cause and leaves the file alone."""
    body = "same\ndup\ndup\ndup\ndef f():\n\treturn 1\n"
    (bench.root / "a.py").write_text(body)
    await bench.text(Read(), file_path="a.py")
    said = await bench.why(Edit(), file_path="a.py", old_string=old, new_string=new)
    assert why in said
    assert (bench.root / "a.py").read_text() == body


@pytest.mark.spec("L2")
async def test_replace_all_and_its_diff(bench: Workbench) -> None:
    """Every occurrence is replaced; people see a diff with the right line numbers."""
    (bench.root / "a.txt").write_text("".join(f"line {i}\n" for i in range(1, 21)) + "end\n")
    await bench.text(Read(), file_path="a.txt")
    outcome = await bench(
        Edit(), file_path="a.txt", old_string="line 1", new_string="row 1", replace_all=True
    )
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "edited a.txt: 11 replacements, the first at line 1"
    outcome = await bench(Edit(), file_path="a.txt", old_string="line 20", new_string="A\nB")
    assert isinstance(outcome, Done)
    assert plain(outcome.parts) == "edited a.txt: 1 replacement, lines 20-21"
    assert outcome.shown == (
        "--- a.txt\n+++ a.txt\n@@ -17,5 +17,6 @@\n row 17\n row 18\n row 19\n-line 20\n+A\n+B\n end"
    )


@pytest.mark.spec("L2")
async def test_an_encoding_that_cannot_hold_the_new_text(bench: Workbench) -> None:
    """A latin-1 file refuses what it cannot hold and stays as it was."""
    (bench.root / "a.txt").write_bytes(b"caf\xe9\n")
    await bench.text(Read(), file_path="a.txt")
    why = await bench.why(Edit(), file_path="a.txt", old_string="caf", new_string="☕")
    assert "latin-1, which cannot hold" in why
    await bench.text(Edit(), file_path="a.txt", old_string="é", new_string="è")
    assert (bench.root / "a.txt").read_bytes() == b"caf\xe8\n"
