"""Runs of real programs, recorded and replayed from the command line; and the fixture for pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.testing import ServerProcess, call, say

pytestmark = [pytest.mark.door, pytest.mark.spec("B8"), pytest.mark.timeout(240)]

SRC = Path(__file__).parents[2] / "src"
PRONG = [sys.executable, "-m", "prong", "-p"]


def recording(
    folder: Path, action: str, *words: str, asks: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `prong -p` under the recorder, in a project and a home of its own."""
    for name in ("project", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "project" / "a.txt").write_text("42\n")
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "prong.testing.recording",
                action,
                str(folder.parent / "a.run"),
            ),
            *words,
            *("--", *PRONG, asks, "--model", "claude-sonnet-5-5"),
        ],
        cwd=folder / "project",
        env={**kept, "HOME": str(folder / "home"), "PYTHONPATH": str(SRC), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program_is_recorded_and_replayed(tmp_path: Path):
    """`prong -p` says the same without its server, elsewhere, for another user, on another day."""
    script = [call("Read", {"file_path": "a.txt"}), say("It says 42.")]
    with ServerProcess(script) as server:
        key = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdefghij"}
        first = recording(
            tmp_path / "one",
            "record",
            f"--upstream={server.url}",
            asks="What does a.txt say?",
            TZ="Etc/GMT+12",
            **key,
        )
        requests = len(server.requests())
    again = recording(tmp_path / "two", "replay", asks="What does a.txt say?", TZ="Etc/GMT-14")

    assert (first.stdout, first.returncode) == ("It says 42.\n", 0), first.stderr
    assert (again.stdout, again.returncode) == ("It says 42.\n", 0), again.stderr
    assert requests == 2
    text = (tmp_path / "a.run").read_text()
    assert "0123456789abcdefghij" not in text
    assert str(tmp_path) not in text


def test_a_program_that_asks_otherwise_fails_with_the_difference(tmp_path: Path):
    """The exit code is 1, and both sides are shown."""
    with ServerProcess([say("Hello.")]) as server:
        recording(tmp_path / "one", "record", f"--upstream={server.url}", asks="Who is there?")
    done = recording(tmp_path / "two", "replay", asks="Who are you?")

    assert done.returncode == 1
    assert "request 1 of main is not the one that was recorded: messages[0]" in done.stderr
    assert 'recorded: "Who is there?"' in done.stderr
    assert 'now:      "Who are you?"' in done.stderr


def test_the_fixture_keeps_runs_beside_their_tests(tmp_path: Path):
    """A test with the fixture fails without a recording, makes one, and passes with it."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["prong.testing.fixture"]\n')
    (tmp_path / "test_it.py").write_text(
        "import os, pytest, prong\n"
        "@pytest.mark.anyio\n"
        "async def test_it(recorded_run, tmp_path):\n"
        "    async with recorded_run(upstream=os.environ.get('UPSTREAM')) as server:\n"
        "        async with prong.open_session(\n"
        "            model='claude-sonnet-5-5', base_url=server.url, cwd=str(tmp_path),\n"
        "            store=str(tmp_path / 'store'), env={'HOME': str(tmp_path)},\n"
        "        ) as session:\n"
        "            assert (await session.run('Hi')).text == 'Hello.'\n"
    )

    def run(**env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*(sys.executable, "-m", "pytest", "-q", "-p", "anyio", "-k", "asyncio")],
            cwd=tmp_path,
            # Other plug-ins take longer to load than the test takes.
            env={
                **os.environ,
                "PYTHONPATH": str(SRC),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    without = run()
    with ServerProcess([say("Hello.")]) as server:
        recorded = run(PRONG_RECORD="1", UPSTREAM=server.url)
    replayed = run()

    assert "PRONG_RECORD=1" in without.stdout
    assert recorded.returncode == 0, recorded.stdout
    assert replayed.returncode == 0, replayed.stdout
    assert [path.name for path in (tmp_path / "recordings").iterdir()] == ["test_it-asyncio.run"]
