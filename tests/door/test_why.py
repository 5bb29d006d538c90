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


@pytest.mark.timeout(240)
def test_prongs_programs_run():
    """Each program, started as a user would, prints what it should and writes no other file."""
    with ThreadPoolExecutor() as pool:
        given = pool.map(lambda task: WHY["run"]("prong", task), WHY["TASKS"])

    assert dict(zip(WHY["TASKS"], given, strict=True)) == WHY["EXPECTED"]


def test_a_guard_that_lets_everything_pass_is_noticed(tmp_path: Path):
    """It is the guard that keeps the file from being written, not anything around it."""
    code = WHY["program"]("prong", "guard").read_text("utf-8")
    blind = tmp_path / "guard.py"
    blind.write_text(code.replace("hooks=[only_out]", "hooks=[]"), "utf-8")

    assert WHY["run"]("prong", "guard", blind) == "Nobody objected.\nnotes.txt"
