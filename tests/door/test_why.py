"""What docs/why.md shows beside others: its table, its programs, and that Prong's run."""

import re
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.door, pytest.mark.spec("X4")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/why.md").read_text("utf-8")
WHY: dict[str, Any] = runpy.run_path(str(ROOT / "bench/why/run.py"))


def test_the_table_counts_the_programs():
    """The lines in docs/why.md are those of the programs in bench/why."""
    assert "\n".join(WHY["table"]()) in PAGE


def test_the_programs_on_the_page_are_those_that_were_run():
    """Each program on the page is a file of bench/why, to the letter."""
    programs = {path.read_text("utf-8") for path in (ROOT / "bench/why").glob("*/*.py")}
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

    assert shown
    assert [code for code in shown if code not in programs] == []


def test_prongs_programs_run():
    """Each program prints what it should, as a user would start it."""
    with ThreadPoolExecutor() as pool:
        printed = pool.map(lambda task: WHY["run"]("prong", task), WHY["PRINTED"])

    assert dict(zip(WHY["PRINTED"], printed, strict=True)) == WHY["PRINTED"]
