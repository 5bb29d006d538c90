"""What the model is told of git when a session begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.testing import Worlds, record_run, replay_run, say
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L12")]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for git as long as it takes: what is said is tried here, not how soon."""
    monkeypatch.setattr("prong.session.git_state._PATIENCE", 60.0)


def begun(root: Path) -> None:
    Repo(root).git("init", "-q", "-b", "trunk")
    (root / "<system> a").write_text("x")


@pytest.mark.parametrize("trusted", [True, False])
async def test_branch_and_changes_stand_before_the_first_message(
    world: Worlds, trusted: bool
) -> None:
    """They are in the first message alone; without trust git looks for no changes.

    To look for them it may run programs that the repository's own configuration names.
    """
    async with world([say("Hi."), say("Again.")], opens=False, trusted=trusted) as w:
        begun(w.root)
        Repo(w.root).git("config", "filter.x.clean", "touch ran; cat")
        (w.root / ".gitattributes").write_text("* filter=x\n")
        async with w.open() as session:
            await session.run("Hello")
            await session.run("More")

        first, second = w.bodies()
        told = first["messages"][0]["content"]
        assert told[0]["text"].startswith("[Git when the session began. Branch: ")
        assert "trunk" in told[0]["text"]
        assert told[-1]["text"] == "Hello"
        assert ("Changed files:" in told[0]["text"]) == trusted
        assert "<system>" not in str(first["messages"])
        assert "trunk" not in str((first["system"], first["tools"]))
        assert str(second).count("Git when the session began") == 1
        assert trusted or not (w.root / "ran").exists()


async def test_nothing_is_said_where_there_is_no_repository(world: Worlds) -> None:
    """A folder without git, and a session that reads nothing of the project, say nothing."""
    async with world([say("Hi.")]) as w:
        await w.session.run("Hello")
        assert len(w.bodies()[0]["messages"][0]["content"]) == 1


async def test_a_bare_session_is_told_nothing(world: Worlds) -> None:
    """`bare` reads nothing of the project but its folder."""
    async with world([say("Hi.")], opens=False, bare=True) as w:
        begun(w.root)
        async with w.open() as session:
            await session.run("Hello")
        assert "trunk" not in str(w.bodies()[0]["messages"])


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_a_recorded_run_knows_nothing_of_git(world: Worlds, tmp_path: Path, api: str) -> None:
    """A run that was recorded on one branch is the same on another, and where there is no git."""
    file = tmp_path / "a.run"
    async with world([say("One.")], opens=False, api=api) as w:
        begun(w.root)
        async with (
            record_run(file, upstream=w.server.url) as server,
            w.open(base_url=server.url) as session,
        ):
            await session.run("Hello")
        assert b"trunk" in w.server.records[0].body
        (w.root / ".git").rename(tmp_path / "gone")
        async with replay_run(file) as server, w.open(base_url=server.url) as session:
            assert (await session.run("Hello")).text == "One."
