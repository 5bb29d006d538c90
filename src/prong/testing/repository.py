"""A real git repository for tests, and a fingerprint of all in it that is the user's."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path


class Repo:
    """A working copy in a folder."""

    def __init__(self, path: Path) -> None:
        """Take a folder that is one, or will be."""
        self.path = path

    def git(self, *args: str, cwd: Path | str | None = None, ok: bool = True) -> str:
        """Run git as its user would; gives what it printed."""
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *args],
            cwd=cwd or self.path,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        """Write a file, folders included."""
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, message: str = "work", *, cwd: Path | str | None = None) -> str:
        """Commit all there is; gives the commit."""
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-qm", message, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def fingerprint(self) -> dict[str, str]:
        """Hash the index, HEAD, config, the stash, all refs and files but those Prong makes."""
        folder = Path(self.git("rev-parse", "--absolute-git-dir"))
        refs = self.git("for-each-ref").splitlines()
        found = {
            "HEAD": (folder / "HEAD").read_text(),
            "log": self.git("reflog", "HEAD", ok=False),
            "stash": self.git("stash", "list"),
            "refs": "\n".join(r for r in refs if "/prong/" not in r),
            "config": _hash(folder / "config"),
            "exclude": _hash(folder / "info/exclude"),
            "index": _hash(folder / "index"),
            "left": " ".join(
                sorted(p.name for p in folder.iterdir() if p.name.startswith("prong"))
            ),
            "status": self.git("--no-optional-locks", "status", "--porcelain", "-uall"),
        }
        for place in self._files(self.path):
            stat = place.lstat()
            found[str(place)] = f"{_hash(place)} {stat.st_mtime_ns} {stat.st_mode}"
        return found

    def _files(self, folder: Path) -> list[Path]:
        found: list[Path] = []
        for place in sorted(folder.iterdir()):
            if place in {self.path / ".git", self.path / ".prong/worktrees"}:
                continue
            if place.is_dir() and not place.is_symlink():
                found += self._files(place)
            else:
                found.append(place)
        return found


def _hash(path: Path) -> str:
    if path.is_symlink():
        return str(path.readlink())
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"


def make_repo(path: Path) -> Repo:
    """Make a repository with one commit of two files."""
    path.mkdir(parents=True)
    repo = Repo(path)
    repo.git("init", "-q", "-b", "main")
    repo.git("config", "user.name", "Tester")
    repo.git("config", "user.email", "tester@example.invalid")
    repo.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    repo.write("src/b.txt", "b\n")
    repo.commit("first")
    return repo
