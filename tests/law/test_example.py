"""The examples that laws are held to where changes are judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAW = """
import importlib, sys
sys.path.append(sys.argv[1])
import conftest
from hypothesis import given, strategies as st

for name in sys.argv[2:]:
    importlib.import_module(name)

@given(st.text(), st.integers(), st.binary())
def law(text, number, data):
    print(ascii((text, number, data)))

law()
conftest.pytest_unconfigure()
"""


@pytest.mark.door
def test_examples_do_not_depend_on_what_was_loaded_before(tmp_path: Path):
    """With `CI` set, a process that has loaded another module tries the same examples."""
    (tmp_path / "law.py").write_text(LAW)
    (tmp_path / "loaded.py").write_text("WORDS = ['a word of its own', b'and bytes', 918273645]\n")
    seen: list[str] = []
    for names in ((), ("loaded",)):
        words = ["law.py", str(Path(__file__).parents[1]), *names]
        seen.append(
            subprocess.run(
                [sys.executable, *words],
                env={**os.environ, "CI": "true"},
                cwd=tmp_path,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
    assert len(seen[0].splitlines()) > 50
    assert seen[0] == seen[1]
