"""What a second look lets pass, and what not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import second_look

pytestmark = pytest.mark.door

CHANCE = """
from pathlib import Path

def test_chance():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
GOOD = "def test_good():\n    pass\n"
WRONG = "def test_wrong():\n    assert False\n"
BAD_END = """
import pytest

@pytest.fixture
def bad_end():
    yield
    assert False

def test_end(bad_end):
    pass
"""
HUNT = f"import pytest\npytestmark = pytest.mark.hunt\n{GOOD}"


def test_what_passes_alone_is_named_and_the_rest_may_land(tmp_path: Path) -> None:
    """A test that failed once and passed alone ends a run well, and is the last thing said."""
    _write(tmp_path, {"tests/door/test_a.py": CHANCE, "tests/door/test_b.py": GOOD})

    first = _run(tmp_path, "-m", "pytest", "-q", "--cache-clear")
    again = _look(tmp_path, first.returncode)

    assert "1 failed, 1 passed" in first.stdout
    assert again.returncode == 0
    assert again.stdout.splitlines()[-2].startswith("UNSTEADY")
    assert again.stdout.splitlines()[-1] == "    tests/door/test_a.py::test_chance"


@pytest.mark.parametrize(
    ("files", "failed", "word"),
    [
        ({"a": WRONG}, ["tests/door/test_a.py::test_wrong"], "1 failed"),
        ({"a": BAD_END}, ["tests/door/test_a.py::test_end"], "1 passed, 1 error"),
        ({"a": HUNT}, ["tests/door/test_a.py::test_good"], "hunt for faults, and found one"),
        ({"a": "import nothing_of_this_name\n"}, ["tests/door/test_a.py"], "1 error"),
        (
            {"a": WRONG, "b": GOOD},
            ["tests/door/test_a.py::test_wrong", "tests/door/test_b.py::test_good"],
            "1 failed, 1 passed",
        ),
    ],
    ids=["twice", "at-its-end", "hunt", "not-read", "one-of-two"],
)
def test_what_fails_again_fails(
    tmp_path: Path, files: dict[str, str], failed: list[str], word: str
) -> None:
    """What fails alone too fails the run, and so does what hunts for faults."""
    _write(tmp_path, {f"tests/door/test_{name}.py": text for name, text in files.items()})
    _write(tmp_path, {".pytest_cache/v/cache/lastfailed": _encode(failed)})

    again = _look(tmp_path, second_look.RUN_FAILED)

    assert again.returncode != 0
    assert word in again.stdout
    assert "UNSTEADY" not in again.stdout


@pytest.mark.parametrize(
    ("code", "failed", "word"),
    [
        (1, ["tests/law/test_a.py::test_a"], "depend on no machine: tests/law/test_a.py::test_a"),
        (1, [f"tests/door/test_a.py::test_{n}" for n in "abcd"], "4 failed, more than 3"),
        (1, [], "ended with 1, and not because tests failed"),
        (2, ["tests/door/test_a.py::test_a"], "ended with 2, and not because tests failed"),
    ],
)
def test_what_has_no_second_look(
    code: int, failed: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What needs no machine, is one of many or stopped the whole run fails at once, with why."""
    assert second_look.look_again(code, failed) == code
    assert word in capsys.readouterr().out


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"pytest.ini": "[pytest]\nmarkers =\n    hunt\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _encode(failed: list[str]) -> str:
    return msgspec.json.encode(dict.fromkeys(failed, True)).decode()


def _look(folder: Path, code: int) -> subprocess.CompletedProcess[str]:
    return _run(folder, second_look.__file__, str(code))


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        check=False,
        capture_output=True,
        text=True,
    )
