"""Read on pictures and PDF files."""

from __future__ import annotations

import base64

import pytest

from prong.entry import Image, Text
from prong.tools.files import Read
from prong.tools.tool import Done
from shared.document import make_pdf
from shared.picture import GIF, JPEG, PNG, WEBP, png
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.door]


@pytest.mark.spec("L2")
async def test_pictures(bench: Workbench) -> None:
    """Pictures are told by their bytes, whatever their names; blind models fail clearly."""
    (bench.root / "p.dat").write_bytes(PNG)
    outcome = await bench(Read(), file_path="p.dat")
    assert isinstance(outcome, Done)
    assert outcome.parts == (
        Text(f"[p.dat: image/png, 3x2, {len(PNG)} bytes]"),
        Image("image/png", base64.b64encode(PNG).decode()),
    )
    for data, media in ((JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp")):
        (bench.root / "q").write_bytes(data)
        outcome = await bench(Read(), file_path="q")
        assert isinstance(outcome, Done)
        assert outcome.shown == f"[q: image/{media}, 3x2, {len(data)} bytes]"
    assert "leave out offset" in await bench.why(Read(), file_path="p.dat", offset=2)
    bench.context.images = False
    assert "cannot see" in await bench.why(Read(), file_path="p.dat")


@pytest.mark.spec("L2")
async def test_pictures_that_a_provider_would_refuse(bench: Workbench) -> None:
    """Damaged, cut, too heavy and too large pictures never reach the conversation."""
    path = bench.root / "p.png"
    for whole in (PNG, JPEG, GIF, WEBP):
        for length in range(12, len(whole)):
            path.write_bytes(whole[:length])
            assert "cannot be shown" in await bench.why(Read(), file_path="p.png")
    path.write_bytes(PNG[:-20] + bytes([PNG[-20] ^ 1]) + PNG[-19:])
    assert "damaged" in await bench.why(Read(), file_path="p.png")
    path.write_bytes(png(9000, 1))
    assert "scale it down" in await bench.why(Read(), file_path="p.png")
    path.write_bytes(PNG + bytes(5 << 20))
    assert "smaller" in await bench.why(Read(), file_path="p.png")
    assert bench.context.reads.hashes == {}


@pytest.mark.spec("L2")
async def test_pdf_text(bench: Workbench) -> None:
    """Pages of a PDF come as text; ranges, their ends and broken documents are told apart."""
    pypdf = pytest.importorskip("pypdf")
    (bench.root / "d.pdf").write_bytes(make_pdf(["first page", "second page", "third page"]))
    assert pypdf
    text = await bench.text(Read(), file_path="d.pdf")
    assert "[page 1 of 3]\nfirst page" in text
    assert "third page" in text
    text = await bench.text(Read(), file_path="d.pdf", pages="2")
    assert text.strip() == "[page 2 of 3]\nsecond page"
    assert "past its end" in await bench.why(Read(), file_path="d.pdf", pages="9")
    assert "range such as" in await bench.why(Read(), file_path="d.pdf", pages="x")
    assert "at most 20" in await bench.why(Read(), file_path="d.pdf", pages="1-21")
    assert "use pages" in await bench.why(Read(), file_path="d.pdf", offset=2)
    (bench.root / "bad.pdf").write_bytes(b"%PDF-1.7 not really")
    assert "could not be read" in await bench.why(Read(), file_path="bad.pdf")
    (bench.root / "t.txt").write_text("t")
    assert "not a PDF" in await bench.why(Read(), file_path="t.txt", pages="1")
