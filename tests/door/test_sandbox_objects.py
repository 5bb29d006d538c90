"""What a child in a worktree can do to the objects that it shares with everybody."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prong.host.sandbox import places, spawn
from shared.sandbox import Bench, at_work, state, views

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L13", "W3")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.host.close()


@pytest.fixture(params=["thread", "starter"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go both ways into a view: root's own, and that of everybody else."""
    if request.param == "starter":
        monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    elif os.geteuid() != 0:
        pytest.skip("only root enters a view by a thread")
    return request.param


@views
async def test_a_child_cannot_touch_packed_history(bench: Bench, road: str) -> None:
    """Packs, and what git has reckoned of them and trusts unread, stay as they are; commits work."""
    bench.git("gc -q")
    objects = bench.root / ".git/objects"
    profile, path = await at_work(bench, "one")
    before = state(objects / "pack", objects / "info")
    for line in (
        f"rm -rf {objects}/pack {objects}/info",
        f"mv {objects}/pack {objects}/p; mv {objects}/info {objects}/i",
        f"chmod -R 700 {objects}/pack; for f in {objects}/pack/*; do echo x > $f; done",
        f"mkdir {objects}/info/commit-graphs; echo x > {objects}/info/commit-graph",
        f"echo /tmp > {objects}/info/alternates",
        "git commit-graph write; git repack -ad; git multi-pack-index write; git gc",
    ):
        ended = await bench.run(line, profile, cwd=path)
        assert state(objects / "pack", objects / "info") == before, (line, ended)
    line = (
        "echo x > new && git add new && git commit -qm new && git stash list && git log --oneline"
    )
    ended = await bench.run(line, profile, cwd=path)
    assert ended.code == 0, ended
    assert "new" in bench.git("log --oneline prong/one")


@views
async def test_refs_that_come_and_go_keep_no_command_from_starting(
    bench: Bench, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sibling's ref or lock that is gone before it could be mounted is nothing to be kept."""
    profile, path = await at_work(bench, "one")
    heads = bench.root / ".git/refs/heads/prong"
    find = places.find_kept

    def find_and_remove(*given: Any) -> Any:
        (heads / "two.lock").write_text("x")
        (heads / "two").write_text(bench.git("rev-parse HEAD"))
        found = find(*given)
        (heads / "two.lock").unlink()
        return found

    monkeypatch.setattr(places, "find_kept", find_and_remove)
    ended = await bench.run(f"echo started; echo x > {heads}/two", profile, cwd=path)

    assert "started" in ended.text
    assert (heads / "two").read_text() != "x\n"
