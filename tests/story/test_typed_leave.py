"""What typed children may do, by the mode of their tree, of their type, and by the settings."""

from __future__ import annotations

import pytest

from prong.testing import Script, Step, call, say, world
from shared.typed import agent, of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("S6")]

PYTHON = call("Bash", {"command": "python3 -c 'print(6*7)'", "description": "multiply"})
WRITE = call("Write", {"file_path": "new.txt", "content": "x"})
HOOK = call("Write", {"file_path": ".git/hooks/x", "content": "x"})
CAREFUL = '{"careful": {"description": "d", "prompt": "p", "permissionMode": "%s"}}'
GRANT = '{"agents": {"permissionMode": "acceptEdits"}}'


def script(kind: str, step: Step, **more: object) -> Script:
    return Script(
        [agent("BRIEF", kind, **more), say("Waiting."), say("Done.")],
        {"BRIEF": [step, say("Tried.")]},
    )


@pytest.mark.parametrize("kind", ["general-purpose", "edits", "worker"])
async def test_what_the_tree_bypasses_children_bypass(kind: str) -> None:
    """Under bypassPermissions a child in the background runs programs, whatever its type allows."""
    types = '{"edits": {"description": "d", "prompt": "p", "permissionMode": "acceptEdits"}}'
    async with world(script(kind, PYTHON), mode="bypassPermissions", agents=types) as w:
        await w.session.run("Go")

        assert "42" in str(of(w, "BRIEF")[-1]["messages"])


@pytest.mark.parametrize("mode", ["acceptEdits", "auto", "bypassPermissions"])
async def test_children_follow_the_mode_of_the_tree(mode: str) -> None:
    """A child whose type names no mode edits where the tree may."""
    async with world(script("general-purpose", WRITE), mode=mode) as w:
        await w.session.run("Go")

        assert (w.root / "new.txt").exists()


@pytest.mark.parametrize("own", ["plan", "dontAsk", "default"])
async def test_a_type_that_forbids_stays_stricter(own: str) -> None:
    """A type with a mode that forbids keeps it under bypassPermissions."""
    async with world(script("careful", WRITE), mode="bypassPermissions", agents=CAREFUL % own) as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()


@pytest.mark.parametrize(("settings", "made"), [("{}", False), (GRANT, True)])
async def test_the_setting_grants_edits_under_default(settings: str, *, made: bool) -> None:
    """Under default a typed child edits unasked only if the user's settings say so."""
    async with world(script("general-purpose", WRITE), settings=settings) as w:
        await w.session.run("Go")

        assert (w.root / "new.txt").exists() == made


@pytest.mark.parametrize("step", [PYTHON, HOOK])
async def test_the_setting_grants_edits_and_nothing_else(step: Step) -> None:
    """Programs and protected paths are still refused where nobody can answer."""
    async with world(script("general-purpose", step), settings=GRANT) as w:
        await w.session.run("Go")

        said = str(of(w, "BRIEF")[-1]["messages"])
        assert "42" not in said
        assert "is_error" in said
        assert not (w.root / ".git/hooks/x").exists()


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
async def test_the_setting_grants_nothing_where_the_tree_is_stricter(mode: str) -> None:
    """The grant is for `default`: plan mode and dontAsk stay what they are."""
    async with world(script("general-purpose", WRITE), settings=GRANT, mode=mode) as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()


async def test_the_main_agent_and_strict_types_have_nothing_of_the_grant() -> None:
    """The main agent is still asked, and so is a type that says `default`."""
    steps = Script(
        [WRITE, agent("BRIEF", "careful"), say("Waiting."), say("Done.")],
        {"BRIEF": [WRITE, say("Tried.")]},
    )
    async with world(steps, settings=GRANT, agents=CAREFUL % "default") as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()


async def test_a_folder_cannot_grant_edits_before_it_is_trusted() -> None:
    """The grant in a project's own settings is left out, with a warning."""
    files = {".prong/settings.json": GRANT}
    async with world(script("general-purpose", WRITE), files=files) as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("general-purpose", "claude-haiku-5-5"),
        ("Explore", "claude-haiku-5-5"),
        ("bare", "claude-haiku-5-5"),
        ("own", "claude-opus-5-5"),
        ("like", "claude-sonnet-5-5"),
        ("Plan", "claude-sonnet-5-5"),
    ],
)
async def test_the_model_of_types_that_name_none(kind: str, model: str) -> None:
    """`agents.model` is that of types that name none; `inherit` is a name, and Plan's."""
    types = (
        '{"bare": {"description": "d", "prompt": "p"},'
        ' "own": {"description": "d", "prompt": "p", "model": "claude-opus-5-5"},'
        ' "like": {"description": "d", "prompt": "p", "model": "inherit"}}'
    )
    settings = '{"agents": {"model": "claude-haiku-5-5"}}'
    steps = Script([agent("BRIEF", kind), say("Waiting."), say("Done.")], {"BRIEF": [say("ok")]})
    async with world(steps, settings=settings, agents=types) as w:
        await w.session.run("Go")

        assert of(w, "BRIEF")[0]["model"] == model
