"""The GitHub Action and the Dockerfile: what they run is run, what they name is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from prong.host.launcher import VOLUME
from prong.testing import Script, World, Worlds, call, say
from prong.testing.program import Program

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEP: dict[str, Any] = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "run")


async def act(w: World, program: Program, folder: Path, **given: str) -> tuple[int, str]:
    """Run the action's step as a runner would; gives its exit code and what it puts out."""
    bin_folder, output = folder / "bin", folder / "output"
    bin_folder.mkdir()
    prong = bin_folder / "prong"
    prong.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prong "$@"\n')
    prong.chmod(0o755)
    (bin_folder / "python").symlink_to(sys.executable)
    inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | given
    env = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in STEP["env"].items()
    }
    env |= program.environment(w)
    env |= {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    env |= {"GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(folder)}
    done = await anyio.run_process(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEP["run"]],
        check=False, cwd=w.root, env=env, stderr=None,
    )  # fmt: skip
    return done.returncode, output.read_text()


async def test_the_action_gives_the_answer(world: Worlds, program: Any, tmp_path: Path) -> None:
    """The prompt is one word whatever it holds, and the outputs are those that are promised."""
    prompt = '--model x "; touch pwned; `touch pwned` $(touch pwned)'
    script = [call("Bash", {"command": "ls"}), say("One\nresult<<x\nTwo")]
    async with world(script, opens=False) as w:
        code, output = await act(w, program, tmp_path, prompt=prompt)

        assert code == 0
        assert prompt in w.server.records[0].request.last_text
        assert not (w.root / "pwned").exists()
    mark = re.match(r"result<<(\w{32})\n", output)
    assert mark is not None
    assert output.startswith(f"{mark[0]}One\nresult<<x\nTwo\n{mark[1]}\n")
    assert re.search(r"^session-id=\d{8}-", output, re.MULTILINE)
    assert re.search(r"^cost=0\.\d+$", output, re.MULTILINE)
    assert {
        found for found in re.findall(r"^([a-z-]+)(?:=|<<)", output, re.MULTILINE) if found
    } == {*ACTION["outputs"]}


async def test_the_action_fails_as_the_run_does(
    world: Worlds, program: Any, tmp_path: Path
) -> None:
    """The exit code is that of the run, and what it came to is put out all the same."""
    async with world(Script(forever=call("Bash", {"command": "ls"})), opens=False) as w:
        given = {"prompt": "Go", "max-turns": "1", "max-budget-usd": ""}
        code, output = await act(w, program, tmp_path, **given)

    assert code == 3
    assert "session-id=2" in output


def test_inputs_are_no_part_of_a_script() -> None:
    """No expression stands in what a shell reads: an input could be more than words there."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_image_is_made_of_what_is_there() -> None:
    """What the Dockerfile copies is there and not ignored, and its extras are the package's."""
    text = (ROOT / "Dockerfile").read_text()
    shown = (ROOT / ".dockerignore").read_text().split()
    for names in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        for name in names.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in shown
    (extras,) = re.findall(r"/prong\[([\w,]+)\]", text)
    project = (ROOT / "pyproject.toml").read_text()
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "prong", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"prong ")


@pytest.mark.spec("R4")
def test_the_image_can_be_a_remote_target() -> None:
    """A volume takes the owner of the image's folder: the image has it, as its user's own."""
    text = (ROOT / "Dockerfile").read_text()
    (made,) = re.findall(r"install -d -o prong -g prong (.+?)(?: \\)?$", text, re.MULTILINE)
    assert VOLUME in made.split()
    assert text.index(VOLUME) < text.index("USER prong")
