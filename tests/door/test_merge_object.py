"""Merging where objects of git were replaced: what comes in is what its name says, or nothing."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from prong.host import LocalHost, rehash
from prong.host.git import Git
from prong.host.merge import merge
from prong.host.residue import own_folder
from prong.host.worktree import create, finish
from prong.testing.repository import Repo
from prong.tools.derive import worktree
from prong.tools.policy import Ground
from shared.sandbox import Bench, views

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W3", "W5", "L13")]


async def child(host: LocalHost, repo: Repo, slug: str, files: dict[str, str]) -> str:
    """Let a child commit twice and end; gives its branch."""
    made = await create(host, slug)
    for name, text in files.items():
        Repo(Path(made.path)).write(name, text)
        repo.commit(f"add {name}", cwd=made.path)
    await finish(host, made)
    return f"prong/{slug}"


def loose(repo: Repo, name: str) -> Path:
    found = repo.git("rev-parse", name)
    return repo.path / ".git/objects" / found[:2] / found[2:]


def replace(place: Path, kind: str, data: bytes) -> None:
    place.chmod(0o644)
    place.write_bytes(zlib.compress(f"{kind} {len(data)}\0".encode() + data))


def content(place: Path) -> bytes:
    return zlib.decompress(place.read_bytes()).partition(b"\0")[2]


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("prong/one:sub/new.txt", "blob"),
        ("prong/one~1:first.txt", "blob"),
        ("prong/one:sub", "tree"),
        ("prong/one~1^{tree}", "tree"),
        ("prong/one", "commit"),
        ("prong/one~1", "commit"),
    ],
)
async def test_a_replaced_object_is_not_merged(
    repo: Repo, host: LocalHost, name: str, kind: str, dry_run: bool
) -> None:
    """Whatever kind of object holds something else than its name says, nothing of it comes in."""
    await child(host, repo, "one", {"first.txt": "1\n", "sub/new.txt": "2\n"})
    place = loose(repo, name)
    data = content(place)
    before = repo.fingerprint()
    changed = {"blob": b"evil\n", "tree": data.replace(b".txt", b".bad", 1), "commit": data + b"!"}
    if kind == "tree" and b".txt" not in data:
        changed["tree"] = data.replace(b"sub", b"bus")
    replace(place, kind, changed[kind])

    report = await merge(host, dry_run=dry_run)

    assert [step.status for step in report.steps] == ["damaged"]
    assert place.parent.name + place.name[:10] in report.steps[0].remedy
    assert "git fsck" in report.steps[0].remedy
    assert report.stopped
    assert report.after == report.before
    replace(place, kind, data)
    assert repo.fingerprint() == before
    assert [step.status for step in (await merge(host)).steps] == ["merged"]


@pytest.mark.parametrize("harm", ["gone", "junk"])
async def test_an_object_that_cannot_be_read_is_not_merged(
    repo: Repo, host: LocalHost, harm: str
) -> None:
    """A file that is gone or holds no object at all keeps the branch out, and says which it is."""
    await child(host, repo, "one", {"first.txt": "1\n", "second.txt": "2\n"})
    place = loose(repo, "prong/one:second.txt")
    place.chmod(0o644)
    if harm == "gone":
        place.unlink()
    else:
        place.write_bytes(b"junk")
    before = repo.fingerprint()

    step = (await merge(host)).steps[0]

    assert step.status == "damaged"
    assert place.parent.name + place.name[:10] in step.remedy
    assert repo.fingerprint() == before


async def test_an_old_object_under_a_new_name_is_looked_at(repo: Repo, host: LocalHost) -> None:
    """What a child only moved was there before, and is written to the user's folder all the same."""
    repo.write("old.txt", "honest\n")
    repo.commit()
    made = await create(host, "one")
    repo.git("mv", "old.txt", "moved.txt", cwd=made.path)
    repo.git("commit", "-qm", "move", cwd=made.path)
    await finish(host, made)
    replace(loose(repo, "HEAD:old.txt"), "blob", b"evil\n")

    report = await merge(host)

    assert [step.status for step in report.steps] == ["damaged"]
    assert not (repo.path / "moved.txt").exists()


async def test_what_the_merge_itself_would_make_is_looked_at(repo: Repo, host: LocalHost) -> None:
    """A file that was put where the merged content will be is not taken for it."""
    lines = [f"{n}\n" for n in range(20)]
    repo.write("a.txt", "".join(lines))
    repo.commit()
    mine = "".join(["mine\n", *lines[1:]])
    await child(host, repo, "one", {"a.txt": "".join([*lines[:-1], "theirs\n"])})
    repo.write("a.txt", mine)
    repo.commit()
    merged = repo.path / "merged"
    merged.write_text("".join(["mine\n", *lines[1:-1], "theirs\n"]))
    name = repo.git("hash-object", "-w", "merged")
    merged.unlink()
    replace(repo.path / ".git/objects" / name[:2] / name[2:], "blob", b"evil\n")

    report = await merge(host)

    assert [step.status for step in report.steps] == ["damaged"]
    assert (repo.path / "a.txt").read_text() == mine


async def test_children_before_the_damaged_one_are_merged(repo: Repo, host: LocalHost) -> None:
    """It stops at the one that is damaged, and keeps what fitted before."""
    for slug in ("one", "two"):
        await child(host, repo, slug, {f"{slug}.txt": slug})
    replace(loose(repo, "prong/two:two.txt"), "blob", b"evil\n")

    report = await merge(host, ["one", "two"])

    assert [step.status for step in report.steps] == ["merged", "damaged"]
    assert (repo.path / "one.txt").read_text() == "one"
    assert not (repo.path / "two.txt").exists()


async def test_replacements_that_the_user_made_are_no_damage(repo: Repo, host: LocalHost) -> None:
    """What `git replace` gives out for an object is not mistaken for the object."""
    await child(host, repo, "one", {"a.txt": "a\n"})
    repo.write("other", "other\n")
    other = repo.git("hash-object", "-w", "other")
    (repo.path / "other").unlink()
    repo.git("replace", repo.git("rev-parse", "prong/one:a.txt"), other)

    assert (await merge(host)).steps[0].status == "merged"


@pytest.fixture(params=[rehash._BATCH, 10])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """With the size that is held at once as it is, and so small that nothing fits."""
    monkeypatch.setattr(rehash, "_BATCH", request.param)
    return request.param


@pytest.mark.parametrize("method", ["sha1", "sha256"])
async def test_every_object_of_a_repository_is_what_it_says(
    tmp_path: Path, method: str, sizes: int
) -> None:
    """Of both kinds of names, small and large, packed and not: none is suspected but the altered."""
    repo = Repo(tmp_path)
    repo.git("init", "-q", f"--object-format={method}")
    repo.git("config", "user.name", "x")
    repo.git("config", "user.email", "x@x.invalid")
    for n in range(4):
        repo.write(f"f{n}", "line\n" * n * 3000)
        repo.write("bin\n é", "\0\n" * n)
        repo.commit()
        if n == 1:
            repo.git("gc", "-q")
    repo.git("tag", "-am", "told", "v1")
    listed = repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    git = Git(LocalHost(tmp_path), str(tmp_path))
    assert len(listed) > 10
    assert await rehash.altered(git, listed) == ()
    replace(loose(repo, "HEAD:f3"), "blob", b"evil")

    assert await rehash.altered(git, listed) == (repo.git("rev-parse", "HEAD:f3"),)


@views
async def test_a_child_that_replaces_objects_in_its_sandbox_is_found_out(tmp_path: Path) -> None:
    """What its profile lets a child do to shared objects keeps its branch from being merged."""
    bench = Bench(tmp_path)
    made = await create(bench.host, "one")
    own, common = await own_folder(Git(bench.host, made.parent), made.path)
    ground = Ground(made.cwd, made.path, (made.parent,), own, common, made.branch)
    profile = worktree(bench.policy(), ground)
    line = (
        "echo good > new && git add new && git commit -qm new && f=$(git rev-parse HEAD:new) && "
        f"f={bench.root}/.git/objects/${{f:0:2}}/${{f:2}} && chmod u+w $f && "
        "python3 -c \"import sys, zlib; open(sys.argv[1], 'wb').write(zlib.compress(b'blob 5\\0evil\\n'))\" $f"
    )
    ended = await bench.run(line, profile, cwd=made.path)
    assert ended.code == 0, ended
    await finish(bench.host, made)

    step = (await merge(bench.host)).steps[0]

    assert step.status == "damaged"
    await bench.host.close()
