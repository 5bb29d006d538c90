"""What people and agents run to look around: unasked in plan mode, and as if there were no sandbox."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import AsyncIterator
from gzip import GzipFile
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from prong.host import LocalHost
from prong.host.sandbox import NONE, Profile
from prong.host.sandbox.ability import detect
from prong.tools.access import Running
from prong.tools.ground import Allow, Policy, Sandboxing
from prong.tools.policy_box import PolicyBox

ABLE = detect()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("L13", "P2"),
    pytest.mark.skipif(not ABLE.writes, reason=f"needs Landlock and seccomp: {ABLE.why}"),
]

CORPUS = Path(__file__).parents[1] / "fixtures/commands/reading.txt"
LINES = [
    line for line in CORPUS.read_text().splitlines() if line.strip() and not line.startswith("# ")
]
LEAST = 0.97
MOVING = re.compile(r"\b(?:ps|top|lsof)\b|(?:pip|python3 -m) .*\| head")
"""What shows another machine at each moment, or is cut short: only how it ends is compared."""
COUNTED = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?[kMGT%]?|/tmp/\S+|prong-\w+")
"""Times, sizes, addresses and names of temporary files differ from run to run."""

FILES = {
    "README.md": "# Sample\n\nA project to look around in.\n" + "More of it.\n" * 20,
    "src/app.py": '"""The app."""\nimport json\n\n\nclass App:\n    def run(self):\n'
    "        # TODO: more\n        return foo(1)\n\n\ndef foo(x):\n    return json.dumps(x)\n",
    "src/util.py": '"""Tools."""\nimport os\n\n\ndef bar(x):\n\n    return os.path.join("a", x)\n',
    "tests/test_app.py": "def test_foo():\n    assert foo\n",
    "log.txt": "".join(f"{n % 3} line error {n}\n" for n in range(30)),
    "data.csv": "name,count\nb,2\na,1\nc,3\n",
    "package.json": '{"name": "sample", "version": "1.0.0", "scripts": {"test": "true"}}\n',
    "pyproject.toml": '[project]\nname = "sample"\n',
    "Makefile": "all:\n\t@echo all\n\ntest:\n\techo test\n",
    "script.sh": "echo hi\n",
    ".gitignore": "build\n",
}


class Ended(NamedTuple):
    code: int
    text: str


class Looking:
    """A project with a history, and a policy that only reads."""

    def __init__(self, folder: Path) -> None:
        self.root, home = folder / "project", folder / "home"
        home.mkdir()
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        with tarfile.open(self.root / "sample.tar", "w") as tar:
            tar.add(self.root / "README.md", "README.md")
        with zipfile.ZipFile(self.root / "sample.zip", "w") as archive:
            archive.write(self.root / "README.md", "README.md")
        with GzipFile(self.root / "sample.gz", "w") as packed:
            packed.write(b"one\ntwo\nthree\n")
        self._git("init", "-q", "-b", "main")
        self._git("config", "user.name", "Sample")
        self._git("config", "user.email", "sample@localhost")
        for name in ("src/app.py", "."):
            self._git("add", name)
            self._git("commit", "-qm", f"Add {name}")
        (self.root / "src/util.py").write_text("import sys\n")
        self._git("status")
        self.host = LocalHost(self.root, str(home))
        box = Sandboxing(on=True, ability=self.host.ability)
        policy = Policy(root=str(self.root), home=str(home), mode="plan", sandbox=box)
        self.box = PolicyBox(policy)

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True)

    def access(self, line: str) -> Running:
        return Running(line, str(self.root))

    def is_free(self, line: str) -> bool:
        verdict = self.box.decide("Bash", [self.access(line)], resolve=self.host.follow)
        return isinstance(verdict, Allow)

    async def run(self, line: str, profile: Profile) -> Ended:
        env = {"GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "PAGER": "cat", "TERM": "dumb"}
        process = await self.host.start(line, env=env, profile=profile)
        with anyio.fail_after(90):
            said = b"".join([chunk async for chunk in process.output()])
            code = await process.wait()
        await process.kill()
        process.leave()
        return Ended(code, said.decode(errors="replace"))

    async def differs(self, line: str) -> str:
        """Say how a line ends otherwise than it does without a sandbox; empty if it does not."""
        profile = self.box.profile(self.access(line), resolve=self.host.follow)
        assert profile.name == "reading"
        plain, held = await self.run(line, NONE), await self.run(line, profile)
        if plain.code != held.code:
            return f"{line}: ends with {held.code} instead of {plain.code}: {held.text[-200:]!r}"
        if MOVING.search(line) or plain.text == held.text:
            return ""
        one, other = (COUNTED.sub("#", " ".join(t.text.split())) for t in (plain, held))
        return "" if one == other else f"{line}: says {held.text[:300]!r}, not {plain.text[:300]!r}"


@pytest.fixture
async def looking(tmp_path: Path) -> AsyncIterator[Looking]:
    made = Looking(tmp_path)
    yield made
    await made.host.close()


async def test_honest_lines_run_unasked_in_plan_mode(looking: Looking) -> None:
    """At least 97 of 100 lines with which people look around are not asked about."""
    asked = [line for line in LINES if not looking.is_free(line)]

    assert len(LINES) >= 350
    assert len(asked) <= (1 - LEAST) * len(LINES), asked


@pytest.mark.timeout(600)
async def test_honest_lines_do_in_reading_what_they_do_outside(looking: Looking) -> None:
    """With those that are asked about, fewer than 3 of 100 end or say other than without a sandbox."""
    lines = [line for line in LINES if looking.is_free(line)]
    wrong = [told for line in lines if (told := await looking.differs(line))]

    assert len(wrong) <= (1 - LEAST) * len(LINES) - (len(LINES) - len(lines)), "\n".join(wrong)


async def test_what_changes_nothing_is_let_be_where_nothing_can_be(looking: Looking) -> None:
    """A program that is there to change something may tell its version, or write to nowhere."""
    for line in ("curl --version", "ssh -V", "ls | tee /dev/null", "rm --help"):
        assert looking.is_free(line), line
    for line in ("curl -V http://x", "ls | tee /dev/null f", "rm --help f", "tee", "rm"):
        assert not looking.is_free(line), line
