import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.testing import demo_scripted, sample

pytestmark = pytest.mark.door


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the demo as a user would, with no key, no home and a folder for temporary files."""
    folder = tmp_path_factory.mktemp("demo")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env = {**kept, "TMPDIR": str(folder), "HOME": str(folder / "none")}
    ran = subprocess.run(
        [sys.executable, "-m", "prong.testing.demo", "--scripted"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran, folder


def test_every_claim_of_the_demo_comes_true(played):
    """The demo ends with 0, mends the project's failing test, and its witnesses agree."""
    ran, _ = played

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "project tests before: FAILED (failures=1)" in ran.stdout
    assert "project tests after: OK" in ran.stdout
    assert ran.stdout.rstrip().endswith("everything came out as claimed")


def test_the_demo_says_what_is_scripted(played):
    """Nobody can take the scripted words for a model's."""
    ran, _ = played

    assert "scripted" in ran.stdout[:400]


def test_the_demo_fits_a_plain_terminal(played):
    """No line is longer than 80 columns, and there are no colours."""
    ran, _ = played

    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    assert "\x1b" not in ran.stdout


def test_the_demo_leaves_nothing_behind(played):
    """The project, the home and the journal go with the demo."""
    _, folder = played

    assert list(folder.iterdir()) == []


def test_forks_run_side_by_side(played):
    """All four forks have started before the first of them is done."""
    lines = played[0].stdout.splitlines()
    started = [n for n, line in enumerate(lines) if "fork started" in line and " s  " in line]
    ended = [n for n, line in enumerate(lines) if line.endswith(" completed") and " s  " in line]

    assert len(started) == len(ended) == len(sample.DIRECTIVES)
    assert max(started) < min(ended)


def test_a_broken_promise_ends_the_demo_with_an_error(capsys):
    """A fix that fixes nothing is noticed, since the project's tests are really run."""
    tests = sample.FILES["tests/test_price.py"].replace("60)", "61)")

    assert demo_scripted.main(pace=0.0, files={**sample.FILES, "tests/test_price.py": tests}) == 1
    assert "project tests after: FAILED" in capsys.readouterr().out
