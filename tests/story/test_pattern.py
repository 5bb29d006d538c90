"""The ways to work that docs/patterns.md compares, as the bench plays them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.anyio, pytest.mark.spec("F19", "K3")]


@pytest.fixture
def patterns() -> ModuleType:
    """Load the bench."""
    spec = importlib.util.spec_from_file_location("patterns", ROOT / "bench/patterns.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["patterns"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("way", ["alone", "forks", "typed", "briefed", "coordinator"])
async def test_the_page_says_what_the_server_counts(patterns: ModuleType, way: str) -> None:
    """Requests are as the first table has them, dollars within two per cent."""
    page = (ROOT / "docs/patterns.md").read_text("utf-8")
    row = re.search(rf"^\| {way} \| (\d+) \| (\d+) \|.* ([\d.]+) \|$", page, re.MULTILINE)
    assert row is not None

    bill = await patterns.play(way, 20_000, 1)

    assert (bill.requests, bill.in_a_row) == (int(row[1]), int(row[2]))
    assert bill.cost == pytest.approx(float(row[3]), rel=0.02)
