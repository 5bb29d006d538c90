"""Worktrees with real git: what a child finds in one, and what nobody gets one of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from prong.errors import GitFailed, UsageError
from prong.host import LocalHost
from prong.host.worktree import Kept, Removed, Worktree, create, finish
from prong.testing.repository import Repo, make_repo

pytestmark = [pytest.mark.anyio, pytest.mark.door]


def dirty(repo: Repo) -> None:
    """Leave a change of every kind."""
    repo.write("gone.txt", "x\n")
    repo.write("renamed.txt", "y\n" * 20)
    repo.write("run.sh", "#!/bin/sh\n")
    repo.write("file", "f\n")
    repo.write("folder/f", "f\n")
    repo.write(".gitignore", "*.log\nsecret/\n")
    repo.commit("second")
    repo.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n")
    repo.write('new ünïcode "q".txt', "new\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    (repo.path / "gone.txt").unlink()
    (repo.path / "file").unlink()
    repo.write("file/now a folder", "f\n")
    (repo.path / "folder/f").unlink()
    (repo.path / "folder").rmdir()
    repo.write("folder", "now a file\n")
    repo.git("mv", "renamed.txt", "moved.txt")
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "link").symlink_to("a.txt")
    repo.write("x.log", "ignored\n")
    repo.write("secret/key", "ignored\n")


def tree(path: str | Path) -> dict[str, str]:
    """Read the files of a folder, git's and ours aside."""
    found: dict[str, str] = {}
    for place in sorted(Path(path).rglob("*")):
        name = str(place.relative_to(path))
        if name.startswith((".git/", ".prong/")) or name == ".git" or place.is_dir():
            continue
        found[name] = f"{place.lstat().st_mode:o} {place.read_text()}"
    return found


@pytest.mark.spec("W2")
async def test_a_child_gets_the_files_as_they_are(repo: Repo, host: LocalHost) -> None:
    """Staged, unstaged, new, removed, renamed: all but what is ignored is in the worktree."""
    dirty(repo)
    head = repo.git("rev-parse", "HEAD")

    made = await create(host, "fix")

    expected = tree(repo.path)
    del expected["x.log"], expected["secret/key"]
    assert tree(made.path) == expected
    assert made.path == f"{repo.path}/.prong/worktrees/fix"
    assert made.branch == "prong/fix"
    assert repo.git("branch", "--show-current", cwd=made.path) == "prong/fix"
    assert made.base_commit == head
    assert repo.git("rev-parse", f"{made.snapshot_commit}^") == head
    assert repo.git("status", "--porcelain", cwd=made.path) == ""


@pytest.mark.spec("W2", "W4")
async def test_nothing_of_the_users_is_touched(repo: Repo, host: LocalHost) -> None:
    """Index, HEAD, stash, branches, config and files are the same byte for byte, before and after."""
    repo.write("a.txt", "stashed\n")
    repo.git("stash")
    dirty(repo)
    before = repo.fingerprint()

    first = await create(host, "one")
    assert repo.fingerprint() == before
    second = await create(host, "two", base="head")
    Path(second.path, "a.txt").write_text("work\n")
    repo.commit(cwd=second.path)
    assert repo.fingerprint() == before

    assert isinstance(await finish(host, first), Removed)
    assert isinstance(await finish(host, second), Kept)
    assert repo.fingerprint() == before


@pytest.mark.spec("W2")
async def test_a_change_in_the_moment_of_the_last_commit_is_seen(
    repo: Repo, host: LocalHost
) -> None:
    """A file of the same size and time as in the index is compared by its content."""
    for number in range(10):
        repo.write("a.txt", f"before {number}\n")
        stat = (repo.path / "a.txt").stat()
        repo.git("add", "a.txt")
        index = repo.path / ".git/index"
        repo.write("a.txt", f"later! {number}\n")
        os.utime(repo.path / "a.txt", ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        os.utime(index, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        made = await create(host, f"n{number}")
        assert Path(made.path, "a.txt").read_text() == f"later! {number}\n"


@pytest.mark.spec("W2")
async def test_head_only_leaves_uncommitted_changes_out(repo: Repo, host: LocalHost) -> None:
    """With base "head" the child starts from the commit."""
    before = tree(repo.path)
    head = repo.git("rev-parse", "HEAD")
    repo.write("a.txt", "changed\n")

    made = await create(host, "x", base="head")

    assert tree(made.path) == before
    assert made.snapshot_commit == made.base_commit == head


@pytest.mark.spec("W2")
async def test_a_clean_tree_needs_no_snapshot(repo: Repo, host: LocalHost) -> None:
    """Without uncommitted changes the branch begins at HEAD itself."""
    made = await create(host, "x")
    assert made.snapshot_commit == repo.git("rev-parse", "HEAD")


@pytest.mark.spec("W2")
@pytest.mark.parametrize("base", ["snapshot", "head"])
async def test_an_unborn_branch(tmp_path: Path, base: str) -> None:
    """Before the first commit the snapshot is a root commit; HEAD stays unborn."""
    repo = Repo(tmp_path / "r")
    repo.path.mkdir()
    repo.git("init", "-q")
    repo.write("a.txt", "a\n")
    before = repo.fingerprint()
    host = LocalHost(repo.path)

    made = await create(host, "x", base="head" if base == "head" else "snapshot")

    assert made.base_commit == ""
    assert repo.git("rev-list", "--count", made.snapshot_commit) == "1"
    assert sorted(tree(made.path)) == (["a.txt"] if base == "snapshot" else [])
    assert repo.fingerprint() == before
    assert isinstance(await finish(host, made), Removed)
    assert repo.fingerprint() == before


@pytest.mark.spec("W2")
async def test_a_detached_head_and_a_shallow_clone(repo: Repo, tmp_path: Path) -> None:
    """Neither a branch nor the whole history is needed."""
    repo.write("a.txt", "more\n")
    repo.commit()
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(clone.path))
    clone.git("checkout", "-q", "--detach")
    clone.write("new.txt", "new\n")
    before = clone.fingerprint()
    host = LocalHost(clone.path)

    made = await create(host, "x")

    assert Path(made.path, "new.txt").exists()
    assert clone.fingerprint() == before
    assert isinstance(await finish(host, made), Removed)


@pytest.mark.spec("W2")
async def test_a_sparse_checkout_stays_sparse(repo: Repo, host: LocalHost) -> None:
    """The worktree holds the same part of the repository, and the rest is not seen as removed."""
    for name in ("in/a", "out/b"):
        repo.write(name, "x\n")
    repo.commit()
    repo.git("sparse-checkout", "set", "in")
    repo.write("in/new", "new\n")
    repo.write("out/new", "outside the cone\n")
    before = repo.fingerprint()

    made = await create(host, "x")

    assert Path(made.path, "in/new").exists()
    assert not Path(made.path, "out/b").exists()
    names = repo.git("ls-tree", "-r", "--name-only", made.snapshot_commit).split()
    assert {"out/b", "out/new", "in/new"} <= set(names)
    assert repo.git("status", "--porcelain", cwd=made.path) == ""
    assert repo.fingerprint() == before
    assert isinstance(await finish(host, made), Removed)


@pytest.mark.spec("W2")
async def test_submodules_and_repositories_inside(repo: Repo, host: LocalHost) -> None:
    """Submodules stay recorded links; repositories that nobody registered are left out."""
    other = make_repo(repo.path.parent / "other")
    repo.git("submodule", "add", "-q", str(other.path), "sub")
    repo.commit("submodule")
    make_repo(repo.path / "nested")
    (repo.path / "empty").mkdir()
    repo.git("init", "-q", cwd=repo.path / "empty")
    (repo.path / "sub/a.txt").write_text("dirty\n")
    before = repo.fingerprint()

    made = await create(host, "x")

    assert list(Path(made.path, "sub").iterdir()) == []
    assert not Path(made.path, "nested").exists()
    assert repo.fingerprint() == before
    assert isinstance(await finish(host, made), Removed)
    filled = await create(host, "y")
    repo.git("submodule", "update", "--init", "-q", cwd=filled.path)
    kept = await finish(host, filled)
    assert isinstance(kept, Kept)
    assert "submodules" in kept.why


@pytest.mark.spec("W2")
async def test_a_subfolder_is_a_subfolder_there_too(repo: Repo, tmp_path: Path) -> None:
    """A parent below the root of its repository has a child at the same place; also if it is new."""
    made = await create(LocalHost(repo.path / "src"), "x")
    assert made.cwd == f"{made.path}/src"
    assert made.parent == str(repo.path)
    (repo.path / "bare" / "folder").mkdir(parents=True)
    made = await create(LocalHost(repo.path / "bare/folder"), "y")
    assert Path(made.cwd).is_dir()


@pytest.mark.spec("W2")
async def test_a_childs_child_lies_beside_it(repo: Repo, host: LocalHost) -> None:
    """A worktree made from within a worktree starts from that one's changes and survives it."""
    outer = await create(host, "outer")
    Path(outer.path, "new.txt").write_text("of the child\n")

    inner = await create(LocalHost(outer.path), "inner")

    assert inner.path == f"{repo.path}/.prong/worktrees/inner"
    assert inner.parent == outer.path
    assert Path(inner.path, "new.txt").read_text() == "of the child\n"
    Path(outer.path, "new.txt").unlink()
    assert isinstance(await finish(host, outer), Removed)
    assert Path(inner.path, "new.txt").exists()


@pytest.mark.spec("W2")
async def test_a_name_that_is_taken_gets_a_number(repo: Repo, host: LocalHost) -> None:
    """Worktrees made at once, left-over branches and folders: every one has a name of its own."""
    repo.git("branch", "prong/b-2")
    (repo.path / ".prong/worktrees/b-3").mkdir(parents=True)
    made: list[Worktree] = []

    async def one() -> None:
        made.append(await create(host, "b"))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)

    assert sorted(w.slug for w in made) == ["b", "b-4", "b-5", "b-6"]
    assert len({w.path for w in made}) == 4
    for worktree in made:
        assert repo.git("status", "--porcelain", cwd=worktree.path) == ""


@pytest.mark.spec("W2")
async def test_no_hook_runs_and_nobody_need_be_known(repo: Repo, host: LocalHost) -> None:
    """Hooks of the repository are not run, nothing is signed, and no identity is asked for."""
    repo.git("config", "--unset", "user.name")
    repo.git("config", "user.useConfigOnly", "true")
    repo.git("config", "commit.gpgSign", "true")
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {repo.path.parent}/ran\nexit 1\n")
        hook.chmod(0o755)
    repo.write("new.txt", "new\n")

    made = await create(host, "x")
    await finish(host, made)

    assert not (repo.path.parent / "ran").exists()


@pytest.mark.spec("W2")
async def test_a_surrounding_git_does_not_lead_astray(repo: Repo, tmp_path: Path) -> None:
    """Started by a hook, with GIT_DIR and GIT_INDEX_FILE set, the folder still decides."""
    other = make_repo(tmp_path / "other")
    before = other.fingerprint()
    script = (
        "import anyio, sys\n"
        "from prong.host import LocalHost\n"
        "from prong.host.worktree import create\n"
        "print(anyio.run(lambda: create(LocalHost(sys.argv[1]), 'x')).path)\n"
    )
    env = {
        **os.environ,
        "GIT_DIR": f"{other.path}/.git",
        "GIT_INDEX_FILE": f"{other.path}/.git/index",
        "GIT_WORK_TREE": str(other.path),
    }
    words = [sys.executable, "-c", script, str(repo.path)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{repo.path}/.prong/worktrees/x"
    assert other.fingerprint() == before


@pytest.mark.spec("W2")
async def test_heavy_folders_are_linked_and_listed_files_copied(
    repo: Repo, host: LocalHost
) -> None:
    """Ignored folders are shared by a link, ignored files of `.worktreeinclude` copied, no others."""
    repo.write(".gitignore", "node_modules/\n.env*\nconfig/\nbig.bin\n")
    repo.write(".worktreeinclude", ".env*\nconfig/*.local\n!.env.prod\nsrc/b.txt\n")
    repo.commit()
    repo.write("node_modules/p/index.js", "js\n")
    for name in (".env", ".env.prod", "config/x.local", "config/y.other", "big.bin"):
        repo.write(name, name)
    (repo.path / ".env").chmod(0o600)
    repo.write("tracked/t", "t")
    repo.commit()

    made = await create(host, "x", link=("node_modules", "tracked", ".venv"))

    place = Path(made.path)
    assert (place / "node_modules").readlink() == repo.path / "node_modules"
    assert not (place / "tracked").is_symlink()
    assert (place / ".env").read_text() == ".env"
    assert (place / ".env").stat().st_mode & 0o777 == 0o600
    assert (place / "config/x.local").exists()
    assert not any((place / n).exists() for n in (".env.prod", "config/y.other", "big.bin"))
    assert sorted(made.extras) == [".env", "config/x.local", "node_modules"]
    assert repo.git("status", "--porcelain", cwd=place) == ""
    assert repo.git("status", "--porcelain") == ""

    assert isinstance(await finish(host, made), Removed)
    assert not place.exists()
    assert (repo.path / "node_modules/p/index.js").read_text() == "js\n"

    second = await create(host, "y", link=("node_modules",))
    Path(second.path, ".env").write_text("changed by the child")
    kept = await finish(host, second)
    assert isinstance(kept, Kept)
    assert ".env" in kept.why


@pytest.mark.spec("W2")
@pytest.mark.parametrize("name", ["/etc", "../x", "a/../../x", "", ".", "-x"])
async def test_links_out_of_the_project_are_refused(repo: Repo, host: LocalHost, name: str) -> None:
    """A setting cannot link what lies elsewhere; nothing is left of the attempt."""
    with pytest.raises(UsageError, match="symlinkDirectories"):
        await create(host, "x", link=(name,))
    assert not (repo.path / ".prong/worktrees/x").exists()
    assert "prong" not in repo.git("for-each-ref")


@pytest.mark.spec("W2")
async def test_a_folder_for_worktrees_behind_a_link_is_refused(repo: Repo, host: LocalHost) -> None:
    """A repository cannot make Prong write elsewhere by shipping `.prong` as a link."""
    outside = repo.path.parent / "outside"
    outside.mkdir()
    (repo.path / ".prong").symlink_to(outside)
    with pytest.raises(UsageError, match="is a link"):
        await create(host, "x")
    assert list(outside.iterdir()) == []


@pytest.mark.spec("W2")
async def test_what_is_no_working_copy_is_refused(tmp_path: Path, repo: Repo) -> None:
    """Outside a repository, in a bare one or in `.git`, the user is told what to do."""
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(UsageError, match="git init"):
        await create(LocalHost(plain), "x")
    with pytest.raises(UsageError, match="working copy"):
        await create(LocalHost(repo.path / ".git"), "x")
    repo.git("init", "-q", "--bare", str(tmp_path / "bare"))
    with pytest.raises(UsageError, match="working copy"):
        await create(LocalHost(tmp_path / "bare"), "x")


async def test_a_failed_addition_leaves_nothing(repo: Repo, host: LocalHost) -> None:
    """If git cannot make the branch, there is no worktree, no ref and no file afterwards."""
    repo.git("branch", "prong")
    before = repo.fingerprint()
    refs = repo.git("for-each-ref")
    with pytest.raises(GitFailed, match="prong"):
        await create(host, "x")
    assert repo.git("for-each-ref") == refs
    assert repo.fingerprint() == before
    assert repo.git("worktree", "list").count("\n") == 0
