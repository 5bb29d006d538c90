"""Merging what children left uncommitted, with real git."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.errors import GitFailed
from prong.host import LocalHost
from prong.host.merge import merge, undo
from prong.host.worktree import create, finish
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W5")]


async def child(host: LocalHost, slug: str, files: dict[str, str | None]) -> Path:
    """Let a child write files (None: remove), commit nothing, and end; gives its worktree."""
    made = await create(host, slug)
    put(Path(made.path), files)
    await finish(host, made)
    return Path(made.path)


def put(folder: Path, files: dict[str, str | None]) -> None:
    """Write files, or remove them."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.unlink()
        else:
            place.write_text(content)


def seen(repo: Repo, path: Path) -> dict[str, str]:
    """Tell what a child has: files with times, branch, index."""
    folder = Path(repo.git("rev-parse", "--absolute-git-dir", cwd=path))
    return {
        **{
            str(f): f"{f.read_bytes()!r} {f.lstat().st_mtime_ns} {f.lstat().st_mode}"
            for f in sorted(path.rglob("*"))
            if f.is_file()
        },
        "HEAD": repo.git("rev-parse", "HEAD", cwd=path),
        "index": str((folder / "index").read_bytes()),
        "folder": " ".join(sorted(f.name for f in folder.iterdir())),
        "status": repo.git("--no-optional-locks", "status", "--porcelain", "-uall", cwd=path),
    }


async def test_what_was_left_becomes_one_commit_and_is_merged(repo: Repo, host: LocalHost) -> None:
    """Changed, new, removed, a mode, any name: all of it; what git ignores stays out."""
    repo.write(".gitignore", "*.log\n")
    repo.write("gone.txt", "g\n")
    repo.write("run.sh", "echo\n")
    repo.commit()
    odd = 'né w "q"\t漢.txt'
    files = {"a.txt": "child\n", odd: "n\n", "gone.txt": None, "deep/er/x": "x\n", "b.log": "l\n"}
    path = await child(host, "x", files)
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("a.txt")
    before = seen(repo, path)

    report = await merge(host, ["x"], commit=True)

    taken = ("a.txt", "deep/er/x", "gone.txt", "link", odd, "run.sh")
    step = report.steps[0]
    assert (step.status, step.files, step.uncommitted) == ("merged", taken, taken)
    assert (repo.path / odd).read_text() == "n\n"
    assert (repo.path / "run.sh").stat().st_mode & 0o111
    assert (repo.path / "link").readlink() == Path("a.txt")
    assert not (repo.path / "gone.txt").exists()
    assert not (repo.path / "b.log").exists()
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("log", "--format=%s", "-2", "prong/x") == (
        "Work of prong/x, as it was left\nwork"
    )
    assert repo.git("log", "--format=%s", "-1") == "Merge branch 'prong/x'"
    after = seen(repo, path)
    assert after["status"] == ""
    assert after["HEAD"] == repo.git("rev-parse", "prong/x")
    files_of = {k: v for k, v in before.items() if k.startswith("/")}
    assert {k: v for k, v in after.items() if k.startswith("/")} == files_of
    assert [s.status for s in (await merge(host, commit=True)).steps] == ["nothing new"]


async def test_a_preview_shows_it_and_changes_nothing(repo: Repo, host: LocalHost) -> None:
    """Also what two children left and what the user has is weighed; no ref, index or file moves."""
    one = await child(host, "1", {"a.txt": "first\n"})
    two = await child(host, "2", {"a.txt": "second\n"})
    repo.git("add", "a.txt", cwd=two)
    three = await child(host, "3", {"c.txt": "third\n"})
    repo.write("src/b.txt", "mine\n")
    places = (one, two, three)
    before = (repo.fingerprint(), repo.git("for-each-ref"), [seen(repo, p) for p in places])

    report = await merge(host, ["1", "2", "3"], dry_run=True, commit=True)

    assert [(s.status, s.uncommitted) for s in report.steps] == [
        ("would merge", ("a.txt",)),
        ("conflict", ("a.txt",)),
        ("would merge", ("c.txt",)),
    ]
    assert report.steps[1].remedy.startswith(f"commit the changes in {two}; after the others, run")
    after = (repo.fingerprint(), repo.git("for-each-ref"), [seen(repo, p) for p in places])
    assert after == before


async def test_a_conflict_leaves_the_second_child_as_it_was(repo: Repo, host: LocalHost) -> None:
    """The first is committed and merged; the one that conflicts keeps branch, index and files."""
    await child(host, "1", {"a.txt": "first\n"})
    two = await child(host, "2", {"a.txt": "second\n", "new.txt": "n\n"})
    three = await child(host, "3", {"c.txt": "third\n"})
    before = [seen(repo, path) for path in (two, three)]

    report = await merge(host, ["1", "2", "3"], commit=True)

    assert [s.status for s in report.steps] == ["merged", "conflict"]
    assert report.stopped
    assert report.steps[1].against == ("prong/1",)
    assert [seen(repo, path) for path in (two, three)] == before
    assert (repo.path / "a.txt").read_text() == "first\n"
    assert not (repo.path / "new.txt").exists()
    assert repo.git("status", "--porcelain") == ""


async def test_commits_and_what_follows_them_go_together(repo: Repo, host: LocalHost) -> None:
    """A child that began from uncommitted changes brings its own alone, committed and not."""
    repo.write("mine.txt", "m\n")
    path = await child(host, "x", {"a.txt": "committed\n"})
    repo.commit("x did it", cwd=path)
    put(path, {"late.txt": "l\n"})

    report = await merge(host, commit=True)

    assert [(s.files, s.uncommitted) for s in report.steps] == [
        (("a.txt", "late.txt"), ("late.txt",))
    ]
    assert repo.git("show", "--name-only", "--format=%s", "HEAD").split("\n") == [
        "Apply prong/x",
        "",
        "a.txt",
        "late.txt",
    ]
    told = repo.git("log", "-1", "--format=%b")
    assert "x did it" in told
    assert "Work of prong/x, as it was left" in told
    assert repo.git("status", "--porcelain") == "?? mine.txt"


async def test_the_files_count_and_not_what_is_staged(repo: Repo, host: LocalHost) -> None:
    """Half staged, announced, unstaged or forced: the commit holds the files as they lie there."""
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    path = await child(host, "x", {"a.txt": "staged\n", "soon.txt": "s\n", "kept.log": "k\n"})
    repo.git("add", "a.txt", cwd=path)
    repo.git("add", "-N", "soon.txt", cwd=path)
    repo.git("add", "-f", "kept.log", cwd=path)
    repo.git("rm", "-q", "--cached", "src/b.txt", cwd=path)
    put(path, {"a.txt": "later\n"})

    report = await merge(host, commit=True)

    assert [s.files for s in report.steps] == [("a.txt", "kept.log", "soon.txt")]
    assert (repo.path / "a.txt").read_text() == "later\n"
    assert (repo.path / "soon.txt").read_text() == "s\n"
    assert (repo.path / "src/b.txt").read_text() == "b\n"
    assert seen(repo, path)["status"] == ""


@pytest.mark.parametrize("inside", ["changed", "committed"])
async def test_a_submodule(repo: Repo, host: LocalHost, inside: str) -> None:
    """A commit made in one is taken along; changes that are not committed there are told."""
    library = Repo(repo.path.parent / "library")
    library.path.mkdir()
    library.git("init", "-q", "-b", "main")
    for key in ("user.name", "user.email"):
        library.git("config", key, "tester@example.invalid")
    library.write("l.txt", "l\n")
    library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "lib")
    repo.commit()
    path = await child(host, "x", {"new.txt": "n\n"})
    repo.git("submodule", "--quiet", "update", "--init", cwd=path)
    put(path / "lib", {"l.txt": "more\n"})
    if inside == "committed":
        for key in ("user.name", "user.email"):
            repo.git("config", key, "tester@example.invalid", cwd=path / "lib")
        repo.commit(cwd=path / "lib")

    step = (await merge(host, ["x"], dry_run=True, commit=True)).steps[0]

    expected = {
        "changed": ("uncommitted", ("lib",)),
        "committed": ("would merge", ("lib", "new.txt")),
    }
    assert (step.status, step.files) == expected[inside]


async def test_undo_keeps_the_childs_commit(repo: Repo, host: LocalHost) -> None:
    """The merge is taken back, the work stays on its branch, and can be merged again."""
    path = await child(host, "x", {"new.txt": "n\n"})
    head = repo.git("rev-parse", "HEAD")
    await merge(host, ["x"], commit=True)
    tip, before = repo.git("rev-parse", "prong/x"), seen(repo, path)

    assert await undo(host) == ("x",)

    assert repo.git("rev-parse", "HEAD") == head
    assert not (repo.path / "new.txt").exists()
    assert (repo.git("rev-parse", "prong/x"), seen(repo, path)) == (tip, before)
    assert [s.status for s in (await merge(host, ["x"])).steps] == ["merged"]
    assert (repo.path / "new.txt").read_text() == "n\n"


async def test_the_order_is_that_of_the_forks_also_after_undo(
    repo: Repo, host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that the first merge made of what was left does not put its fork behind others."""
    paths = {n: await child(host, f"fork-{n}", {f"{n}.txt": "x\n"}) for n in (10, 2, 1)}
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-02-03T04:05:06Z")
    for number in (10, 2):
        repo.commit(cwd=paths[number])
    monkeypatch.delenv("GIT_COMMITTER_DATE")

    first = await merge(host)
    await undo(host)
    again = await merge(host)

    for report in (first, again):
        assert [step.slug for step in report.steps] == ["fork-1", "fork-2", "fork-10"]
        assert {step.status for step in report.steps} == {"merged"}


async def test_nothing_of_the_childs_own_settings_runs(repo: Repo, host: LocalHost) -> None:
    """Neither hooks nor filters nor a monitor that its worktree names, nor another `.git`."""
    repo.git("config", "extensions.worktreeConfig", "true")
    path = await child(host, "x", {"a.txt": "child\n", ".gitattributes": "* filter=evil\n"})
    evil, ran = repo.path.parent / "evil", repo.path.parent / "ran"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    hooks = path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "pre-commit", "post-commit"):
        (hooks / name).symlink_to(evil)
    for key, value in {
        "core.hooksPath": str(hooks),
        "core.fsmonitor": str(evil),
        "filter.evil.clean": str(evil),
        "commit.gpgSign": "true",
        "gpg.program": str(evil),
    }.items():
        repo.git("config", "--worktree", key, value, cwd=path)
    repo.git("status", cwd=path)
    assert ran.exists(), "git as the child would run it minds these settings"
    ran.unlink()

    report = await merge(host, ["x"], commit=True)

    assert [s.status for s in report.steps] == ["merged"]
    assert (repo.path / "a.txt").read_text() == "child\n"
    assert not ran.exists()

    put(path, {"a.txt": "again\n"})
    (path / ".git").write_text(f"gitdir: {path}/elsewhere\n")
    assert [s.status for s in (await merge(host, ["x"], commit=True)).steps] == ["merged"]
    assert (repo.path / "a.txt").read_text() == "again\n"
    assert not ran.exists()


@pytest.mark.parametrize("what", ["merging", "unmerged", "elsewhere", "detached", "repository"])
async def test_what_cannot_simply_be_committed_is_refused(
    repo: Repo, host: LocalHost, what: str
) -> None:
    """Half a merge, conflicts, another branch, a repository inside: told, and left alone."""
    path = await child(host, "x", {"new.txt": "n\n"})
    if what == "merging":
        folder = Path(repo.git("rev-parse", "--absolute-git-dir", cwd=path))
        (folder / "MERGE_HEAD").write_text(repo.git("rev-parse", "HEAD") + "\n")
    elif what == "unmerged":
        put(path, {"a.txt": "stashed\n"})
        repo.git("stash", "-q", cwd=path)
        put(path, {"a.txt": "other\n"})
        repo.commit(cwd=path)
        repo.git("stash", "pop", cwd=path, ok=False)
    elif what == "repository":
        repo.git("init", "-q", str(path / "inner"))
        put(path / "inner", {"f": "f\n"})
    else:
        words = ("-b", "other") if what == "elsewhere" else ("--detach",)
        repo.git("checkout", "-q", *words, cwd=path)
    before = (repo.fingerprint(), repo.git("for-each-ref"), seen(repo, path))

    report = await merge(host, ["x"], commit=True)

    step = report.steps[0]
    assert step.status == "uncommitted"
    assert str(path) in step.remedy
    assert "--no-commit" not in step.remedy
    assert ("not on its branch prong/x" in step.remedy) == (what in {"elsewhere", "detached"})
    assert (repo.fingerprint(), repo.git("for-each-ref"), seen(repo, path)) == before


@pytest.mark.parametrize("busy", ["child", "user", "branch"])
async def test_what_is_in_use_leaves_everything_as_it_was(
    repo: Repo, host: LocalHost, busy: str
) -> None:
    """A locked index, of either side, or a locked branch: no child is half committed."""
    places = [await child(host, "1", {"one": "1\n"}), await child(host, "2", {"two": "2\n"})]
    lock = {
        "child": repo.path / ".git/worktrees/2/index.lock",
        "user": repo.path / ".git/index.lock",
        "branch": repo.path / ".git/refs/heads/prong/2.lock",
    }[busy]
    status, refs = repo.git("status", "--porcelain"), repo.git("for-each-ref")
    before = [seen(repo, path) for path in places]
    lock.touch()

    with pytest.raises(GitFailed, match="nothing was"):
        await merge(host, ["1", "2"], commit=True)

    lock.unlink()
    assert (repo.git("status", "--porcelain"), repo.git("for-each-ref")) == (status, refs)
    assert not (repo.path / "one").exists()
    assert [seen(repo, path) for path in places] == before


async def test_a_running_child_is_refused(repo: Repo, host: LocalHost) -> None:
    """Half of its work is not committed under its hands."""
    made = await create(host, "x")
    put(Path(made.path), {"new.txt": "n\n"})
    before = seen(repo, Path(made.path))
    report = await merge(host, commit=True)
    assert [s.status for s in report.steps] == ["running"]
    assert seen(repo, Path(made.path)) == before


async def test_from_another_worktree_of_the_users(repo: Repo, host: LocalHost) -> None:
    """The current branch is the one where the command runs, also in a linked worktree."""
    await child(host, "x", {"new.txt": "n\n"})
    other = repo.path.parent / "other"
    repo.git("worktree", "add", "-q", "-b", "topic", str(other))

    report = await merge(LocalHost(other), commit=True)

    assert [s.status for s in report.steps] == ["merged"]
    assert (other / "new.txt").read_text() == "n\n"
    assert not (repo.path / "new.txt").exists()
    assert repo.git("status", "--porcelain", cwd=other) == ""


async def test_the_command_names_the_option(repo: Repo, host: LocalHost) -> None:
    """It takes what was left and says so; with --no-commit it stops; never with --undo."""
    await child(host, "x", {"new.txt": "n\n"})

    def prong(*words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "prong", "merge", *words]
        done = subprocess.run(
            argv, cwd=repo.path, env=os.environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, out = prong("--no-commit")
    assert code == 1
    assert "prong/x: uncommitted, 1 file: new.txt" in out
    assert out.endswith("first, or merge without --no-commit\n")
    code, out = prong("--dry-run", "--json")
    assert (code, json.loads(out)["steps"][0]["uncommitted"]) == (0, ["new.txt"])
    code, out = prong()
    assert code == 0
    assert "1 file, 1 of them committed for it: new.txt" in out
    assert prong("--undo", "--no-commit")[0] == 2
