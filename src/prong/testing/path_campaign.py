"""The gate for commands against real links: lines that change what their own paths mean.

A project has links that lead out of it, and links that would if they were moved. Each line is made
of file commands on these. One that the gate lets pass where edits are accepted is run; it must not
change or show a file outside the project, nor change a protected one in it.

    python -m prong.testing.torture paths --count 20000 --seed 1
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prong.testing.torture import Trial
from prong.tools.access import Running
from prong.tools.policy import Allow, Policy, decide
from prong.tools.rule import Rule, parse_rule

PATHS = [
    *["a", "b", "c", "l", "m", "sub", "sub/a", "sub/l", "sub/b", "sub/deep", "sub/deep/l", "l/a"],
    *["l/secret", "m/a", "l/..", "sub/..", ".", "..", "../a", "../outside", "../outside/secret"],
    *["sub/deep/up", "up", "up/secret", "sub/up", "out", "out/secret", "file", ".claude", ".git"],
    *[".claude/settings.json", "p", "p/settings.json", "settings.json", "deep", "deep/up", "x"],
    *["l/../outside/secret", "sub/up/secret", "up/../x", "s*", "sub/*", "l/x", "m/x", "out/.."],
]
LIKELY = ["up", "up/secret", "sub/up", "sub/deep/up", "l", "l/secret", "m", "sub", "a", "x"]
"""Names that mean something else after a move; most lines are made of these."""
LINKS = ["l", "m", "up", "x", "new", "c"]
COMMANDS = [
    "cp {o} {p} {p}",
    "cp {p} {p}",
    "cp {p} {p} {p}",
    "cp {o} -t {p} {p}",
    "cp {o} -vt{p} {p}",
    "cp --targ={p} {p}",
    *["mv {p} {p}"] * 6,
    *["cp -P {p} {p}"] * 3,
    *["cat {p}", "echo x > {p}"] * 3,
    "mv {p} {p} {p}",
    "mv -vt{p} {p}",
    "mv -T {p} {p}",
    *["ln -sn {p} {q}", "ln -sfn ../outside {q}"] * 2,
    "ln -sfn {p} {q}",
    "mkdir {p}",
    "mkdir -p {p}",
    "touch {p}",
    "rm -f {p}",
    "rmdir {p}",
    "echo x | tee {p}",
    "echo x | tee -a {p}",
    "tee {p} <<< x",
    "echo x > {p}",
    "echo x >> {p}",
    "cat {p}",
    "cat < {p}",
    "grep -h . {p}",
    "cd {p}",
    "cd {p}",
    "cd -P {p}",
    "env -C {p} cat {p}",
]
COPYING = ["-a", "-r", "-P", "-d", "-s", "-l", "-v", "-f", "-T", "-rs", "-L", "--parents", "--sym"]
JOINTS = ["; ", "; ", " && ", " && ", " || ", " | ", " & ", "\n"]


def generate(rng: random.Random, root: str) -> str:
    """Build one line of file commands in a project."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 5)):
        parts += [_command(rng, root), rng.choice(JOINTS)]
    line = "".join(parts[:-1])
    match rng.randrange(12):
        case 0:
            return f"for i in 1 2; do {line}; done"
        case 1:
            return f"({line})"
        case 2:
            return f"{{ {line}; }}"
        case _:
            return line


def _command(rng: random.Random, root: str) -> str:
    text = rng.choice(COMMANDS).replace("{o}", rng.choice(COPYING))
    # Whoever allows ln by a rule allows it everywhere, so that links are made in the project only.
    text = text.replace("{q}", f"{root}/{rng.choice(LINKS)}")
    while "{p}" in text:
        text = text.replace("{p}", rng.choice(LIKELY if rng.random() < 0.8 else PATHS), 1)
    return text


class Project:
    """A project with links, beside a folder that is none of its business."""

    def __init__(self, folder: Path) -> None:
        """Put everything deep enough that no line can climb out of `folder`."""
        self._base = folder / "1/2/3/4/5/6"
        self.root = self._base / "project"

    def make(self) -> None:
        """Make it as it is before a line."""
        shutil.rmtree(self._base, ignore_errors=True)
        for path, text in {
            "project/a": "one",
            "project/b": "two",
            "project/sub/a": "three",
            "project/p/settings.json": "{}",
            "project/.claude/settings.json": "mine",
            "project/.git/config": "mine",
            "outside/secret": "SECRET",
            "outside/a": "SECRET too",
            "a": "SECRET as well",
        }.items():
            (self._base / path).parent.mkdir(parents=True, exist_ok=True)
            (self._base / path).write_text(f"{text}\n")
        (self.root / "sub/deep").mkdir()
        (self.root / "out").symlink_to("../outside")
        (self.root / "file").symlink_to("../outside/secret")
        # They lead nowhere, until they are moved.
        (self.root / "sub/up").symlink_to("../outside")
        (self.root / "sub/deep/up").symlink_to("../outside")
        (self.root / "sub/deep/l").symlink_to("../../a")

    def kept(self) -> dict[str, str]:
        """Give what no line may change: all that is outside, and what is protected."""
        found: dict[str, str] = {}
        for folder, folders, files in os.walk(self._base.parents[5]):
            place = Path(folder)
            inside = place == self.root
            if inside:
                folders[:] = [name for name in folders if name in {".claude", ".git"}]
            for name in (*(() if inside else files), *folders):
                path = place / name
                if place == self.root / ".claude" and name != "settings.json":
                    # Not everything in there is protected.
                    continue
                regular = path.is_file() and not path.is_symlink()
                found[str(path)] = path.read_text() if regular else "-"
        return found

    def run(self, line: str) -> str:
        """Run a line; give what it prints."""
        done = subprocess.run(
            # A file that is read while it is written would grow for ever.
            [shutil.which("bash") or "bash", "-c", f"ulimit -f 64\n{line}"],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.stdout.decode(errors="replace")


def is_free(line: str, root: str) -> bool:
    """Whether the gate lets a line pass where edits are accepted, and links may be made."""
    linking = parse_rule("Bash(ln:*)", effect="allow", source="user")
    assert isinstance(linking, Rule)
    policy = Policy(root=root, home="/home/nobody", mode="acceptEdits", rules=(linking,))
    call = [Running(line, root)]
    return isinstance(decide(policy, "Bash", call, resolve=os.path.realpath), Allow)


@contextmanager
def trials() -> Generator[Trial]:
    """Try lines in a project that is made anew after each that was run."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder).resolve())
        project.make()
        before = project.kept()

        def trial(rng: random.Random) -> str:
            line = generate(rng, str(project.root))
            if not is_free(line, str(project.root)):
                return ""
            try:
                shown = project.run(line)
                if "SECRET" in shown:
                    return f"showed a file outside: {line!r}"
                if project.kept() != before:
                    return f"changed a file outside, or a protected one: {line!r}"
                return ""
            finally:
                project.make()

        yield trial
