"""Killed between any two steps of git, and in the midst of them: nothing is lost or half done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from prong.errors import NotInstalled, UsageError
from prong.host import LocalHost, owner
from prong.host.merge import merge, undo
from prong.host.worktree import create, finish, leftovers, sweep
from prong.session.integration import describe_merge
from prong.team.workspace import tidy
from prong.testing.repository import Repo
from prong.testing.step_campaign import KillPoint, SteppedOperation
from prong.testing.step_kill import StepKill

pytestmark = [
    pytest.mark.door,
    pytest.mark.spec("W4", "W5"),
    pytest.mark.timeout(240),
    pytest.mark.hunt,
]

TWICE = ["sh", "-c", 'git init -q "$0/a"; rm -r "$0/a"; git init -q "$0/b"; true']


def test_a_caller_is_killed_at_the_step_that_is_meant(tmp_path: Path) -> None:
    """Before a call it has not been made, after it it has; past the last the program ends itself."""
    steps = StepKill(tmp_path / "steps", ["git", "rm"])
    made: list[tuple[bool, bool, bool]] = []
    for at in (1, 2, 3, 4):
        for when in ("before", "after"):
            place = tmp_path / f"{at}-{when}"
            place.mkdir()
            ended = steps.run([*TWICE, str(place)], at=at, when=when)
            made.append((ended.killed, (place / "a").exists(), (place / "b").exists()))
    assert made == [
        (True, False, False),
        (True, True, False),
        (True, True, False),
        (True, False, False),
        (True, False, False),
        (True, False, True),
        (False, False, True),
        (False, False, True),
    ]
    assert [words[0] for words in ended.calls] == ["git", "rm", "git"]
    assert (ended.code, ended.calls[1]) == (0, ("rm", "-r", f"{place}/a"))
    with pytest.raises(NotInstalled):
        StepKill(tmp_path / "none", ["no-such-program"])


REMOVER = """#!/bin/sh
case "$*" in *"worktree remove"* | "-rf "*)
    for last; do :; done
    [ -d "$last/src" ] && /bin/rm -r "$last/src" && kill -9 $PPID && exit 137;;
esac
exec REAL "$@"
"""
"""Stands for git or rm, and dies with its caller when it has removed a part of a worktree."""

FINISH = """
import anyio, sys
from prong.host import LocalHost
from prong.host.worktree import create, finish
async def main():
    host = LocalHost(sys.argv[1])
    await finish(host, await create(host, "x"))
anyio.run(main)
"""


def test_a_worktree_that_was_half_removed_is_no_work(repo: Repo, tmp_path: Path) -> None:
    """Killed while its files are removed, those that are missing are neither kept nor merged."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "rm"):
        (programs / name).write_text(REMOVER.replace("REAL", str(shutil.which(name))))
        (programs / name).chmod(0o755)
    before = repo.fingerprint()
    path = f"{programs}:{os.environ['PATH']}"
    words = [sys.executable, "-c", FINISH, str(repo.path)]
    assert subprocess.run(words, env={**os.environ, "PATH": path}, check=False).returncode == -9

    host = LocalHost(repo.path)
    assert [step.status for step in anyio.run(merge, host).steps if step.files] == []
    assert all(left.unchanged for left in anyio.run(leftovers, host))
    os.utime(repo.path / ".git/refs/prong/base/x", (1, 1))
    anyio.run(sweep, host)
    assert [one.name for one in (repo.path / ".prong/worktrees").iterdir()] == [".gitignore"]
    assert "prong" not in repo.git("for-each-ref") + repo.git("worktree", "list")
    assert repo.fingerprint() == before
    assert anyio.run(create, host, "x").slug == "x"


SWEEP = """
import anyio, sys
from prong.host import LocalHost
from prong.host.worktree import sweep
anyio.run(sweep, LocalHost(sys.argv[1]))
"""


def test_a_killed_sweep_leaves_no_mark_on_the_next_of_that_name(repo: Repo, tmp_path: Path) -> None:
    """Killed after any change of refs, a worktree that is made anew is never taken for half made."""
    start, host = repo.git("rev-parse", "HEAD"), LocalHost(repo.path)
    gone = f"{owner.tag().rpartition('-')[0]}-999999999"
    repo.git("update-ref", "refs/prong/base/half", start)
    repo.git("update-ref", f"refs/prong/making/{gone}/half", start)
    place = repo.path / ".prong/worktrees/half"
    repo.git("worktree", "add", "-q", "--no-checkout", "-b", "prong/half", str(place))
    shutil.copytree(repo.path, saved := tmp_path / "saved", symlinks=True)
    steps = StepKill(tmp_path / "steps")
    words = [sys.executable, "-c", SWEEP, str(repo.path)]
    calls = steps.run(words).calls
    changes = [number for number, call in enumerate(calls, 1) if "update-ref" in call]
    assert len(changes) >= 3
    for at in changes:
        shutil.rmtree(repo.path)
        shutil.copytree(saved, repo.path, symlinks=True)
        assert steps.run(words, at=at, when="after").killed
        made = anyio.run(create, host, "half")
        Path(made.path, "work.txt").write_text("work")
        anyio.run(sweep, host)
        anyio.run(finish, host, made)
        anyio.run(sweep, host)
        assert Path(made.path, "work.txt").exists(), calls[at - 1]
        assert "making" not in repo.git("for-each-ref")


def kill_after(name: str, words: str, folder: Path) -> str:
    """Kill an operation after the first call that has these words; gives what is wrong then."""
    operation = SteppedOperation(name, folder / "it")
    at = next(n for n, call in enumerate(operation.calls, 1) if words in " ".join(call))
    return operation.attempt(KillPoint(at, "after"))


def test_a_killed_cleanup_leaves_no_merge_to_take_back(tmp_path: Path) -> None:
    """When a child's branch is gone, so is what its merge could be taken back by: in one step."""
    assert kill_after("clean", "update-ref --stdin", tmp_path) == ""


@pytest.mark.parametrize("name", ["merge", "undo"])
def test_what_was_killed_is_whole_or_taken_back(tmp_path: Path, name: str) -> None:
    """Killed when files have moved and nothing else: done again or undone, nothing is half done."""
    assert kill_after(name, "read-tree -m -u", tmp_path) == ""


MERGE = """
import anyio, sys
from prong.host import LocalHost
from prong.host.merge import merge
anyio.run(merge, LocalHost(sys.argv[1]))
"""


def cut_short(repo: Repo, tmp_path: Path) -> None:
    """Kill a merge and its git in the midst of writing files: `a.txt` and `z.slow` are gone."""
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.write("z.slow", "slow\n")
    repo.commit()
    repo.write("src/b.txt", "mine\n")
    repo.write("a.txt", "one, mine\n" + (repo.path / "a.txt").read_text())

    async def child() -> None:
        host = LocalHost(repo.path)
        made = await create(host, "x")
        text = (repo.path / "a.txt").read_text().replace("seven", "child")
        for name, said in (("a.txt", text), ("b.txt", "b\n"), ("z.slow", "quick\n")):
            Repo(Path(made.path)).write(name, said)
        repo.commit(cwd=made.path)
        await finish(host, made)

    anyio.run(child)
    killer = tmp_path / "killer"
    # Its parent is a shell of git's, whose parent is git, whose parent is Prong.
    killer.write_text(
        "#!/bin/sh\nup() { ps -o ppid= -p $1 | tr -d ' '; }\n"
        "git=$(up $$); case $(ps -o comm= -p $git) in git) ;; *) git=$(up $git);; esac\n"
        "prong=$(up $git); kill -STOP $prong; kill -9 $git; kill -9 $prong\n"
    )
    killer.chmod(0o755)
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "filter.slow.smudge"}
    env["GIT_CONFIG_VALUE_0"] = str(killer)
    words = [sys.executable, "-c", MERGE, str(repo.path)]
    assert subprocess.run(words, env={**os.environ, **env}, check=False).returncode == -9
    # What git itself leaves, and says how to remove.
    (repo.path / ".git/index.lock").unlink(missing_ok=True)


def held(repo: Repo) -> dict[str, str]:
    """Tell what the user has, without times."""
    found = {k: v.split()[0] for k, v in repo.fingerprint().items() if k.startswith("/")}
    return {**found, "HEAD": repo.git("rev-parse", "HEAD"), "diff": repo.git("diff", "HEAD")}


def said_at_a_start(host: LocalHost) -> list[str]:
    """Tell what a session would say that starts here now."""
    told: list[str] = []
    anyio.run(lambda: tidy(host, spare=frozenset(), warn=told.append))
    return told


@pytest.mark.parametrize("how", ["merge", "undo"])
def test_files_that_were_half_written_are_put_back(repo: Repo, tmp_path: Path, how: str) -> None:
    """Killed while git writes the user's files, no change of the child's is taken for the user's."""
    cut_short(repo, tmp_path)
    host = LocalHost(repo.path)
    assert not (repo.path / "z.slow").exists()
    with pytest.raises(UsageError, match="cut short here: 'prong merge' puts your files back"):
        anyio.run(lambda: merge(host, dry_run=True))
    (said,) = said_at_a_start(host)
    assert said.startswith("a merge was cut short here: 'prong merge' puts your files back")

    if how == "merge":
        report = anyio.run(merge, host)
        assert [step.status for step in report.steps] == ["merged"]
        assert report.recovered is not None
        files = report.recovered.restored
        assert files[-1] == "z.slow"
        told = "a merge of x that was cut short was taken back first: " + ", ".join(files)
        assert next(describe_merge(report)) == told
        assert (repo.path / "z.slow").read_text() == "quick\n"
        assert "child" in repo.git("show", "HEAD:a.txt")
        assert "mine" not in repo.git("show", "HEAD:a.txt")
    assert anyio.run(undo, host) == ("x",)
    assert (repo.path / "a.txt").read_text().startswith("one, mine\none\n")
    assert "child" not in (repo.path / "a.txt").read_text()
    assert not (repo.path / "b.txt").exists()
    assert repo.git("status", "--porcelain") == "M a.txt\n M src/b.txt"
    assert repo.git("for-each-ref", "refs/prong/moving") == ""
    assert said_at_a_start(host) == []
    with pytest.raises(UsageError, match="no merge to take back"):
        anyio.run(undo, host)


def test_what_was_changed_since_a_kill_stays(repo: Repo, tmp_path: Path) -> None:
    """A file that the user has edited meanwhile is left as it is, and named; the others go back."""
    cut_short(repo, tmp_path)
    repo.write("b.txt", "edited since\n")
    report = anyio.run(merge, LocalHost(repo.path))

    assert report.recovered is not None
    assert report.recovered.kept == ("b.txt",)
    assert "  left as they are, as they were changed since: b.txt" in describe_merge(report)
    assert [step.status for step in report.steps] == ["in the way"]
    assert (repo.path / "b.txt").read_text() == "edited since\n"
    assert (repo.path / "z.slow").read_text() == "slow\n"
    assert "child" not in (repo.path / "a.txt").read_text()


def test_commits_after_a_kill_are_not_touched(repo: Repo, tmp_path: Path) -> None:
    """If HEAD has moved since, nothing is put back; it says what to look at, and how to go on."""
    cut_short(repo, tmp_path)
    repo.git("commit", "-qam", "all of it")
    before = held(repo)
    host = LocalHost(repo.path)
    for again in (merge, undo):
        with pytest.raises(UsageError, match="HEAD has moved since") as caught:
            anyio.run(again, host)
        assert held(repo) == before
    words = str(caught.value).split("'")
    repo.git(*words[3].split()[1:])
    assert [step.status for step in anyio.run(merge, host).steps] == ["conflict"]


def test_refs_that_were_half_changed_are_completed(repo: Repo, tmp_path: Path) -> None:
    """Killed when HEAD had moved and other refs had not: they follow, and it can be taken back."""

    async def child() -> None:
        host = LocalHost(repo.path)
        made = await create(host, "x")
        Repo(Path(made.path)).write("new.txt", "n\n")
        await finish(host, made)

    anyio.run(child)
    steps = StepKill(tmp_path / "steps")
    words = [sys.executable, "-c", MERGE, str(repo.path)]
    before = held(repo)
    saved = tmp_path / "saved"
    shutil.copytree(repo.path, saved, symlinks=True)
    calls = steps.run(words).calls
    last = max(n for n, one in enumerate(calls, 1) if "update-ref" in one and "-m" in one)
    shutil.rmtree(repo.path)
    shutil.copytree(saved, repo.path, symlinks=True)
    assert steps.run(words, at=last).killed
    note = repo.git("for-each-ref", "--format=%(objectname)", "refs/prong/moving")
    repo.git("update-ref", "HEAD", f"{note}^2")
    host = LocalHost(repo.path)

    report = anyio.run(merge, host)

    assert report.recovered is not None
    assert report.recovered.complete
    assert [step.status for step in report.steps] == ["nothing new"]
    assert repo.git("status", "--porcelain") == ""
    assert anyio.run(undo, host) == ("x",)
    assert held(repo) == before
