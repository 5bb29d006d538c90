"""Merging the children's branches with real git."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

from prong.errors import GitFailed, UsageError
from prong.face.cli import main
from prong.face.slash import read_slash
from prong.host import LocalHost
from prong.host.merge import merge, undo
from prong.host.worktree import create, finish
from prong.testing.repository import Repo
from prong.view import View

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W5")]

LINES = ["one", "two", "three", "four", "five", "six", "seven"]


def text(**changes: str) -> str:
    """Give the lines of a.txt with some replaced."""
    return "".join(f"{changes.get(line, line)}\n" for line in LINES)


async def child(repo: Repo, host: LocalHost, slug: str, files: dict[str, str | None]) -> str:
    """Let a child write and commit files (None: remove), and end; gives its worktree."""
    made = await create(host, slug)
    for name, content in files.items():
        place = Path(made.path, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.unlink()
        else:
            place.write_text(content)
    repo.commit(f"{slug} did it", cwd=made.path)
    await finish(host, made)
    return made.path


def user(repo: Repo) -> dict[str, str]:
    """Tell what the user has, without times."""
    files = {k: v.split()[0] for k, v in repo.fingerprint().items() if k.startswith("/")}
    staged, plain = repo.git("diff", "--cached"), repo.git("diff")
    status = repo.git("status", "--porcelain", "-uall")
    head = repo.git("rev-parse", "HEAD")
    return {**files, "HEAD": head, "staged": staged, "plain": plain, "status": status}


async def test_children_are_merged_in_order(repo: Repo, host: LocalHost) -> None:
    """Each becomes one merge commit, a later one builds on the earlier, and the tree is clean."""
    await child(repo, host, "b", {"a.txt": text(one="B"), "b.new": "b\n"})
    await child(repo, host, "a", {"a.txt": text(seven="A"), "src/b.txt": None})
    head = repo.git("rev-parse", "HEAD")

    report = await merge(host, ["b", "prong/a"])

    assert [(s.slug, s.status) for s in report.steps] == [("b", "merged"), ("a", "merged")]
    assert not report.stopped
    assert (repo.path / "a.txt").read_text() == text(one="B", seven="A")
    assert not (repo.path / "src/b.txt").exists()
    assert repo.git("status", "--porcelain") == ""
    log = repo.git("log", "--first-parent", "--format=%s").splitlines()
    assert log == ["Merge branch 'prong/a'", "Merge branch 'prong/b'", "first"]
    assert repo.git("merge-base", "--is-ancestor", "prong/a", "HEAD") == ""
    assert (report.before, report.after) == (head, repo.git("rev-parse", "HEAD"))
    again = await merge(host)
    assert {s.status for s in again.steps} <= {"nothing new"}
    assert repo.git("rev-parse", "HEAD") == report.after


async def test_a_conflict_stops_cleanly(repo: Repo, host: LocalHost) -> None:
    """What fits before it is merged; of the child that conflicts and those after it, nothing."""
    await child(repo, host, "first", {"a.txt": text(one="first")})
    await child(repo, host, "second", {"a.txt": text(one="second"), "new.txt": "n\n"})
    await child(repo, host, "third", {"third.txt": "3\n"})

    report = await merge(host, ["first", "second", "third"])

    assert [s.status for s in report.steps] == ["merged", "conflict"]
    assert report.stopped
    bad = report.steps[1]
    assert (bad.conflicts, bad.against) == (("a.txt",), ("prong/first",))
    assert "git merge prong/second" in bad.remedy
    assert (repo.path / "a.txt").read_text() == text(one="first")
    assert not (repo.path / "new.txt").exists()
    assert not (repo.path / "third.txt").exists()
    assert repo.git("status", "--porcelain") == ""
    assert not (repo.path / ".git/MERGE_HEAD").exists()


async def test_a_dry_run_shows_every_conflict_and_changes_nothing(
    repo: Repo, host: LocalHost
) -> None:
    """The preview goes on past a conflict, and the user's index, files and refs stay."""
    await child(repo, host, "1", {"a.txt": text(one="first")})
    await child(repo, host, "2", {"a.txt": text(one="second")})
    await child(repo, host, "3", {"third.txt": "3\n"})
    await child(repo, host, "4", {"src/b.txt": "child\n"})
    repo.write("src/b.txt", "mine\n")
    repo.commit()
    repo.write("a.txt", text(seven="mine"))
    before, refs = repo.fingerprint(), repo.git("for-each-ref")

    report = await merge(host, ["1", "2", "3", "4"], dry_run=True)

    found = [(s.status, s.against) for s in report.steps]
    assert found == [
        ("would merge", ()),
        ("conflict", ("prong/1",)),
        ("would merge", ()),
        ("conflict", ("your branch",)),
    ]
    assert (repo.fingerprint(), repo.git("for-each-ref")) == (before, refs)


async def test_uncommitted_changes_elsewhere_stay_uncommitted(repo: Repo, host: LocalHost) -> None:
    """Changes the children started from are neither lost nor committed along."""
    repo.write("src/b.txt", "staged\n")
    repo.git("add", "src/b.txt")
    repo.write("untracked.txt", "u\n")
    await child(repo, host, "x", {"a.txt": text(one="X")})
    before = user(repo)

    report = await merge(host, ["x"])

    assert [s.status for s in report.steps] == ["merged"]
    assert repo.git("show", "--name-only", "--format=%s", "HEAD").split("\n") == [
        "Apply prong/x",
        "",
        "a.txt",
    ]
    assert "x did it" in repo.git("log", "-1", "--format=%b")
    after = user(repo)
    assert (repo.path / "a.txt").read_text() == text(one="X")
    for key in ("staged", "plain", "status"):
        assert after[key] == before[key]


async def test_uncommitted_changes_to_the_same_file(repo: Repo, host: LocalHost) -> None:
    """Staged and unstaged lines of a file the child changed as well keep their place."""
    repo.write("a.txt", text(four="staged"))
    repo.git("add", "a.txt")
    repo.write("a.txt", text(four="staged", seven="plain"))
    await child(repo, host, "x", {"a.txt": text(one="X", four="staged", seven="plain")})

    report = await merge(host, ["x"])

    assert [s.status for s in report.steps] == ["merged"]
    assert repo.git("show", "HEAD:a.txt") == text(one="X").strip()
    assert repo.git("show", ":a.txt") == text(one="X", four="staged").strip()
    assert (repo.path / "a.txt").read_text() == text(one="X", four="staged", seven="plain")


async def test_what_builds_on_uncommitted_lines_is_refused_until_they_are_committed(
    repo: Repo, host: LocalHost
) -> None:
    """A child's change to uncommitted lines, or to an untracked file, waits for a commit of them."""
    repo.write("a.txt", text(four="mine"))
    repo.write("untracked.txt", "u\n")
    await child(repo, host, "x", {"a.txt": text(four="mine, better")})
    await child(repo, host, "y", {"untracked.txt": "u, better\n"})
    before = user(repo)

    for slug in ("x", "y"):
        report = await merge(host, [slug])
        assert [s.status for s in report.steps] == ["in the way"]
        assert "commit your changes" in report.steps[0].remedy
        assert user(repo) == before

    repo.commit("mine")
    report = await merge(host, ["x", "y"])

    assert [s.status for s in report.steps] == ["merged", "merged"]
    assert (repo.path / "a.txt").read_text() == text(four="mine, better")
    assert (repo.path / "untracked.txt").read_text() == "u, better\n"
    assert repo.git("status", "--porcelain") == ""


async def test_changes_made_since_are_kept_too(repo: Repo, host: LocalHost) -> None:
    """What the user changed and committed while the child worked is merged with, not over."""
    await child(repo, host, "x", {"a.txt": text(one="X")})
    repo.write("src/b.txt", "committed since\n")
    repo.commit()
    repo.write("a.txt", text(seven="since"))

    await merge(host, ["x"])

    assert (repo.path / "a.txt").read_text() == text(one="X", seven="since")
    assert repo.git("show", "HEAD:a.txt") == text(one="X").strip()
    assert (repo.path / "src/b.txt").read_text() == "committed since\n"


@pytest.mark.parametrize("made", ["x.cfg", "dir.cfg/x", "x.cfg/y"])
async def test_an_ignored_file_is_not_overwritten(repo: Repo, host: LocalHost, made: str) -> None:
    """A file of the user's that git does not know of stops the merge before it begins."""
    await child(repo, host, "x", {made: "child\n"})
    repo.write(".gitignore", "*.cfg\n")
    repo.commit()
    repo.write({"x.cfg/y": "x.cfg"}.get(made, made), "mine\n")
    before = user(repo)
    with pytest.raises(UsageError, match="in the way"):
        await merge(host, ["x"])
    assert user(repo) == before


async def test_a_busy_index_leaves_everything_as_it_was(repo: Repo, host: LocalHost) -> None:
    """If another git holds the index, the files are put back."""
    await child(repo, host, "x", {"a.txt": text(one="X"), "new": "n\n"})
    before = user(repo)
    (repo.path / ".git/index.lock").touch()
    with pytest.raises(GitFailed, match="nothing was merged"):
        await merge(host, ["x"])
    (repo.path / ".git/index.lock").unlink()
    assert user(repo) == before


async def test_undo_restores_exactly(repo: Repo, host: LocalHost) -> None:
    """HEAD, index and files are as before, uncommitted changes included; merging works again."""
    repo.write("a.txt", text(four="staged"))
    repo.git("add", "a.txt")
    repo.write("a.txt", text(four="staged", seven="plain"))
    repo.write("untracked.txt", "u\n")
    await child(repo, host, "x", {"a.txt": text(one="X", four="staged", seven="plain")})
    await child(repo, host, "y", {"new.txt": "n\n"})
    before = user(repo)
    await merge(host, ["x", "y"])
    merged = user(repo)

    assert await undo(host) == ("x", "y")
    assert user(repo) == before
    with pytest.raises(UsageError, match="no merge to take back"):
        await undo(host)

    again = await merge(host, ["x", "y"])
    assert [s.status for s in again.steps] == ["merged", "merged"]
    assert {**user(repo), "HEAD": ""} == {**merged, "HEAD": ""}


@pytest.mark.parametrize("change", ["commit", "file", "index", "new file"])
async def test_undo_refuses_after_a_change(repo: Repo, host: LocalHost, change: str) -> None:
    """Whatever was done since the merge is not thrown away."""
    await child(repo, host, "x", {"new.txt": "n\n"})
    await merge(host, ["x"])
    repo.write("later.txt" if change == "new file" else "a.txt", "later\n")
    if change == "index":
        repo.git("add", "-A")
    if change == "commit":
        repo.commit()
    before = user(repo)
    with pytest.raises(UsageError, match="git reset --keep"):
        await undo(host)
    assert user(repo) == before


async def test_a_child_that_went_on_is_merged_from_where_it_was(
    repo: Repo, host: LocalHost
) -> None:
    """A second merge takes only what is new, although the user has changed the first part since."""
    path = await child(repo, host, "x", {"a.txt": text(one="X")})
    await merge(host, ["x"])
    repo.write("a.txt", text(one="X, corrected"))
    repo.commit()
    Path(path, "new.txt").write_text("n\n")
    repo.commit(cwd=path)

    report = await merge(host)

    assert [s.status for s in report.steps] == ["merged"]
    assert report.steps[0].files == ("new.txt",)
    assert (repo.path / "a.txt").read_text() == text(one="X, corrected")


async def test_running_and_uncommitted_children_are_not_merged(repo: Repo, host: LocalHost) -> None:
    """Half of a child's work is never taken for all of it, if that is wished."""
    running = await create(host, "running")
    Path(running.path, "r.txt").write_text("r\n")
    repo.commit(cwd=running.path)
    path = await child(repo, host, "dirty", {"d.txt": "d\n"})
    Path(path, "more.txt").write_text("m\n")
    before = user(repo)

    report = await merge(host, dry_run=True, commit=False)
    assert {s.slug: s.status for s in report.steps} == {
        "running": "running",
        "dirty": "uncommitted",
    }
    for slug in ("running", "dirty"):
        assert (await merge(host, [slug], commit=False)).stopped
    assert user(repo) == before


async def test_what_cannot_be_merged_into_is_refused(repo: Repo, host: LocalHost) -> None:
    """An unknown child, a merge under way and an unborn branch are told, with a remedy."""
    with pytest.raises(UsageError, match="there is no branch prong/nope"):
        await merge(host, ["nope"])
    with pytest.raises(UsageError, match="cannot name a worktree"):
        await merge(host, ["--force"])
    (repo.path / ".git/MERGE_HEAD").write_text(repo.git("rev-parse", "HEAD") + "\n")
    with pytest.raises(UsageError, match="MERGE_HEAD"):
        await merge(host)
    (repo.path / ".git/MERGE_HEAD").unlink()
    repo.git("checkout", "-q", "--orphan", "unborn")
    with pytest.raises(UsageError, match="no commit yet"):
        await merge(host)


async def test_merging_from_a_subfolder_with_odd_names(repo: Repo, host: LocalHost) -> None:
    """The whole working copy is meant wherever one stands; names may hold anything."""
    name = 'né w "q"\t.txt'
    await child(repo, host, "x", {name: "n\n", "src/b.txt": "B\n"})
    report = await merge(LocalHost(repo.path / "src"))
    assert [s.files for s in report.steps] == [(name, "src/b.txt")]
    assert (repo.path / name).read_text() == "n\n"
    assert repo.git("status", "--porcelain") == ""


async def test_the_command_speaks_json_and_prose(repo: Repo, host: LocalHost) -> None:
    """`prong merge` previews, merges, says how to undo, and ends with 1 if it had to stop."""
    await child(repo, host, "x", {"a.txt": text(one="X")})
    await child(repo, host, "y", {"a.txt": text(one="Y")})

    def prong(*words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "prong", "merge", *words]
        done = subprocess.run(
            argv, cwd=repo.path, env=os.environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, out = prong("--dry-run", "--json", "x", "y")
    assert code == 1
    assert [s["status"] for s in json.loads(out)["steps"]] == ["would merge", "conflict"]
    code, out = prong("x", "y")
    assert code == 1
    assert "prong/y: conflict with prong/x in a.txt" in out
    assert "merged so far: prong/x" in out
    assert "prong merge --undo" in out
    assert prong("--undo") == (0, "undone: x\n")
    assert prong("--undo", "x")[0] == 2
    assert (repo.path / "a.txt").read_text() == text()


async def test_the_words_of_the_slash_command_lead_to_the_options(
    repo: Repo, host: LocalHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no names of children here, and what is an option here is none behind the slash."""
    await child(repo, host, "preview", {"a.txt": text(one="X")})

    def prong(*words: str) -> int:
        return main(["merge", *words, "-C", str(repo.path)])

    for word, option in (("preview", "--preview"), ("undo", "--undo"), ("clean", "--clean")):
        assert await to_thread.run_sync(prong, word) == 2
        assert f"did you mean 'prong merge {option}'?" in capsys.readouterr().err
        with pytest.raises(UsageError, match="say /merge"):
            read_slash(f"/merge {option}", View())
    assert await to_thread.run_sync(prong, "prong/preview", "--preview") == 0
    assert "prong/preview: would merge" in capsys.readouterr().out


async def test_a_name_stays_on_its_line(repo: Repo, host: LocalHost) -> None:
    """A file that is named like a line of the report cannot forge one."""
    await child(repo, host, "x", {"a\nprong/y: merged": "n\n"})
    done = subprocess.run(
        [sys.executable, "-m", "prong", "merge", "--dry-run"],
        cwd=repo.path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "prong/x: would merge, 1 file: a·prong/y: merged\n"


async def test_a_branch_that_no_child_made_is_told_apart(repo: Repo, host: LocalHost) -> None:
    """It is there, so it is not called missing; git itself can merge it."""
    repo.git("branch", "prong/mine")
    with pytest.raises(UsageError, match=r"prong/mine was not made by a child.*git merge"):
        await merge(host, ["mine"])
    with pytest.raises(UsageError, match="there is no branch prong/none"):
        await merge(host, ["none"])
