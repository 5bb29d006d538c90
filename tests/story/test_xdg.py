"""Where a session keeps things if the environment names folders for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.option import Options
from prong.config.place import look_around, make_policy
from prong.config.sandboxing import CACHES, sandboxing
from prong.journal import store
from prong.testing import Worlds, say
from prong.tools.access import Writing
from prong.tools.policy import Ask, decide

pytestmark = pytest.mark.spec("L12")


def test_sessions_are_in_one_place(tmp_path: Path) -> None:
    """The state folder is taken where it is named and `~/.prong` has no sessions; never both."""
    state, own = tmp_path / "state", tmp_path / ".prong"
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(state)}

    assert store.home({"HOME": str(tmp_path)}) == own
    assert store.home(env) == state / "prong"
    assert store.home(env | {"XDG_STATE_HOME": "relative"}) == own
    assert store.home(env | {"PRONG_HOME": str(tmp_path / "p")}) == tmp_path / "p"

    own.mkdir()
    (own / "trust.json").write_text("{}")
    assert store.home(env) == state / "prong"
    (own / "projects").mkdir()
    assert store.home(env) == own


@pytest.mark.anyio
async def test_a_session_is_kept_there_and_found_again(world: Worlds, tmp_path: Path) -> None:
    """It is stored for its user alone, and goes on from there."""
    state = tmp_path / "state"
    env = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(state)}
    async with world([say("One."), say("Two.")], opens=False, store=None, env=env) as w:
        async with w.open() as session:
            await session.run("Hi")
        async with w.open(continue_last=True) as session:
            assert (await session.run("Again")).text == "Two."

        assert (state / "prong").stat().st_mode & 0o077 == 0
        assert list((state / "prong/projects").iterdir())
        assert not (Path(env["HOME"]) / ".prong/projects").exists()


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_no_agent_changes_what_is_kept_there(tmp_path: Path, mode: str) -> None:
    """The folder is guarded in every mode, as `~/.prong` is."""
    (tmp_path / "project").mkdir()
    env = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}
    place = look_around(Options(cwd=str(tmp_path / "project"), env=env, mode=mode))
    home = str(tmp_path / "home")
    policy = make_policy(
        place, home=home, storage=str(tmp_path / "s"), sandbox=sandboxing(place, home)
    )

    verdict = decide(policy, "Write", [Writing(str(tmp_path / "state/prong/prices.json"))])

    assert isinstance(verdict, Ask)
    assert verdict.suggestion == ()


@pytest.mark.parametrize(
    ("named", "counts"), [("cache", True), ("", False), ("home", False), ("home/..", False)]
)
def test_caches_may_be_written_where_they_are(tmp_path: Path, named: str, counts: bool) -> None:
    """`XDG_CACHE_HOME` is a folder for caches, unless it holds the home or the project."""
    (tmp_path / "home/project").mkdir(parents=True)
    env = {"HOME": str(tmp_path / "home")}
    env |= {"XDG_CACHE_HOME": str(tmp_path / named)} if named else {}
    place = look_around(Options(cwd=str(tmp_path / "home/project"), env=env))

    caches = sandboxing(place, env["HOME"]).caches

    assert (str(tmp_path / "cache") in caches) == counts
    assert len(caches) == len(CACHES) + counts
